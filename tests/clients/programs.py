"""Programs in other languages: fetches their libraries once into the cache, runs them, and reads their JSON lines.

A program prints `{"case": name, "saw": {...}}` for every case, or `"failed"` with the reason. It only reports; the
tests check the reports.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from house.environment import ROOT
from tests.left_out import leave_out

CACHE = ROOT / ".cache" / "clients"
FETCH_SECONDS_MAX = 300
RUN_SECONDS_MAX = 150

CHOSEN = "LONGHALL_TEST_CASES"  # Names one case of each program; without it they run all of them.

Saw = Callable[[str], Any]


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Wait until no other process makes what has this name: parts of the suite run at the same time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def digest_of(files: Sequence[Path]) -> str:
    """A short hash of the contents of files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def fetched(name: str, files: Sequence[Path], command: Sequence[str]) -> Path:
    """A directory with the files and what `command` fetched for them; made once for each content of the files."""
    directory = CACHE / f"{name}-{digest_of(files)}"
    with alone(directory.name):
        if not (directory / "fetched").exists():
            _fetch(name, directory, files, command)
    return directory


def _fetch(name: str, directory: Path, files: Sequence[Path], command: Sequence[str]) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for file in files:
        shutil.copy(file, directory)
    try:
        subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX)
    except subprocess.CalledProcessError as error:
        leave_out(f"{name}: its libraries could not be fetched: {(error.stderr or error.stdout).strip()[-300:]}")
    except subprocess.TimeoutExpired:
        leave_out(f"{name}: its libraries were not fetched within {FETCH_SECONDS_MAX} s")
    (directory / "fetched").touch()


def run_cases(command: Sequence[str]) -> Saw:
    """Run the program to its end and give a function from a case's name to what it saw."""
    chosen = [os.environ[CHOSEN]] if CHOSEN in os.environ else []
    try:
        ended = subprocess.run([*command, *chosen], capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
        output, errors = ended.stdout, ended.stderr
    except subprocess.TimeoutExpired as late:
        output, errors = _text(late.stdout), f"not within {RUN_SECONDS_MAX} s\n{_text(late.stderr)}"
    cases = {line["case"]: line for line in map(json.loads, output.splitlines())}

    def saw(name: str) -> Any:
        assert name in cases, f"the case {name} did not come to its end:\n{errors[-3000:]}"
        assert "failed" not in cases[name], cases[name]["failed"]
        return cases[name]["saw"]

    return saw


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
