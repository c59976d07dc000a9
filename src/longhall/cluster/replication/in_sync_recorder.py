"""The recorder of the in-sync set: the leader's changes of the set, written to the coordinator one at a time.

A change counts only when the coordinator has recorded it (`shards.commit_tracker`). While the coordinator does not
answer, every heartbeat tries again.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Protocol, final

from longhall.broker.background import BackgroundTasks
from longhall.cluster.replication.roles import GroupRecord, Registrar
from longhall.errors import LonghallError
from longhall.shards.commit_tracker import CommitTracker
from longhall.world.ports import Clock

_log = logging.getLogger("longhall.replica")


class RecordingLeader(Protocol):
    """What the recorder needs of the leader."""

    @property
    def leading(self) -> CommitTracker | None:
        """The leader's commit tracker; None at a replica that does not lead."""

    def recorded(self, epoch: int, record: GroupRecord) -> None:
        """The coordinator has this record for the epoch."""

    def step_down(self, reason: str) -> None:
        """Another node leads, or may lead."""


@final
class InSyncRecorder:
    """The changes of the in-sync set that one leader has recorded, at most one of them under way."""

    def __init__(
        self, leader: RecordingLeader, registrar: Registrar, background: BackgroundTasks, clock: Clock, lag_ms_max: int
    ) -> None:
        self._leader = leader
        self._registrar = registrar
        self._background = background
        self._clock = clock
        self._lag_ms_max = lag_ms_max
        self._task: asyncio.Task[None] | None = None
        self._logged_error = ""  # Why the last attempt failed; the same reason is logged once.

    def update(self) -> None:
        """Have the in-sync set changed if it is not right."""
        leading = self._leader.leading
        if leading is None or (self._task is not None and not self._task.done()):
            return
        in_sync = leading.wish(self._lag_ms_max, self._clock.monotonic_ms())
        if in_sync is not None:
            leading.ask(in_sync)
            work = partial(self._record, leading, in_sync)
            self._task = self._background.start("in-sync set", work, fatal=True)

    def renounce(self, reason: str) -> None:
        """The leader lacks committed entries that a replica in sync has: that replica can lead."""
        leading = self._leader.leading
        if leading is not None and (self._task is None or self._task.done()):
            work = self._renounce(leading.epoch, reason)
            self._task = asyncio.get_running_loop().create_task(work, name="renounce")

    def cancel(self) -> None:
        """Stop the change that is under way."""
        if self._task is not None:
            self._task.cancel()

    async def _record(self, leading: CommitTracker, in_sync: frozenset[int]) -> None:
        try:
            record = await self._registrar.record_in_sync(leading.epoch, leading.version, in_sync)
        except (OSError, TimeoutError, LonghallError) as error:
            if str(error) != self._logged_error:  # Every heartbeat tries again.
                self._logged_error = str(error)
                _log.warning("the in-sync set could not be recorded", extra={"reason": str(error)})
            return
        self._logged_error = ""
        if self._leader.leading is not leading:
            return
        if record is None:
            self._leader.step_down("the coordinator has another leader or epoch")
            return
        self._leader.recorded(leading.epoch, record)

    async def _renounce(self, epoch: int, reason: str) -> None:
        try:
            await self._registrar.renounce(epoch)
        except (OSError, TimeoutError, LonghallError) as error:
            _log.warning("the leadership could not be renounced", extra={"reason": str(error)})
        else:
            self._leader.step_down(reason)
