"""A copy of the directory in processes that do not have the log of the main hall.

process                                    the directory comes from
a node with a replica of the main hall     its catalogue
a worker without data, a node without      the leader, asked for changes all the time; kept in memory
a replica
the process of another replication group   the leader of the main hall likewise, into an object of its own: the log
                                           of the group has no users

The leader answers a question when something has changed, so a change is effective everywhere within the time of a
message. Until the first answer the directory is not `known`, and nobody can log in. A leader of an older version does
not know the question, and has no users.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, final

from longhall.broker.background import cancel
from longhall.broker.hall import Hall
from longhall.broker.pending import Pending
from longhall.directory.directory import Directory
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.service.directory_operations import DirectoryUpdate, FollowDirectory

WAIT_MS: Final = 20_000
LOOK_S: Final = 0.5  # Between two looks whether a copy is needed, and after a failure.
FIRST_LOOK_S: Final = 0.02  # The same while the directory is not known.

AskMainHall = Callable[[FollowDirectory], Pending[DirectoryUpdate]]

_log = logging.getLogger("longhall.directory")


@final
class DirectoryFollower:
    """Keeps the directory of a process up to date."""

    def __init__(self, hall: Hall, directory: Directory, ask: AskMainHall) -> None:
        self._hall = hall
        self._directory = directory
        self._ask = ask
        self._is_group = directory is not hall.catalogue.directory  # This process serves another replication group.
        self._task: asyncio.Task[None] | None = None
        self._known = asyncio.Event()

    def start(self) -> None:
        """Begin to follow."""
        self._task = self._hall.background.start("follow the directory", self._follow)

    async def stop(self) -> None:
        """End."""
        await cancel(self._task)

    async def known(self) -> None:
        """Wait until the directory is known."""
        if not self._directory.known:
            await self._known.wait()

    async def _follow(self) -> None:
        while True:
            pause_s = LOOK_S if self._directory.known else FIRST_LOOK_S
            if not self._is_needed and self._directory.known:
                self._known.set()
                await asyncio.sleep(LOOK_S)
                continue
            try:
                await self._look()
                continue
            except LonghallError as error:
                if error.code is Code.INVALID_REQUEST:
                    self._directory.known = True
                    pause_s = LOOK_S
                _log.debug("the directory is not known now", extra={"reason": str(error)})
            except (OSError, TimeoutError) as error:
                _log.debug("the directory is not known now", extra={"reason": str(error)})
            await asyncio.sleep(pause_s)

    async def _look(self) -> None:
        directory = self._directory
        if not self._is_needed:  # A new replica: it is enough to have what the leader has.
            update = await self._ask(FollowDirectory(directory.version, 0))
            directory.known = directory.version >= update.version
            if not directory.known:
                await asyncio.sleep(FIRST_LOOK_S)
            return
        update = await self._ask(FollowDirectory(directory.version if directory.known else -1, WAIT_MS))
        if not self._is_needed:
            return
        if update.changes is None:
            directory.replace(update.version, update.entries)
        elif update.version != directory.version:
            directory.follow(update.version, update.changes)
        directory.known = True
        self._known.set()

    @property
    def _is_needed(self) -> bool:
        leadership = self._hall.leadership
        if self._is_group or leadership is None:
            return self._is_group
        return leadership.node not in leadership.replicas(CATALOGUE_SHARD)
