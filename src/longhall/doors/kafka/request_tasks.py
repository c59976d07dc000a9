"""Tasks in which Produce and Fetch wait for what is not at hand: keys, filters, parts of large messages.

Answers leave in the order of the requests, so one that never comes holds up all later ones. A task that fails therefore
closes the connection: the client tries again at once instead of waiting for its own time-out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial

from longhall.doors.kafka.connection import Call

_log = logging.getLogger("longhall.kafka")


def start(call: Call, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Run the work of a request in a task."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(partial(_end, call))
    return task


def _end(call: Call, task: asyncio.Task[None]) -> None:
    if task.cancelled() or task.exception() is None:
        return
    extra = {"peer": call.connection.peer, "api": call.header.api_key}
    _log.error("a request failed; its connection is closed", exc_info=task.exception(), extra=extra)
    call.connection.close()
