"""Load generators in C: compiled once, run to their end, and their reports read.

A generator is one C file without dependencies. It writes one JSON object to standard output, and times that it sampled
as int64 to a file. A client in Python would be slower than most servers.
"""

from __future__ import annotations

import array
import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.load.generator import RUN_SECONDS_MAX, LoadFailed

_ROOT = Path(__file__).resolve().parents[2]
_CACHE = _ROOT / ".cache" / "bench"

Option = str | int | float | Path


class Program:
    """A running generator; `finish` waits for its report, `abandon` ends it early.

    `samples` are the options whose values are files of samples; this class chooses the files.
    """

    def __init__(self, source: Path, words: list[str], samples: tuple[str, ...], options: dict[str, Option]) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-samples-")
        self._samples = {name: Path(self._scratch.name, name) for name in samples}
        self._words = [*words, *(f"{key}={value}" for key, value in {**self._samples, **options}.items())]
        self._name = source.stem
        self._process = subprocess.Popen(
            [str(compiled(source)), *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def running(self) -> bool:
        return self._process.poll() is None

    def read_line(self) -> str:
        """The next line that it writes, for a generator that says when it is ready."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.finish()
        return line

    def abandon(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._scratch.cleanup()

    def finish(self) -> tuple[dict[str, Any], dict[str, array.array[int]]]:
        """Wait for the end: the report, and the samples by name."""
        try:
            output, errors = self._process.communicate(timeout=RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.abandon()
            raise LoadFailed(f"{self._name} {' '.join(self._words)}: no end after {RUN_SECONDS_MAX:.0f} s") from None
        if self._process.returncode != 0:
            self._scratch.cleanup()
            raise LoadFailed(f"{self._name} {' '.join(self._words)}: {errors.strip()[-1500:]}")
        samples: dict[str, array.array[int]] = {}
        for name, path in self._samples.items():
            samples[name] = array.array("q")
            if path.exists():
                samples[name].frombytes(path.read_bytes())
        self._scratch.cleanup()
        return json.loads(output or "{}"), samples


def compiled(source: Path) -> Path:
    """The compiled generator."""
    mark = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    binary = _CACHE / f"{source.stem}-{mark}"
    if binary.exists():
        return binary
    compiler = shutil.which("cc")
    if compiler is None:
        raise LoadFailed("a C compiler is needed for the load generator; on Debian: apt-get install gcc libc6-dev")
    _CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [compiler, "-O2", str(source), "-o", str(binary)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise LoadFailed(f"{source.name} did not compile:\n{done.stderr}")
    return binary
