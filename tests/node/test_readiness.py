"""Readiness of a lone node: each reason for which a send would fail is told."""

from __future__ import annotations

from typing import Any

from longhall.broker.hall import Hall
from longhall.errors import Code
from longhall.front.admission import Budget
from longhall.node.readiness import Readiness
from tests.broker.desk import Desk, Life


def told(change: Any) -> str | None:
    """What is said after `change(hall, budget)`."""

    async def play(life: Life) -> str | None:
        budget = Budget(1000)
        readiness = Readiness(life.hall, budget)
        assert await readiness.trouble() == "starting"
        readiness.state = None
        assert await readiness.trouble() is None
        change(life.hall, budget)
        return await readiness.trouble()

    said: str | None = Desk().live(play)
    return said


def test_each_reason_is_told() -> None:
    def full(hall: Hall, budget: Budget) -> None:
        hall.storage_full = True

    def failed(hall: Hall, budget: Budget) -> None:
        hall.commits.on_failure = None
        hall.commits.fail(OSError(5, "a sync failed"))

    def exhausted(hall: Hall, budget: Budget) -> None:
        budget.take(1000)

    def failing(hall: Hall, budget: Budget) -> None:
        hall.background.failed("checkpoint", OSError(28, "no space"))

    def short(hall: Hall, budget: Budget) -> None:
        hall.refusal = Code.NOT_ENOUGH_REPLICAS

    assert told(full) == "the disk is full or takes no writes: messages are refused"
    assert told(failed) == "the disk failed: [Errno 5] a sync failed"
    assert told(exhausted) == "the memory budget is exhausted"
    assert told(failing) == "the background task 'checkpoint' fails: [Errno 28] no space"
    assert told(short) == "too few nodes are in sync"


def test_several_reasons_are_told_together() -> None:
    def both(hall: Hall, budget: Budget) -> None:
        hall.storage_full = True
        hall.background.failed("checkpoint", OSError(28, "no space"))

    said = told(both)
    assert said is not None
    assert "checkpoint" in said
    assert "the disk is full" in said
