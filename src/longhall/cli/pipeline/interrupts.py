"""Ctrl-C and SIGTERM at a job: it comes to an end from which the same command goes on, and says so in one line.

Spark's own handler of interrupts asks Java in the middle of whatever the same thread is asking, which breaks both. So
the work is done in a thread of its own, and the main thread only waits for its end or for a signal. Then the work is
asked to end, and what it waits for on Spark is cancelled; who does not end after that ends with the process. Nothing
here is needed for safety: a job that is killed is as good to go on from. It is for people and for service managers.
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
AGAIN_S: Final = 1.0  # Some send a signal twice at once; a second one later than that is from somebody in a hurry.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_T = TypeVar("_T")


@final
class Interrupts:
    """Use it in a `with`, in which SIGTERM interrupts as Ctrl-C does; from `attend` on both are only noted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._signalled_at: float | None = None
        self._wanted = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    @property
    def came(self) -> bool:
        """Whether the work was to end before it was done."""
        return self._wanted.is_set()

    def wait(self, seconds: float) -> bool:
        """For the work: sleep, but no longer than until an end is wanted; returns whether it is."""
        return self._wanted.wait(seconds)

    def attend(self, work: Callable[[], _T], cancel: Callable[[], object]) -> _T | None:
        """What the work returns, or raises. None if it was interrupted and had nothing to return."""
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
        """No more than a note: the main thread may hold any lock just now, those of events as well."""
        now = self._clock()
        if self._signalled_at is None:
            self._signalled_at = now
        elif now - self._signalled_at >= AGAIN_S:
            os._exit(Exit.INTERRUPTED)
