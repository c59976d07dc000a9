"""Uncaught exceptions: which of them stop the node, and which end one connection.

    origin                                              consequence
    a callback or a watched task, through a room        the node stops: state may be half changed, and recovery
    that owns state                                     rebuilds it from the log
    a callback of a connection, through the broker,     the same
    the shards, the log, the queues or the topics
    any other callback of a connection                  that connection ends; the failure is logged
    a request's task that is not awaited                the failure is logged: an entry that was appended and could
                                                        not be applied has stopped the node already (`Hall.halt`)

The exception's traceback shows the rooms.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import PurePath
from types import TracebackType
from typing import Any, Final, final

STATE_ROOMS: Final = frozenset({"broker", "shards", "log", "queues", "topics"})
CALLBACK_ROOMS: Final = STATE_ROOMS | {"cluster", "coordination", "node"}
PACKAGE: Final = "longhall"

_log = logging.getLogger("longhall.node")


@final
class ExceptionHandler:
    """The handler for `loop.set_exception_handler`. It calls `halt` for a fatal exception and logs all others."""

    def __init__(self, halt: Callable[[Exception], None]) -> None:
        self.unhandled = 0  # Exceptions that were logged and stopped nothing.
        self._halt = halt

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception) and is_fatal(error, context):
            _log.critical(str(context.get("message")), exc_info=error)
            self._halt(error)
            return
        self.unhandled += 1
        _log.error(str(context.get("message")), exc_info=error if isinstance(error, BaseException) else None)


def is_fatal(error: Exception, context: dict[str, Any]) -> bool:
    """True if the node must stop for an exception that reached the loop with this context."""
    if "task" in context or "future" in context:
        return False
    of_connection = "protocol" in context or "transport" in context
    rooms = STATE_ROOMS if of_connection else CALLBACK_ROOMS
    return not rooms.isdisjoint(rooms_of(error.__traceback__))


def rooms_of(trace: TracebackType | None) -> set[str]:
    """The rooms of the package that a traceback passes through."""
    rooms: set[str] = set()
    while trace is not None:
        parts = PurePath(trace.tb_frame.f_code.co_filename).parts
        if PACKAGE in parts[:-1]:
            rooms.add(parts[len(parts) - parts[::-1].index(PACKAGE)])
        trace = trace.tb_next
    return rooms
