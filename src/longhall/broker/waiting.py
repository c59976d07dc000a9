"""Waiting for a commit, for callers that are coroutines. Hot paths hand a `Committable` to the shard instead."""

from __future__ import annotations

import asyncio
from typing import final

from longhall.broker.hall import Hall
from longhall.shards.shard import ALL, Committable, Shard


@final
class Commit(Committable):
    """A future that a commit fulfils."""

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def committed(self, value: int) -> None:
        if not self.future.done():
            self.future.set_result(None)


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
