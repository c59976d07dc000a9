"""Background tasks: a failure is counted and shown, the task is started again, a fatal one stops the node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from longhall.broker.background import PAUSE_S_MAX, SETTLED_S, BackgroundTasks
from simulation.world import Simulation


def played(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """In virtual time."""
    Simulation(1).run(play())


def test_a_task_that_fails_is_counted_and_started_again_until_it_returns() -> None:
    async def play() -> None:
        stopped: list[Exception] = []
        background = BackgroundTasks(stopped.append)
        runs: list[str] = []

        async def work() -> None:
            runs.append("run")
            if len(runs) < 4:
                raise ValueError(f"the disk said no {len(runs)} times")

        task = background.start("sweep", work)
        await asyncio.sleep(0)
        assert dict(background.failing) == {"sweep": "the disk said no 1 times"}
        await task
        assert runs == ["run"] * 4
        assert background.failures["sweep"] == 3
        assert not background.failing
        assert stopped == []

    played(play)


def test_a_restarted_task_stops_failing_after_a_while() -> None:
    async def play() -> None:
        background = BackgroundTasks(_must_not_stop)
        runs: list[str] = []

        async def work() -> None:
            runs.append("run")
            if len(runs) == 1:
                raise ValueError("once")
            await asyncio.Event().wait()

        task = background.start("expire", work)
        await asyncio.sleep(SETTLED_S / 2)
        assert "expire" in background.failing
        await asyncio.sleep(SETTLED_S)
        assert not background.failing
        task.cancel()

    played(play)


def test_a_fatal_task_stops_the_node_and_is_not_started_again() -> None:
    async def play() -> None:
        stopped: list[Exception] = []
        background = BackgroundTasks(stopped.append)
        error = KeyError("lost")

        async def work() -> None:
            raise error

        await background.start("in-sync set", work, fatal=True)
        assert stopped == [error]
        await asyncio.sleep(2 * PAUSE_S_MAX)
        assert background.failures["in-sync set"] == 1

    played(play)


def test_a_stopping_node_skips_the_pause() -> None:
    async def play() -> None:
        background = BackgroundTasks(_must_not_stop)

        async def work() -> None:
            raise ValueError("again and again")

        task = background.start("stage", work)
        await asyncio.sleep(0)
        background.close()
        await task
        assert background.failures["stage"] == 1

    played(play)


def test_a_task_may_report_a_handled_failure() -> None:
    async def play() -> None:
        background = BackgroundTasks(_must_not_stop)
        background.failed("checkpoint", OSError(28, "no space"))
        assert dict(background.failing) == {"checkpoint": "[Errno 28] no space"}
        background.succeeded("checkpoint")
        assert not background.failing
        assert background.failures["checkpoint"] == 1

    played(play)


def _must_not_stop(error: Exception) -> None:
    raise AssertionError(error)
