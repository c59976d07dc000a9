"""Waiting for a commit, for callers that are coroutines. Hot paths hand a `Committable` to the shard instead.

Who sent a message is told that it is safe. If hosts were lost while it was under way, and those that are left are fewer
than `in_sync_min`, it is committed by them and stays, but its sender is told to try again: see `acknowledged`.
"""

from __future__ import annotations

import asyncio
from typing import final

from mypy_extensions import mypyc_attr

from longhall.broker.hall import Hall
from longhall.errors import Code, LonghallError
from longhall.shards.shard import ALL, ONE, Committable, Shard


@mypyc_attr(allow_interpreted_subclasses=True)
class Acknowledgeable(Committable):
    """Whoever waits for a message to be safe."""

    def refused(self) -> None:
        """It is committed, by too few."""
        raise NotImplementedError


@final
class Commit(Acknowledgeable):
    """A future that a commit fulfils."""

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def committed(self, value: int) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def refused(self) -> None:
        if not self.future.done():
            self.future.set_exception(too_few())


@final
class Guard(Committable):
    """Looks at the moment of the commit: what it was committed by is not known later."""

    def __init__(self, hall: Hall, target: Acknowledgeable, in_sync_min: int) -> None:
        self._hall = hall
        self._target = target
        self._in_sync_min = in_sync_min

    def committed(self, value: int) -> None:
        if self._hall.is_short_of(self._in_sync_min):
            self._target.refused()
        else:
            self._target.committed(value)


def too_few() -> LonghallError:
    """For whoever sent what is committed by too few."""
    return LonghallError(
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        "hosts were lost meanwhile, and it is kept by too few: try again",
    )


def when_committed(hall: Hall, shard: Shard, target: Committable, whom: int = ALL) -> None:
    """Call `target.committed(0)` when everything that was appended to the shard so far is committed, or kept by whom
    the caller is content with.

    What was appended last may belong to a topic that asked for no sync; now somebody does.
    """
    if shard.committed < shard.sequence:
        hall.journal.touch(shard, True)
        hall.commits.kick()
    shard.wait_for(whom, target, 0)


async def committed(hall: Hall, shard: Shard, whom: int = ALL) -> None:
    """Wait until everything that was appended to the shard so far is committed, or kept by whom that is enough for."""
    commit = Commit()
    when_committed(hall, shard, commit, whom)
    await commit.future


def when_acknowledged(hall: Hall, shard: Shard, target: Acknowledgeable, whom: int, in_sync_min: int = 0) -> None:
    """The same for a message that was sent: `target.refused()` if it is committed by too few, which is fewer than
    `in_sync_min`, or than the hall asks for if that is 0.
    """
    guarded = hall.leadership is not None and whom != ONE
    when_committed(hall, shard, Guard(hall, target, in_sync_min) if guarded else target, whom)


async def acknowledged(hall: Hall, shard: Shard, whom: int, in_sync_min: int = 0) -> None:
    """Wait until what was sent may be acknowledged. LonghallError(NOT_ENOUGH_REPLICAS_AFTER_APPEND) if it may not."""
    commit = Commit()
    when_acknowledged(hall, shard, commit, whom, in_sync_min)
    await commit.future
