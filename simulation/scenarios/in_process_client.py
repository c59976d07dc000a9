"""Requests to the node's queue service from inside its process, for what no door offers: settings, pauses, long delays.

The request runs in the node's process and dies with it; the caller is outside and then gets no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from longhall.broker.queues.service import QueueService
from longhall.errors import Code, LonghallError
from simulation.loop import PowerCut, Process
from simulation.scenarios.machine import Deployment
from simulation.scenarios.sqs_client import SqsRefusal, Unanswered

PATIENCE_S: Final = 5.0
_UNDECIDED: Final = (
    Code.STORAGE_FULL,
    Code.NOT_LEADER,
    Code.NOT_ENOUGH_REPLICAS,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Code.COMMIT_BACKLOG,
    Code.NOT_READY,
)

Question = Callable[[QueueService], Coroutine[Any, Any, Any]]


async def ask_inside(deployment: Deployment, question: Question) -> Any:
    """The answer of the queue service. Raises SqsRefusal for a refusal, and Unanswered if no node serves or its
    process dies meanwhile.
    """
    found = deployment.inside()
    if found is None:
        raise Unanswered
    process, desk = found
    return await answer_of(process, question(desk))


async def answer_of(process: Process, request: Coroutine[Any, Any, Any]) -> Any:
    """The result of a request that runs in a process, with the same errors."""
    task = process.start(request)
    await asyncio.wait([task, process.ended], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.add_done_callback(_ignore)
        raise Unanswered
    error = task.exception()
    if isinstance(error, PowerCut | OSError):
        raise Unanswered from None
    if isinstance(error, LonghallError):
        if error.code in _UNDECIDED:
            raise Unanswered
        raise SqsRefusal(error.code.value, str(error))
    return task.result()


def _ignore(task: asyncio.Task[Any]) -> None:
    """Nobody waits for the outcome any more."""
    if not task.cancelled():
        task.exception()
