"""Brings `.venv` up to date with the lock files and the sources; does nothing if it is current.

Hashes in `.venv/longhall.json` decide: one of each lock file whose packages are installed, and one of all files that
are installed as Longhall. The installed files are a copy (`house/builds.py`), compiled where the machine can;
`PYTHONPATH=src` runs the sources themselves.

A node needs the packages of runtime.txt alone, compiling those of build.txt as well; dev.txt has both and the tests'.
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
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
COMMAND = VENV / "bin" / "longhall"
STATE = VENV / "longhall.json"
BUILD_LOG = VENV / "build.log"
APT_TIMEOUT_S = 600

# Settings of the caller's Python. Without bytecode a node starts three times as slowly.
CALLERS_OWN: Final = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"})

# The lock files in requirements/.
RUNTIME: Final = "runtime"
BUILD: Final = "build"
DEV: Final = "dev"

BUILD_ONLY: Final = "--build-only"  # An argument of `setup`: compile with the packages of build.txt.
COMPILING: Final = "the hot rooms are being compiled"


class Failed(Exception):
    """An error that the user has to fix; the message says how."""


def say(text: str) -> None:
    """Print one line to the terminal, apart from the output of the command itself."""
    print(f"longhall: {text}", file=sys.stderr, flush=True)


def child_environment(**changes: str) -> dict[str, str]:
    """The environment of child processes, without the caller's Python settings."""
    return {**{name: value for name, value in os.environ.items() if name not in CALLERS_OWN}, **changes}


def _hash(paths: Iterable[Path], *words: str) -> str:
    digest = hashlib.sha256("\0".join(words).encode())
    for path in paths:
        content = path.read_bytes()
        digest.update(f"\0{path.relative_to(ROOT)} {len(content)}\0".encode() + content)
    return digest.hexdigest()


def lock_hash(lock: str) -> str:
    """A hash that changes with any pinned version of a lock file."""
    return _hash([ROOT / "requirements" / f"{lock}.txt", ROOT / "requirements" / "uv.txt"], sys.version)


def sources_hash() -> str:
    """A hash that changes with any installed file."""
    sources = sorted(path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix in (".py", ".typed"))
    mode = "0" if os.environ.get("LONGHALL_COMPILE", "auto") == "0" else "auto"
    return _hash([ROOT / "pyproject.toml", ROOT / "setup.py", *sources], mode, sys.version)


def _read_state() -> dict[str, str]:
    try:
        state = json.loads(STATE.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _update_state(**changes: str) -> None:
    with _locked("state"):
        fresh = STATE.with_suffix(".fresh")
        fresh.write_text(json.dumps({**_read_state(), **changes}, indent=1) + "\n")
        fresh.rename(STATE)


def _run(
    command: Sequence[str | Path], on_line: Callable[[str], None] | None = None, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; `on_line` sees each line of its output as it comes."""
    words = [str(part) for part in command]
    lines: list[str] = []
    with subprocess.Popen(
        words,
        cwd=ROOT,
        env=child_environment(**changes),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            lines.append(line)
            if on_line is not None:
                on_line(line)
    return subprocess.CompletedProcess(words, running.returncode, "".join(lines))


def must(command: Sequence[str | Path], what: str, on_line: Callable[[str], None] | None = None, **changes: str) -> str:
    """Run a program that has to succeed; returns what it printed. Raises Failed with the output otherwise."""
    done = _run(command, on_line, **changes)
    if done.returncode != 0:
        raise Failed(f"{what} failed:\n{done.stdout.rstrip()}")
    return done.stdout


def say_progress(line: str) -> None:
    """Pass on what the build script says itself."""
    if line.startswith("longhall: "):
        say(line.removeprefix("longhall: ").rstrip())


def _pinned_uv() -> Path:
    """The installer, at its pinned version, inside `.venv`: the machine needs none."""
    uv = VENV / "bin" / "uv"
    pin = ROOT / "requirements" / "uv.txt"
    wanted = pin.read_text().split("==")[1].split()[0]
    if uv.exists() and f"uv {wanted} " in _run([uv, "--version"]).stdout + " ":
        return uv
    say(f"installing uv {wanted}")
    if _run([PYTHON, "-m", "pip", "--version"]).returncode != 0:
        must([PYTHON, "-m", "ensurepip", "--default-pip"], "putting pip into .venv")
    must([PYTHON, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", pin], "installing uv")
    return uv


def _has_packages(state: Mapping[str, str], lock: str) -> bool:
    """True if the packages of a lock file are installed; those of dev.txt include all others."""
    return any(state.get(f"packages_{each}") == lock_hash(each) for each in dict.fromkeys((lock, DEV)))


def _install_packages(lock: str) -> None:
    uv = _pinned_uv()
    file = f"requirements/{lock}.txt"
    count = sum("==" in line for line in (ROOT / file).read_text().splitlines())
    say(f"installing the {count} packages of {file}")
    # Offline first: with a warm cache that takes a fraction of a second, while online every version is looked up again.
    command = ["pip", "install", "--quiet", "--python", str(PYTHON), "--require-hashes", "-r", file]
    if _run([uv, "--offline", *command]).returncode != 0:
        say("fetching them, since not all are in the cache")
        must([uv, *command], "installing the pinned packages")


def obstacle() -> str | None:
    """The reason why this machine cannot compile, as the build script reports it; None if it can."""
    return cast("str | None", _build_script("obstacle")())


def hot_files() -> list[Path]:
    """The files that are compiled, as the build script lists them."""
    return cast("list[Path]", _build_script("hot_files")())


def _build_script(function: str) -> Callable[[], object]:
    found = runpy.run_path(str(ROOT / "setup.py"), run_name="looked_at")[function]
    return cast("Callable[[], object]", found)


def installed_is_current() -> bool:
    """True if the installed copy was made from the present sources."""
    return _read_state().get("sources") == sources_hash()


def ensure_packages(lock: str = DEV) -> None:
    """Bring the packages in `.venv` up to date, without Longhall itself: enough to run the plain sources."""
    if _has_packages(_read_state(), lock):
        return
    with _locked("packages"):
        state = _read_state()
        if not _has_packages(state, lock):
            _install_packages(lock)
            _update_state(**{f"packages_{lock}": lock_hash(lock)})


@contextmanager
def _locked(name: str, wait: bool = True) -> Iterator[bool]:
    """Hold a lock of `.venv`; yields False if another process has it and this one does not wait."""
    with open(VENV / f"{name}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                yield False
                return
            say(f"waiting for another ./dev that works on the {name} in .venv")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield True


def ensure_environment(lock: str = DEV) -> dict[str, str]:
    """Bring `.venv` up to date, once even if several processes ask at the same time; returns what is installed."""
    ensure_packages(lock)
    if not _is_current(_read_state()):
        with _locked("build"):
            if not _is_current(_read_state()):
                _ensure_compiler()
                _build()
    return _read_state()


def _is_current(state: Mapping[str, str]) -> bool:
    from house import builds

    if state.get("sources") != sources_hash() or builds.active() is None:
        return False
    if state["build"] != builds.COMPILED and state.get("reason") == COMPILING:
        return False
    # Not compiled because there was no compiler: it may have been installed since.
    return not state.get("obstacle") or state["obstacle"] == obstacle()


def _build() -> None:
    """Build Longhall from the present sources, compiled if possible, and activate it."""
    from house import builds

    started = time.monotonic()
    sources, mode = sources_hash(), os.environ.get("LONGHALL_COMPILE", "auto")
    facts = {"build": builds.PLAIN, "reason": "", "obstacle": ""}
    made = builds.directory(sources, builds.COMPILED)
    if not made.exists():
        if mode == "0":
            facts["reason"] = "LONGHALL_COMPILE=0"
            made = builds.make_plain(sources)
        else:
            say("building longhall, with its hot rooms compiled where possible")
            made, output = builds.make_from_wheel(sources)
            facts["reason"], facts["obstacle"] = _reason(output)
    if made == builds.directory(sources, builds.COMPILED):
        facts = {"build": builds.COMPILED, "reason": "", "obstacle": ""}
    builds.activate(made)
    _update_state(sources=sources, **facts)
    say(f"built in {time.monotonic() - started:.0f} s")
    if facts["reason"]:
        say(f"runs as plain Python, slower: {facts['reason']}")


def _reason(output: str) -> tuple[str, str]:
    """The reason why a build is plain, and the part of it that an installed compiler would remove."""
    if (missing := obstacle()) is not None:
        return missing, missing
    said = [line.split("not compiled: ", 1)[1] for line in output.splitlines() if "not compiled: " in line]
    errors = [line.strip() for line in output.splitlines() if ": error:" in line]
    return "; ".join([*said[:1], *errors[:5]]) or "unknown", ""


def ensure_node() -> dict[str, str]:
    """Bring `.venv` so far that a node can start: runtime packages and, if nothing is compiled yet, a plain copy.

    The hot rooms are then compiled by another process, for the next start.
    """
    from house import builds

    if os.environ.get("LONGHALL_COMPILE", "auto") != "auto":
        return ensure_environment(RUNTIME if os.environ["LONGHALL_COMPILE"] == "0" else BUILD)
    ensure_packages(RUNTIME)
    if _is_current(_read_state()):
        return _read_state()
    with _locked("build", wait=False) as free:
        sources = sources_hash()
        compiled = builds.directory(sources, builds.COMPILED)
        if compiled.exists():
            builds.activate(compiled)
            _update_state(sources=sources, build=builds.COMPILED, reason="", obstacle="")
            return _read_state()
        builds.activate(builds.make_plain(sources))
        missing = obstacle() or ""
        _update_state(sources=sources, build=builds.PLAIN, reason=missing or COMPILING, obstacle=missing)
    if missing:
        say(f"runs as plain Python, slower: {missing}")
        return _read_state()
    if free:
        _start_build()
    say(f"runs as plain Python now; the next start is compiled ({BUILD_LOG.relative_to(ROOT)} shows the progress)")
    return _read_state()


def _start_build() -> None:
    """Compile in a process that is no child of the node, at a lower priority."""
    words = [str(PYTHON), "-I", str(ROOT / "house"), "setup", BUILD_ONLY]
    with open(BUILD_LOG, "w") as log:
        subprocess.run(
            ["/bin/sh", "-c", 'nice "$@" &', "sh", *words],
            check=True,
            cwd=ROOT,
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


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
