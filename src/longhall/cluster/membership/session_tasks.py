"""The tasks of a coordinator session. If one fails, the session cannot do its work, and the hall restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import final

_log = logging.getLogger("longhall.session")


@final
class SessionTasks:
    """The running tasks. `on_failure` gets the reason when one of them fails."""

    def __init__(self, on_failure: Callable[[str], None]) -> None:
        self._on_failure = on_failure
        self._running: set[asyncio.Future[None]] = set()

    def start(self, work: Awaitable[None]) -> asyncio.Future[None]:
        """Run the work beside the others."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def cancel(self) -> None:
        """Cancel every task."""
        for task in list(self._running):
            task.cancel()

    def _done(self, task: asyncio.Future[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of the coordinator session failed", exc_info=task.exception())
            self._on_failure("a task of the coordinator session failed")
