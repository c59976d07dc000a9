"""Signals during a job: they are noted, never raised within a call to Java; the work ends, then the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from longhall.cli.exits import CommandError, Exit
from longhall.cli.pipeline import interrupts
from longhall.cli.pipeline.interrupts import Interrupts
from longhall.cli.pipeline.spark_job import Job, ProgressDisplay

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture
def mine() -> Iterator[dict[int, Any]]:
    """The handlers before a test, which must be restored after it.

    A background process ignores SIGINT, so the usual handler is set first.
    """
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    before: dict[int, Any] = {each: signal.getsignal(each) for each in SIGNALS}
    yield before
    assert {each: signal.getsignal(each) for each in SIGNALS} == before
    signal.signal(signal.SIGINT, usual)


class Spark:
    """A session whose job blocks until it is cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    @property
    def sparkContext(self) -> Spark:
        return self

    def cancelAllJobs(self) -> None:
        self.cancelled.set()

    def collect(self) -> None:
        assert self.cancelled.wait(60)
        raise RuntimeError("Job 7 cancelled")


def job_of(spark: Spark, noted: Interrupts) -> Job:
    held: Any = spark
    return Job(held, "nowhere", ProgressDisplay(), noted)


def test_results_and_exceptions_of_the_work_are_passed_on(mine: dict[int, Any]) -> None:
    nothing: dict[str, int] = {}
    with Interrupts(clock=lambda: 0.0) as noted:
        assert noted.attend(lambda: 7, lambda: None) == 7
        with pytest.raises(KeyError, match="a bug"):
            noted.attend(lambda: nothing["a bug"], lambda: None)
        assert not noted.came


@pytest.mark.parametrize("number", SIGNALS)
def test_waiting_work_ends_with_its_result_after_a_signal(
    mine: dict[int, Any], number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    """`timeout` sends its signal twice at once; that is one interrupt."""
    with Interrupts(clock=lambda: 0.0) as noted:
        job = job_of(Spark(), noted)

        def work() -> str:
            for _ in range(2):
                os.kill(os.getpid(), number)
            assert job.wait(60)
            return "so far"

        assert job.attend(work, once=False) == "so far"
        assert noted.came
    assert capsys.readouterr().err == "stopped; the same command goes on where it was\n"


@pytest.mark.parametrize("number", SIGNALS)
def test_work_blocked_in_spark_is_cancelled_and_the_command_fails(
    mine: dict[int, Any], number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "GRACE_S", 0.01)
    with Interrupts(clock=lambda: 0.0) as noted:
        spark = Spark()

        def work() -> None:
            os.kill(os.getpid(), number)
            spark.collect()

        with pytest.raises(CommandError, match=r"^interrupted; the same command goes on where it was$") as ended:
            job_of(spark, noted).attend(work, once=True)
    assert ended.value.exit_code is Exit.INTERRUPTED


def test_work_that_does_not_end_is_abandoned(mine: dict[int, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "GRACE_S", 0.01)
    for_ever = threading.Event()

    def gone() -> None:
        raise ConnectionError("Java is gone")

    for cancel in (gone, lambda: None):
        with Interrupts(clock=lambda: 0.0) as noted:

            def work() -> None:
                os.kill(os.getpid(), signal.SIGINT)
                for_ever.wait(60)

            assert noted.attend(work, cancel) is None
            assert noted.came
    for_ever.set()


def test_both_signals_interrupt_before_the_work_starts(mine: dict[int, Any]) -> None:
    for number in SIGNALS:
        with pytest.raises(KeyboardInterrupt), Interrupts():
            signal.raise_signal(number)


TWICE = """
import os, signal, sys, threading
from longhall.cli.pipeline.interrupts import AGAIN_S, Interrupts

now = iter((0.0, AGAIN_S))
with Interrupts(clock=lambda: next(now)) as noted:
    def work():
        for _ in range(2):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            noted.wait(60)
        threading.Event().wait(60)
    noted.attend(work, lambda: None)
"""


def test_a_second_signal_ends_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (Exit.INTERRUPTED, "")
