"""Waiting for a commit, for callers that are coroutines. Operations on messages have a `pending.Pending` instead."""

from __future__ import annotations

import asyncio
from typing import final

from longhall.broker.hall import Hall
from longhall.broker.pending import Acknowledgeable, too_few, when_acknowledged, when_committed
from longhall.shards.shard import ALL, Shard


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


async def committed(hall: Hall, shard: Shard, whom: int = ALL) -> None:
    """Wait until everything that was appended to the shard so far is committed, or kept by whom that is enough for."""
    commit = Commit()
    when_committed(hall, shard, commit, whom)
    await commit.future


async def acknowledged(hall: Hall, shard: Shard, whom: int, in_sync_min: int = 0) -> None:
    """Wait until what was sent may be acknowledged. LonghallError(NOT_ENOUGH_REPLICAS_AFTER_APPEND) if it may not."""
    commit = Commit()
    when_acknowledged(hall, shard, commit, whom, in_sync_min)
    await commit.future
