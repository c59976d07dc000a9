"""A reply under way: the states of its table, one after the other."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.pending import Pending, completed, failed, started
from longhall.errors import Code, LonghallError


async def test_a_decided_reply_is_known_before_it_is_committed() -> None:
    pending: Pending[int] = Pending()
    done: list[Pending[int]] = []
    pending.when_done(done.append)
    assert not pending.known
    pending.decide(7)
    assert (pending.known, pending.done, pending.reply) == (True, False, 7)
    pending.committed(0)
    pending.committed(0)
    assert done == [pending]
    assert await pending == 7


async def test_a_reply_that_too_few_replicas_have_is_refused() -> None:
    pending: Pending[int] = Pending()
    pending.decide(7)
    pending.refused()
    with pytest.raises(LonghallError) as refused:
        await pending
    assert refused.value.code is Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_what_is_done_tells_its_outcome_at_once() -> None:
    seen: list[int] = []
    completed(3).when_done(lambda done: seen.append(done.result()))
    assert seen == [3]
    with pytest.raises(LonghallError):
        await failed(LonghallError(Code.STORAGE_FULL, ""))


async def test_a_task_produces_the_reply_or_the_error() -> None:
    async def work(error: Exception | None) -> int:
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return 5

    assert await started(work(None)) == 5
    with pytest.raises(OSError, match="disk"):
        await started(work(OSError("disk")))


async def test_a_caller_that_goes_away_cancels_what_only_waits() -> None:
    pending = started(asyncio.Event().wait())
    waiting = asyncio.ensure_future(pending.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0)
    assert isinstance(pending.error, asyncio.CancelledError)


async def test_what_changes_something_goes_on_without_its_caller() -> None:
    go_on = asyncio.Event()
    pending = started(go_on.wait())
    pending.keep()
    pending.cancel()
    await asyncio.sleep(0)
    assert not pending.done
    go_on.set()
    assert await pending is True


async def test_an_abandoned_reply_is_undone_and_not_shown() -> None:
    pending: Pending[list[str]] = Pending()
    undone: list[list[str]] = []
    pending.when_abandoned(undone.append)
    pending.decide(["a message"])
    pending.cancel()
    assert not pending.done
    pending.committed(0)
    assert undone == [["a message"]]
    with pytest.raises(asyncio.CancelledError):
        await pending


async def test_a_call_of_another_process_hears_of_the_cancellation() -> None:
    told: list[str] = []
    pending: Pending[None] = Pending()
    pending.when_cancelled(lambda: told.append("cancelled"))
    pending.cancel()
    pending.complete(None)
    assert told == ["cancelled"]
    assert isinstance(pending.error, asyncio.CancelledError)
