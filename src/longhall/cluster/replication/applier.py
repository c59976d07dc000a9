"""The applier of a replica: committed entries go to the state of the hall, some in each turn of the event loop.

It stops for good at the first entry that cannot be applied, and calls `on_failure`; nothing is applied after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from longhall.broker.apply import ReplicaFailed, apply_committed, apply_pending
from longhall.broker.replay import Replay
from longhall.shards.replica import Replica

APPLIED_A_TURN: Final = 256  # Entries between two turns of the loop.


@final
class Applier:
    """Applies the entries of one replica in order. `may_apply` is False while the replica has no leader to follow."""

    def __init__(
        self,
        replica: Replica,
        replay: Replay,
        may_apply: Callable[[], bool],
        on_failure: Callable[[ReplicaFailed], None],
    ) -> None:
        self.failure: ReplicaFailed | None = None
        self._replica = replica
        self._replay = replay
        self._may_apply = may_apply
        self._on_failure = on_failure
        self._scheduled = False
        self._loop = asyncio.get_running_loop()

    def schedule(self) -> None:
        """Apply what is committed at the next turn of the loop."""
        if not self._scheduled and self.failure is None and self._replica.applied < self._replica.committed:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    async def apply_all(self, goes_on: Callable[[], bool]) -> bool:
        """Apply everything that is pending, committed or not, as long as `goes_on` returns True. False if it stopped
        before the end.
        """
        while self._replica.pending:
            if self.failure is not None or not goes_on():
                return False
            try:
                apply_pending(self._replica, self._replay, APPLIED_A_TURN)
            except ReplicaFailed as failure:
                self._fail(failure)
                return False
            await asyncio.sleep(0)
        return self.failure is None and goes_on()

    def _turn(self) -> None:
        self._scheduled = False
        if self.failure is not None or not self._may_apply():
            return
        try:
            apply_committed(self._replica, self._replay, APPLIED_A_TURN)
        except ReplicaFailed as failure:
            self._fail(failure)
            return
        self.schedule()

    def _fail(self, failure: ReplicaFailed) -> None:
        self.failure = failure
        self._on_failure(failure)
