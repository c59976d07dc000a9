"""Ctrl-C and SIGTERM in a job: it stops at a point from which the same command continues, and says so in one line.

Spark's own signal handler calls Java while the same thread is in another call, which breaks both. So the work runs in a
thread of its own, and the main thread only waits for its end or for a signal. Then the work is asked to end, and its
Spark jobs are cancelled; a thread that does not end after that ends with the process. Nothing here is needed for
safety: a killed job can be continued as well. It is for people and for service managers.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeVar, final

from longhall.cli.exits import Exit

LOOK_S: Final = 0.1
GRACE_S: Final = 1.0  # For the work to end by itself, before what it waits for is cancelled, and between two attempts.
ATTEMPTS_MAX: Final = 10
AGAIN_S: Final = 1.0  # Some tools send a signal twice at once; a second one later than that ends the process.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_T = TypeVar("_T")


@final
class Interrupts:
    """A context in which SIGTERM interrupts as Ctrl-C does; during `attend` both are only noted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._signalled_at: float | None = None
        self._wanted = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    @property
    def came(self) -> bool:
        """True if the work was interrupted."""
        return self._wanted.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep until the time is over or an interrupt comes; true if one came. Called by the work."""
        return self._wanted.wait(seconds)

    def attend(self, work: Callable[[], _T], cancel: Callable[[], object]) -> _T | None:
        """Run the work; returns its result or raises its exception. None if it was interrupted without a result."""
        over = threading.Event()
        returned: list[_T] = []
        raised: list[BaseException] = []

        def run() -> None:
            try:
                returned.append(work())
            except BaseException as failure:
                raised.append(failure)
            finally:
                over.set()

        self._handle(self._note)
        threading.Thread(target=run, name="job", daemon=True).start()
        while not over.wait(LOOK_S) and self._signalled_at is None:
            pass
        if returned:
            return returned[0]
        if raised and self._signalled_at is None:
            raise raised[0]
        self._wanted.set()  # Work that has failed by now failed of the signal: Java may have got it as well.
        for _ in range(ATTEMPTS_MAX):
            if over.wait(GRACE_S):
                break
            try:
                cancel()
            except Exception:  # Java may be gone, and what it did with it.
                break
        return returned[0] if returned else None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.getsignal(each) for each in _SIGNALS}
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _handle(self, handler: Callable[[int, FrameType | None], None]) -> None:
        for each in self._before:  # Empty in another thread than the main one, which gets no signals.
            signal.signal(each, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Only note the signal: the main thread may hold any lock now, also those of events."""
        now = self._clock()
        if self._signalled_at is None:
            self._signalled_at = now
        elif now - self._signalled_at >= AGAIN_S:
            os._exit(Exit.INTERRUPTED)
