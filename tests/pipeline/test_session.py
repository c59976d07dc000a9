"""What keeps Spark from starting is said in one line, before anything has begun."""

from __future__ import annotations

import importlib.metadata
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from longhall.pipeline.refusals import PipelineError, one_line_reason
from longhall.pipeline.spark import check_java, check_pyspark, is_local


def fake_java(place: Path, says: str) -> Path:
    program = place / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return place


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PipelineError, match=r"Spark needs Java 17 or newer, and there is none on the path; on Debian:"):
        check_java()


def test_a_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=r"JAVA_HOME is .* which has no bin/java"):
        check_java()


@pytest.mark.parametrize(
    ("says", "version"), [('openjdk version "21.0.1" 2025', 21), ('java version "1.8.0_44"', 8), ("what", None)]
)
def test_the_version_of_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, version: int | None) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", says)))
    if version is not None and version >= 17:
        assert check_java() == version
        return
    with pytest.raises(PipelineError, match=r"Spark needs Java 17 or newer, and .* is Java"):
        check_java()


@pytest.mark.parametrize(("version", "fits"), [("4.1.1", False), ("4.2.0", True), ("4.3.0", True), ("5.0.0", False)])
def test_the_version_of_pyspark(monkeypatch: pytest.MonkeyPatch, version: str, fits: bool) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda package: version)
    if fits:
        assert check_pyspark() == version
        return
    with pytest.raises(PipelineError, match=f"PySpark {version} does not fit: it must be 4.2 or a later one below 5"):
        check_pyspark()


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,4]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://h:1", False),
    ],
)
def test_executors_that_are_processes_of_their_own_are_shipped_to(master: str, local: bool) -> None:
    assert is_local(master) is local


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow", "pandas"])
def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def version(package: str) -> str:
        if package == missing:
            raise importlib.metadata.PackageNotFoundError(package)
        return "4.3.0"

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(PipelineError, match=r"not installed.*pip install 'longhall\[spark\]'"):
        check_pyspark()


def test_the_reason_is_found_in_the_message_of_spark() -> None:
    wrapped = RuntimeError(
        "[PYTHON_EXCEPTION] An exception was thrown:\nTraceback (most recent call last):\n  File x, line 3\n"
        "longhall.pipeline.refusals.PipelineError: there is no topic a; look again\n\n\tat org.apache.spark.Thing"
    )
    assert one_line_reason(wrapped) == "there is no topic a; look again"
    assert one_line_reason(PipelineError("two\nlines")) == "two lines"
    assert one_line_reason(KeyError("a bug")) is None


def longhall(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "longhall.cli", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_broker_that_does_not_answer_is_one_line_and_its_exit_code() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = longhall("pipeline", "check", "--bootstrap", address)
    assert ended.returncode == 3
    assert ended.stderr == (f"longhall: no broker answers at {address}; is it running, and is that its address?\n")
    assert ended.stdout == ""


def test_a_pyspark_that_does_not_fit_is_one_line_of_the_command(tmp_path: Path) -> None:
    """What is installed says which version it is; here something older is found first."""
    told = tmp_path / "pyspark-3.5.1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark\nVersion: 3.5.1\n")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    ended = longhall("pipeline", "check", PYTHONPATH=path)
    assert ended.returncode == 1
    assert ended.stderr == (
        "longhall: PySpark 3.5.1 does not fit: it must be 4.2 or a later one below 5; pip install 'longhall[spark]'\n"
    )


def test_missing_java_is_one_line_of_the_command(tmp_path: Path) -> None:
    ended = longhall("pipeline", "check", JAVA_HOME=str(tmp_path))
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "Spark needs Java 17 or newer" in ended.stderr
