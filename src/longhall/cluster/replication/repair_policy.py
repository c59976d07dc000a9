"""Repair of a replica that was taken out of service: the remedy for each failure, and the failures of a process so far.

    failure                                   remedy
    an entry cannot be applied: the disk      RESTART: the state is rebuilt from the last checkpoint and the log
      did not answer                          FULL_SYNC, if the same entry fails again, or others in a row
    the disk has no space                     RESTART, again and again: another copy would need more space
    an entry cannot be applied: anything      FULL_SYNC: the same log would lead to the same error
      else
    the state differs from the majority's     FULL_SYNC: see `digests`

From the moment of the failure the replica serves no client, cannot be elected, and publishes no checkpoint.
"""

from __future__ import annotations

import enum
import logging
from typing import Final, final

from longhall.broker.apply import ReplicaFailed
from longhall.errors import Code, LonghallError

RESTARTS_MAX: Final = 8  # In a row, before the replica is in sync again: then a full sync replaces the copy.
READS_MAX: Final = 30  # In a row, of a directory that cannot be read at all: then the process ends.


_log = logging.getLogger("longhall.repair")


@final
class Diverged(LonghallError):
    """The state of this replica is not the one that the majority has."""

    def __init__(self, reason: str) -> None:
        super().__init__(Code.STORAGE_DAMAGED, f"the state of this replica is not the majority's: {reason}")


Failure = ReplicaFailed | Diverged


class Remedy(enum.Enum):
    """How a replica that failed is repaired."""

    RESTART = "restart"
    FULL_SYNC = "full sync"


@final
class RepairPolicy:
    """The failures of one process's replica, over all restarts of its hall, and the remedy for the next one."""

    def __init__(self) -> None:
        self.reason = ""  # Why the replica is out of service; empty while it is not.
        self.apply_failures = 0
        self.divergences = 0
        self.full_syncs = 0
        self._failed_at = 0
        self._restarts = 0
        self._reads = 0

    def failed(self, failure: Failure) -> Remedy:
        """The replica failed; returns the remedy."""
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
        """The data directory could not be read before anything was opened. True if it should be tried again."""
        self._reads += 1
        return self._reads <= READS_MAX

    def healed(self) -> None:
        """The replica is in sync again."""
        self.reason = ""
        self._failed_at = self._restarts = self._reads = 0


def log_failure(failure: Failure) -> None:
    """Log why a replica is taken out of service."""
    details: dict[str, object] = {"reason": str(failure)}
    if isinstance(failure, ReplicaFailed):
        details.update(index=failure.index, epoch=failure.epoch, shard=failure.shard)
    _log.error("this replica is taken out of service", exc_info=failure.__cause__, extra=details)
