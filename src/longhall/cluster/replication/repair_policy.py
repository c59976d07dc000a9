"""Repair of a replica that was taken out of service: what is done about a failure, and what a process remembers of it.

    failure                                   remedy
    an entry cannot be applied: the disk      RESTART: the state is rebuilt from the last checkpoint and the log
      did not answer                          FULL_SYNC, if the same entry fails again, or others in a row
    the disk has no space                     RESTART, again and again: another copy would need more space
    an entry cannot be applied: anything      FULL_SYNC: the same log would lead to the same error
      else
    the state differs from the majority's     FULL_SYNC: see `digests`

The replica answers nobody from the moment of the failure, cannot be elected, and publishes no checkpoint.
"""

from __future__ import annotations

import enum
import logging
from typing import Final, final

from longhall.broker.apply import ReplicaFailed
from longhall.errors import Code, LonghallError

RESTARTS_MAX: Final = 8  # In a row, before the replica is in sync again: then the disk is not asked once more.
READS_MAX: Final = 30  # Likewise of a directory that cannot be read at all: then the process ends.


_log = logging.getLogger("longhall.repair")


@final
class Diverged(LonghallError):
    """The state of this replica is not the one that the majority has."""

    def __init__(self, reason: str) -> None:
        super().__init__(Code.STORAGE_DAMAGED, f"the state of this replica is not the majority's: {reason}")


Failure = ReplicaFailed | Diverged


class Remedy(enum.Enum):
    """How a replica that failed gets right again."""

    RESTART = "restart"
    FULL_SYNC = "full sync"


@final
class RepairPolicy:
    """What the lives of one process remember: failures so far, and where the last one was."""

    def __init__(self) -> None:
        self.reason = ""  # Why the replica is out of service; empty while it is not.
        self.apply_failures = 0
        self.divergences = 0
        self.full_syncs = 0
        self._failed_at = 0
        self._restarts = 0
        self._reads = 0

    def failed(self, failure: Failure) -> Remedy:
        """The replica failed: what to do now."""
        self.reason = str(failure)
        if isinstance(failure, Diverged):
            self.divergences += 1
            self.full_syncs += 1
            return Remedy.FULL_SYNC
        again = failure.index == self._failed_at or self._restarts >= RESTARTS_MAX
        self._failed_at = failure.index
        self.apply_failures += 1
        if failure.is_full or (failure.is_io and not again):
            self._restarts += 1
            return Remedy.RESTART
        self.full_syncs += 1
        self._restarts = 0
        return Remedy.FULL_SYNC

    def may_read_again(self) -> bool:
        """The data directory could not be read before anything was opened. Whether it is worth another try."""
        self._reads += 1
        return self._reads <= READS_MAX

    def healed(self) -> None:
        """The replica is in sync again."""
        self.reason = ""
        self._failed_at = self._restarts = self._reads = 0


def log_failure(failure: Failure) -> None:
    """Say why a replica is taken out of service."""
    told: dict[str, object] = {"reason": str(failure)}
    if isinstance(failure, ReplicaFailed):
        told.update(index=failure.index, epoch=failure.epoch, shard=failure.shard)
    _log.error("this replica is taken out of service", exc_info=failure.__cause__, extra=told)
