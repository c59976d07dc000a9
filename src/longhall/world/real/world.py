"""The real platform in one object.

It does not know the janitor's jobs: the caller names their module, which is in a room above.
"""

from __future__ import annotations

import logging
from typing import Final, final

from longhall.world.ports import Network
from longhall.world.real.clock import RealClock
from longhall.world.real.disk import DirectoryLock, RealDisk
from longhall.world.real.entropy import RealEntropy
from longhall.world.real.janitor import RealJanitor
from longhall.world.real.network import RealNetwork

JOBS_MODULE: Final = "longhall.log.background_jobs"

_log = logging.getLogger("longhall.disk")


@final
class RealWorld:
    """All interfaces for one node. `close` ends the processes and releases the directory."""

    def __init__(self, data_directory: str, *, jobs: str, lock: bool) -> None:
        self.clock = RealClock()
        self.entropy = RealEntropy()
        self.network = RealNetwork()
        self.peers_network: Network = self.network
        self.disk = RealDisk(data_directory)
        self._lock = DirectoryLock(data_directory) if lock else None
        self.janitor = RealJanitor(data_directory, jobs)
        _log.debug("many files are synced %s", self.disk.sync_method)

    def close(self) -> None:
        """End everything; the last call. Syncs in progress fail; nothing that was acknowledged depends on them."""
        self.janitor.close()
        self.disk.close()
        if self._lock is not None:
            self._lock.release()


def real_world(data_directory: str, *, jobs: str = JOBS_MODULE, lock: bool = True) -> RealWorld:
    """The platform for one data directory, which is created if it is missing.

    With `lock` the directory belongs to this process until `close`; without it, the caller only reads (`longhall
    doctor`). Raises OSError with a message that names the holder when another process has the directory.
    """
    return RealWorld(data_directory, jobs=jobs, lock=lock)
