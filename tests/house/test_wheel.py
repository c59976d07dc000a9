"""The wheel in an environment of its own: it installs with its runtime dependencies alone, and serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.house.repository import ROOT
from tests.left_out import leave_out

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

BUILD = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"


def run(*command: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a program without the Python of the tests in its environment."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, env={**kept, **changes}, timeout=500)


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`longhall` of a wheel that was installed with the packages of requirements/runtime.txt into an empty environment.

    The wheel is plain: `./dev setup` builds the compiled one from the same sources.
    """
    home = tmp_path_factory.mktemp("wheel")
    uv = ROOT / ".venv" / "bin" / "uv"
    if not uv.exists():
        leave_out("the wheel: .venv has no uv, which ./dev installs")
    sources = home / "sources"
    copied = run("git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", sources)
    if copied.returncode != 0:
        leave_out(f"the wheel: the sources cannot be cloned ({copied.stderr.strip()[-100:]})")
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(home)],
        cwd=sources,
        env={**os.environ, "LONGHALL_COMPILE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    [wheel] = home.glob("longhall-*.whl")
    assert run(uv, "venv", "--quiet", "--python", sys.executable, home / "empty").returncode == 0
    python = home / "empty" / "bin" / "python"
    packages = ("pip", "install", "--quiet", "--offline", "--python", python)
    locked = run(uv, *packages, "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt")
    if locked.returncode != 0:
        leave_out("the wheel: the runtime packages are not in the cache, and tests fetch nothing")
    # Its own requirements are resolved here: one that the lock does not have would fail.
    done = run(uv, *packages, wheel)
    assert done.returncode == 0, done.stderr
    listed = run(uv, "pip", "list", "--quiet", "--python", python, "--format", "json").stdout
    names = {package["name"] for package in json.loads(listed)}
    assert "longhall" in names
    assert not names & {"pytest", "mypy", "pyspark", "confluent-kafka", "boto3", "setuptools"}
    return home / "empty" / "bin" / "longhall"


def test_it_serves_a_message_in_and_out(command: Path, tmp_path: Path) -> None:
    ready_file = tmp_path / "ready.json"
    doors = ("kafka", "sqs", "amqp", "stomp", "stomp-websocket", "management", "prometheus", "http")
    free = tuple(word for door in doors for word in (f"--{door}", "127.0.0.1:0"))
    words = [str(command), "serve", "--data", str(tmp_path / "data"), *free, "--ready-file", str(ready_file)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as node:
        try:
            deadline = time.monotonic() + 120
            while not ready_file.exists():
                assert node.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            address = json.loads(ready_file.read_text())["kafka"]
            lines = tmp_path / "lines"
            lines.write_text("hello\n")
            produced = run(command, "produce", "greetings", "--create", lines, "--address", address)
            assert produced.returncode == 0, produced.stderr
            assert run(command, "consume", "greetings", "--address", address).stdout == "hello\n"
        finally:
            node.terminate()
            assert node.wait(60) == 0
