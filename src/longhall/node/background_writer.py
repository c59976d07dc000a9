"""A writer of a system topic: in the background it writes what a process has gathered, and the rest at its end."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Final

from longhall.broker.background import BackgroundTasks, cancel
from longhall.errors import LonghallError

LAST_WRITE_S_MAX: Final = 2.0  # How long a node that stops waits for what is left.

_log = logging.getLogger("longhall.writer")


class BackgroundWriter(ABC):
    """A supervised task that writes until its node stops."""

    def __init__(self, background: BackgroundTasks, name: str) -> None:
        self._background = background
        self._name = name
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def _write(self) -> None:
        """Write what is gathered, for ever."""

    @abstractmethod
    async def _write_rest(self) -> None:
        """Write what is left when the node stops."""

    def start(self) -> None:
        """Begin to write."""
        self._task = self._background.start(self._name, self._write)

    async def stop(self) -> None:
        """Write what is left, if that takes no longer than LAST_WRITE_S_MAX, and end."""
        if self._task is None:
            return
        await cancel(self._task)
        try:
            async with asyncio.timeout(LAST_WRITE_S_MAX):
                await self._write_rest()
        except (LonghallError, OSError, TimeoutError) as error:
            _log.warning("the last records were not written", extra={"task": self._name, "reason": str(error)})

    async def end(self) -> None:
        """End at once."""
        await cancel(self._task)
