"""Background tasks of a node: a supervisor that restarts failed tasks and reports them.

    the task     then
    raises       the failure is logged with the task's name and counted; the task is started again after a pause
                 that doubles up to a bound. A task that was declared `fatal` stops the node instead
    returns      it is done
    is stopped   its owner cancels what `start` returned

A task is *failing* from its failure until it reports a success, returns, or has run for `SETTLED_S`; `/readyz` lists
failing tasks. A task that handles its own errors (a checkpoint that the disk refused) reports them with `failed` and
`succeeded`.

This module does not know what the tasks do, and owns no state of the hall.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, final

PAUSE_S_MIN: Final = 0.5  # The first pause,
PAUSE_S_MAX: Final = 30.0  # and the longest.
SETTLED_S: Final = 10.0  # A run of this length is not failing, and resets the pause.

Work = Callable[[], Coroutine[Any, Any, None]]

_log = logging.getLogger("longhall.background")


async def cancel(task: asyncio.Task[None] | None) -> None:
    """Cancel a supervised task and wait for its end."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@final
class BackgroundTasks:
    """The supervised tasks of one node. `on_fatal` stops the node."""

    def __init__(self, on_fatal: Callable[[Exception], None]) -> None:
        self.failures: Counter[str] = Counter()  # By name of the task.
        self._on_fatal = on_fatal
        self._failing: dict[str, str] = {}
        self._running: set[asyncio.Task[None]] = set()  # The event loop has only weak references.
        self._closing = asyncio.Event()

    def start(self, name: str, work: Work, *, fatal: bool = False) -> asyncio.Task[None]:
        """Run `work` until it returns, again after each failure. The owner cancels the task that is returned."""
        self.failures[name] += 0  # Known to the metrics before its first failure.
        task = asyncio.get_running_loop().create_task(self._supervise(name, work, fatal), name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def close(self) -> None:
        """Restart no task any more; running tasks continue until their owners stop them."""
        self._closing.set()

    @property
    def is_closing(self) -> bool:
        """True if the node stops."""
        return self._closing.is_set()

    def failed(self, name: str, error: Exception) -> None:
        """Report an error that a task has handled."""
        self.failures[name] += 1
        self._failing[name] = str(error) or repr(error)

    def succeeded(self, name: str) -> None:
        """Report a success of a task."""
        self._failing.pop(name, None)

    @property
    def failing(self) -> Mapping[str, str]:
        """The tasks that are failing, each with its last failure."""
        return self._failing

    async def _supervise(self, name: str, work: Work, fatal: bool) -> None:
        loop = asyncio.get_running_loop()
        pause_s = PAUSE_S_MIN
        while True:
            began_s = loop.time()
            settling = loop.call_later(SETTLED_S, self.succeeded, name) if name in self._failing else None
            try:
                await work()
                self.succeeded(name)
                return
            except Exception as error:
                self.failed(name, error)
                _log.exception("a background task failed", extra={"task": name, "fatal": fatal})
                if fatal:
                    self._on_fatal(error)
                    return
            finally:
                if settling is not None:
                    settling.cancel()
            if loop.time() - began_s >= SETTLED_S:
                pause_s = PAUSE_S_MIN
            try:
                async with asyncio.timeout(pause_s):
                    await self._closing.wait()
                    return
            except TimeoutError:
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
