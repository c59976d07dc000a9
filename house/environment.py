"""Brings `.venv` up to date with the lock files and the sources; does nothing if it is current.

Two hashes in `.venv/longhall.json` decide: one of the lock files, one of all files that are installed as Longhall. The
installed files are a copy, compiled where the machine can; `PYTHONPATH=src` runs the sources themselves.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
COMMAND = VENV / "bin" / "longhall"
STATE = VENV / "longhall.json"
APT_TIMEOUT_S = 600
KEPT_BUILDS_MAX = 4  # Compiled hot rooms, by hash, so that a return to an earlier state is quick.


class Failed(Exception):
    """An error that the user has to fix; the message says how."""


def say(text: str) -> None:
    """Print one line to the terminal, apart from the output of the command itself."""
    print(f"longhall: {text}", file=sys.stderr, flush=True)


def child_environment(**changes: str) -> dict[str, str]:
    """The environment of child processes, without the caller's Python settings."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }
    return {**kept, **changes}


def _hash(paths: Iterable[Path], *words: str) -> str:
    digest = hashlib.sha256("\0".join(words).encode())
    for path in paths:
        content = path.read_bytes()
        digest.update(f"\0{path.relative_to(ROOT)} {len(content)}\0".encode() + content)
    return digest.hexdigest()


def locks_hash() -> str:
    """A hash that changes with any pinned version."""
    return _hash(sorted((ROOT / "requirements").glob("*.txt")), sys.version)


def sources_hash() -> str:
    """A hash that changes with any installed file."""
    sources = sorted(path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix in (".py", ".typed"))
    mode = os.environ.get("LONGHALL_COMPILE", "auto")
    return _hash([ROOT / "pyproject.toml", ROOT / "setup.py", *sources], mode, sys.version)


def _read_state() -> dict[str, str]:
    try:
        state = json.loads(STATE.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _write_state(state: Mapping[str, str]) -> None:
    fresh = STATE.with_suffix(".fresh")
    fresh.write_text(json.dumps(state, indent=1) + "\n")
    fresh.rename(STATE)


def _run(command: Sequence[str | Path], **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=child_environment(**changes),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def _must(command: Sequence[str | Path], what: str, **changes: str) -> str:
    done = _run(command, **changes)
    if done.returncode != 0:
        raise Failed(f"{what} failed:\n{done.stdout.rstrip()}")
    return done.stdout


def _pinned_uv() -> Path:
    """The installer, at its pinned version, inside `.venv`: the machine needs none."""
    uv = VENV / "bin" / "uv"
    pin = ROOT / "requirements" / "uv.txt"
    wanted = pin.read_text().split("==")[1].split()[0]
    if uv.exists() and f"uv {wanted} " in _run([uv, "--version"]).stdout + " ":
        return uv
    if _run([PYTHON, "-m", "pip", "--version"]).returncode != 0:
        _must([PYTHON, "-m", "ensurepip", "--default-pip"], "putting pip into .venv")
    _must([PYTHON, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", pin], "installing uv")
    return uv


def _install_packages() -> None:
    uv = _pinned_uv()
    # Offline first: with a warm cache that takes a fraction of a second, while online every version is looked up again.
    command: list[str | Path] = [
        "pip",
        "install",
        "--quiet",
        "--python",
        PYTHON,
        "--require-hashes",
        "-r",
        "requirements/dev.txt",
    ]
    if _run([uv, "--offline", *command]).returncode != 0:
        say("fetching the pinned packages")
        _must([uv, *command], "installing the pinned packages")


def _install_longhall() -> dict[str, str]:
    """Install a copy of the sources, compiled if possible; returns which of the two it is."""
    for stale in (ROOT / "build").glob("lib*"):
        shutil.rmtree(stale)  # Otherwise deleted and renamed modules would stay installed.
    kept = sorted((ROOT / "build" / "hot").glob("*"), key=lambda path: path.stat().st_mtime)
    for old in kept[:-KEPT_BUILDS_MAX]:
        shutil.rmtree(old)
    command: list[str | Path] = [
        "pip",
        "install",
        "--python",
        PYTHON,
        "--offline",
        "--no-deps",
        "--no-build-isolation",
        "--no-cache",
    ]
    output = _must([VENV / "bin" / "uv", *command, "--reinstall-package", "longhall", "--verbose", "."], "the build")
    if any(_site_packages().glob("longhall__mypyc*.so")):
        return {"build": "compiled", "reason": ""}
    if os.environ.get("LONGHALL_COMPILE", "auto") == "0":
        return {"build": "plain", "reason": "LONGHALL_COMPILE=0"}
    if (missing := obstacle()) is not None:
        return {"build": "plain", "reason": missing, "obstacle": missing}
    said = [line.split("not compiled: ", 1)[1] for line in output.splitlines() if "not compiled: " in line]
    errors = [line.removeprefix("DEBUG").strip() for line in output.splitlines() if ": error:" in line]
    return {"build": "plain", "reason": "; ".join([*said[:1], *errors[:5]]) or "unknown"}


def _site_packages() -> Path:
    return VENV / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def obstacle() -> str | None:
    """The reason why this machine cannot compile, as the build script reports it; None if it can."""
    look = runpy.run_path(str(ROOT / "setup.py"), run_name="looked_at")["obstacle"]
    return cast("str | None", look())


def _is_current(state: Mapping[str, str], locks: str, sources: str) -> bool:
    if state.get("locks") != locks or state.get("sources") != sources or not COMMAND.exists():
        return False
    # Not compiled because there was no compiler: it may have been installed since.
    return not state.get("obstacle") or state["obstacle"] == obstacle()


def installed_is_current() -> bool:
    """True if the installed copy was made from the present sources."""
    return _read_state().get("sources") == sources_hash()


def ensure_packages() -> None:
    """Bring the packages in `.venv` up to date, without Longhall itself: enough to run the plain sources."""
    locks = locks_hash()
    if _read_state().get("locks") == locks:
        return
    with open(VENV / "longhall.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _read_state().get("locks") != locks:
            _install_packages()
            _write_state({"locks": locks})


def ensure_environment() -> dict[str, str]:
    """Bring `.venv` up to date, once even if several processes ask at the same time; returns what is installed."""
    state, locks, sources = _read_state(), locks_hash(), sources_hash()
    if _is_current(state, locks, sources):
        return state
    with open(VENV / "longhall.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = _read_state()
        if state.get("locks") != locks:
            _install_packages()
            state = {"locks": locks}
            _write_state(state)
        if not _is_current(state, locks, sources):
            _ensure_compiler()
            say("installing longhall, with its hot rooms compiled where possible")
            state = {"locks": locks, "sources": sources, **_install_longhall()}
            _write_state(state)
            if state["build"] == "plain":
                say(f"runs as plain Python, slower: {state['reason']}")
    return state


def install_system_packages(packages: Sequence[str], purpose: str) -> bool:
    """Install Debian packages if permitted (as root, unless LONGHALL_APT=0); otherwise print the command."""
    command = f"apt-get install {' '.join(packages)}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None or os.environ.get("LONGHALL_APT", "1") == "0":
        say(f"missing for {purpose}; on Debian: {command}")
        return False
    say(f"installing for {purpose}: {' '.join(packages)}")
    try:
        for words in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *packages]):
            done = subprocess.run(
                ["apt-get", *words],
                env=child_environment(DEBIAN_FRONTEND="noninteractive"),
                capture_output=True,
                text=True,
                timeout=APT_TIMEOUT_S,
                check=False,
            )
            if done.returncode != 0 and words[0] == "install":
                say(f"{command} failed: {done.stderr.strip()[-400:]}")
                return False
    except subprocess.TimeoutExpired:
        say(f"{command} took longer than {APT_TIMEOUT_S} s and was stopped")
        return False
    return True


def _ensure_compiler() -> None:
    if os.environ.get("LONGHALL_COMPILE", "auto") == "0":
        return
    if obstacle() is not None:
        packages = ["gcc", "libc6-dev"]
        if str(Path(sys.base_prefix)) == "/usr":
            packages.append("python3-dev")  # Any other Python has its own headers, or none.
        install_system_packages(packages, "compiling the hot rooms")


def ensure_java() -> None:
    """Install Java, which Spark, the Java client of the suite and the Kafka of the benchmarks need. Serving needs
    none.
    """
    if shutil.which("javac") is None:
        install_system_packages(["default-jdk-headless"], "Spark, the tests with the Java client and the benchmarks")
