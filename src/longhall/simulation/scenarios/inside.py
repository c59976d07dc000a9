"""Asking the node's desk from inside its process, for what no door offers: settings, pauses, delays of days.

The question runs in the node's process and dies with it; whoever asked stands outside and hears nothing then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from longhall.broker.queues.desk import Desk
from longhall.errors import Code, LonghallError
from longhall.simulation.loop import PowerCut
from longhall.simulation.scenarios.machine import Machine
from longhall.simulation.scenarios.sqs import Turned, Unanswered

PATIENCE_S: Final = 5.0

Question = Callable[[Desk], Coroutine[Any, Any, Any]]


async def ask_inside(machine: Machine, question: Question) -> Any:
    """The answer. Raises Turned for a refusal, Unanswered when the node is down or dies over it."""
    process = machine.host.process
    desk = machine.desk
    if process is None or desk is None:
        raise Unanswered
    task = process.start(question(desk))
    await asyncio.wait([task, process.ended], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        raise Unanswered
    error = task.exception()
    if isinstance(error, PowerCut | OSError):
        raise Unanswered from None
    if isinstance(error, LonghallError):
        if error.code is Code.STORAGE_FULL:
            raise Unanswered
        raise Turned(error.code.value, str(error))
    return task.result()
