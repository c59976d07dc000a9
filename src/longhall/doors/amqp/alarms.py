"""Alarms: while memory or disk is short, connections that publish get connection.blocked and are not read.

    at the first publish under an alarm    connection.blocked with the reason, to clients that know the method; nothing
                                           more is read, and what was published waits
    the alarm is over                      connection.unblocked; what waited is published, and reading goes on

Connections that only consume are read all the time, and every connection gets heartbeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import method_frame
from longhall.front.admission import RESUME_SHARE, Budget

CHECK_S: Final = 0.1  # The interval at which a blocked connection looks whether the alarm is over.
REMOTE_FULL_S: Final = 1.0  # How long a refusal of another node, whose disk is full, counts as an alarm here.


@final
class Alarms:
    """The alarms for memory and disk, for all connections of the door."""

    def __init__(self, budget: Budget, is_disk_full: Callable[[], bool]) -> None:
        self._budget = budget
        self._is_disk_full = is_disk_full
        self._loop = asyncio.get_running_loop()
        self._remote_until_s = 0.0
        self._is_memory_low = False

    def note_full(self) -> None:
        """A message was refused because a disk is full, perhaps that of another node."""
        self._remote_until_s = self._loop.time() + REMOTE_FULL_S

    @property
    def reason(self) -> str:
        """What is short, as RabbitMQ says it; empty if nothing is."""
        budget = self._budget
        bound = budget.bytes_max * RESUME_SHARE if self._is_memory_low else budget.bytes_max
        # Bodies that have arrived in part do not count: who does not send the rest must not block others.
        self._is_memory_low = budget.used_bytes - budget.arriving_bytes >= bound
        is_disk_low = self._is_disk_full() or self._loop.time() < self._remote_until_s
        if self._is_memory_low and is_disk_low:
            return "low on memory & disk"
        return "low on memory" if self._is_memory_low else "low on disk" if is_disk_low else ""


@final
class Blockage:
    """One connection under alarms: it is blocked or not, and its client is notified of changes if it can be."""

    def __init__(self, alarms: Alarms, write: Callable[[bytes], None], resume: Callable[[], None]) -> None:
        self.is_blocked = False
        self._alarms = alarms
        self._write = write
        self._resume = resume
        self._tells = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def check(self, tells: bool) -> None:
        """Block the connection if there is an alarm. `tells` is that the client knows the method."""
        reason = "" if self.is_blocked else self._alarms.reason
        if not reason:
            return
        self.is_blocked = True
        self._tells = tells
        if tells:
            self._write(method_frame(0, methods.CONNECTION_BLOCKED, reason))
        self._timer = self._loop.call_later(CHECK_S, self._look)

    def close(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self._alarms.reason:
            self._timer = self._loop.call_later(CHECK_S, self._look)
            return
        self._timer = None
        self.is_blocked = False
        if self._tells:
            self._write(method_frame(0, methods.CONNECTION_UNBLOCKED))
        self._resume()
