"""The builds of Longhall in `.venv`: each in a directory of its own, and one of them is active.

    .venv/builds/HASH-plain/       a copy of the sources
    .venv/builds/HASH-compiled/    the contents of a compiled wheel
    site-packages/longhall.pth     one line, the path of the active build

A build is made beside the others and renamed when it is whole; activating it replaces `longhall.pth` by a rename. So an
interrupted build changes nothing, and a node that runs keeps the files that it started from.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import tomllib
import zipfile
from pathlib import Path
from typing import Final

from house.environment import COMMAND, PYTHON, ROOT, VENV, must, say_progress

BUILDS: Final = VENV / "builds"
SITE_PACKAGES: Final = VENV / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
POINTER: Final = SITE_PACKAGES / "longhall.pth"
PLAIN: Final = "plain"
COMPILED: Final = "compiled"
KEPT_BUILDS_MAX: Final = 4  # A return to an earlier state is quick, and nodes of earlier builds go on.
HASH_DIGITS: Final = 16
SHEBANG_BYTES_MAX: Final = 120
BUILD_S_MAX: Final = 24 * 3600  # No build takes longer: what is older was broken off.

_BUILD_WHEEL: Final = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


def directory(sources: str, kind: str) -> Path:
    """The place of a build of these sources."""
    return BUILDS / f"{sources[:HASH_DIGITS]}-{kind}"


def active() -> Path | None:
    """The active build; None if there is none or it is gone."""
    try:
        path = Path(POINTER.read_text().strip())
    except OSError:
        return None
    return path if path.is_dir() and COMMAND.exists() else None


def make_plain(sources: str) -> Path:
    """Copy the sources, with the metadata that an installed package has."""
    target = directory(sources, PLAIN)
    if target.exists():
        return target
    fresh = _fresh(target)
    shutil.copytree(ROOT / "src" / "longhall", fresh / "longhall", ignore=shutil.ignore_patterns("__pycache__"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    metadata = fresh / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    lines = ("Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}")
    (metadata / "METADATA").write_text("\n".join(lines) + "\n")
    return _finished(fresh, target)


def make_from_wheel(sources: str) -> tuple[Path, str]:
    """Build a wheel, compiled if the machine can, and unpack it; returns the place and what the build printed."""
    for stale in (ROOT / "build").glob("lib*"):
        shutil.rmtree(stale)  # Otherwise deleted and renamed modules would stay installed.
    _remove_oldest(ROOT / "build" / "hot", KEPT_BUILDS_MAX)
    scratch = _fresh(BUILDS / "wheel")
    output = must([PYTHON, "-c", _BUILD_WHEEL, scratch], "the build", on_line=say_progress)
    [wheel] = scratch.glob("*.whl")
    unpacked = scratch / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    kind = COMPILED if any(unpacked.glob("longhall__mypyc*.so")) else PLAIN
    target = _finished(unpacked, directory(sources, kind))
    shutil.rmtree(scratch)
    return target, output


def activate(build: Path) -> None:
    """Make a build the one that `.venv/bin/longhall` and the tests run."""
    old = SITE_PACKAGES / "longhall"
    if old.is_dir():  # An earlier version of this file installed it there, where it would hide every build.
        must([VENV / "bin" / "uv", "pip", "uninstall", "--quiet", "--python", PYTHON, "longhall"], "uninstalling")
    _replace(POINTER, f"{build}\n")
    _replace(COMMAND, _script(), 0o755)
    os.utime(build)
    _remove_oldest(BUILDS, KEPT_BUILDS_MAX)


def _script() -> str:
    python = str(PYTHON)
    first = f"#!{python}\n"
    if len(first) > SHEBANG_BYTES_MAX or " " in python:  # More than a kernel reads: a shell starts it instead.
        first = f"#!/bin/sh\n'''exec' '{python}' \"$0\" \"$@\"\n' '''\n"
    return f"{first}import sys\n\nfrom longhall.cli.main import main\n\nsys.exit(main())\n"


def _fresh(target: Path) -> Path:
    """An empty directory for a build that is being made, of this process alone."""
    fresh = target.with_name(f"{target.name}.fresh-{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    return fresh


def _finished(fresh: Path, target: Path) -> Path:
    try:
        fresh.rename(target)
    except OSError:  # Another process has made the same build meanwhile.
        if not target.is_dir():
            raise
        shutil.rmtree(fresh)
    return target


def _replace(path: Path, text: str, mode: int = 0o644) -> None:
    fresh = path.with_name(f"{path.name}.fresh-{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(mode)
    fresh.rename(path)


def _remove_oldest(place: Path, kept_max: int) -> None:
    whole = [path for path in place.glob("*") if ".fresh-" not in path.name]
    broken_off = [path for path in place.glob("*.fresh-*") if path.stat().st_mtime < time.time() - BUILD_S_MAX]
    for old in sorted(whole, key=lambda path: path.stat().st_mtime)[:-kept_max] + broken_off:
        shutil.rmtree(old)
