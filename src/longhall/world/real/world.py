"""The real world in one piece.

Refuses to know what the janitor's jobs are: their module is named by whoever asks for the world, because it stands in
a room above.
"""

from __future__ import annotations

import logging
from typing import Final, final

from longhall.world.real.clock import RealClock
from longhall.world.real.disk import DirectoryLock, RealDisk
from longhall.world.real.entropy import RealEntropy
from longhall.world.real.janitor import RealJanitor
from longhall.world.real.network import RealNetwork

CHORES: Final = "longhall.log.chores"

_log = logging.getLogger("longhall.disk")


@final
class RealWorld:
    """Everything a node may ask for. `close` ends the processes and gives the directory back."""

    def __init__(self, data_directory: str, *, chores: str, lock: bool) -> None:
        self.clock = RealClock()
        self.entropy = RealEntropy()
        self.network = RealNetwork()
        self.disk = RealDisk(data_directory)
        self._lock = DirectoryLock(data_directory) if lock else None
        self.janitor = RealJanitor(data_directory, chores)
        _log.debug("many files are synced %s", self.disk.how_many_are_synced)

    def close(self) -> None:
        """The last call. Syncs still under way fail; nothing that was acknowledged depends on them."""
        self.janitor.close()
        self.disk.close()
        if self._lock is not None:
            self._lock.release()


def real_world(data_directory: str, *, chores: str = CHORES, lock: bool = True) -> RealWorld:
    """The world around one data directory, which is made if it is missing.

    With `lock` the directory belongs to this process until `close`; without it, the caller only reads (`longhall
    doctor`). Raises OSError with a sentence that names the holder when another process has the directory.
    """
    return RealWorld(data_directory, chores=chores, lock=lock)
