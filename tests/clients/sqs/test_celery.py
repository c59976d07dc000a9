"""A Celery worker on the SQS transport: a real worker process, real tasks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from house.environment import ROOT
from tests.clients.conftest import eventually

SEND = """
import sys
from tests.clients.sqs import celery_tasks
for number in range(20):
    celery_tasks.add.delay(f"sum-{number}", number, 100)
celery_tasks.add.apply_async(("later", 1, 2), countdown=2)
celery_tasks.flaky.delay("flaky")
"""


@pytest.fixture
def environment(either_endpoint: str, tmp_path: Path, fresh_name: Callable[[str], str]) -> dict[str, str]:
    results = tmp_path / "results"
    results.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    paths = [str(ROOT), *filter(None, [kept.get("PYTHONPATH")])]
    return {
        **kept,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "CELERY_TEST_ENDPOINT": either_endpoint,
        "CELERY_TEST_QUEUE": fresh_name("celery"),
        "CELERY_TEST_RESULTS": str(results),
        "PYTHONPATH": os.pathsep.join(paths),
    }


@pytest.fixture
def worker(environment: dict[str, str], tmp_path: Path) -> Iterator[Path]:
    """A worker of its own process group, so that its pool ends with it; its log is what a failure needs."""
    log = tmp_path / "worker.log"
    command = ["-m", "celery", "-A", "tests.clients.sqs.celery_tasks", "worker", "--pool", "prefork"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command, "--concurrency", "2", "--loglevel", "INFO", "--without-mingle"],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_tasks_run_once_late_and_again(environment: dict[str, str], worker: Path) -> None:
    results = Path(environment["CELERY_TEST_RESULTS"])
    subprocess.run([sys.executable, "-c", SEND], env=environment, check=True, timeout=60, capture_output=True)
    names = [*(f"sum-{number}" for number in range(20)), "later", "flaky"]

    def done() -> bool:
        return all((results / name).exists() for name in names)

    try:
        eventually(done, "all tasks ran")
    except AssertionError as late:
        missing = [name for name in names if not (results / name).exists()]
        raise AssertionError(f"{late}: {missing}\n{worker.read_text(errors='replace')[-3000:]}") from None
    assert [(results / f"sum-{number}").read_text() for number in range(20)] == [str(n + 100) for n in range(20)]
    assert (results / "later").read_text() == "3"
    assert (results / "flaky.attempts").read_text() == "3"
