"""Handles of move tasks: each has the id of a task and its queue."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

import msgspec

from longhall.doors.sqs.addresses import queue_of_arn
from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.faults import INVALID_PARAMETER, NO_SUCH_RESOURCE, SqsError
from longhall.errors import Code, LonghallError
from longhall.queues.messages import MoveTask, QueueView
from longhall.queues.redrive import SOURCE_GONE, TARGET_GONE
from longhall.service.queue_operations import DescribeQueue

_ARN = re.compile(r"arn:[^:]+:[^:]+:[^:]*:[^:]*:[^:]+")
_FAILURES: Final = {
    SOURCE_GONE: "CouldNotDetermineMessageSource",
    TARGET_GONE: "AWS.SimpleQueueService.NonExistentQueue",
}


class _Handle(msgspec.Struct, rename="camel"):
    task_id: str
    source_arn: str


def failure_of(task: MoveTask) -> str | None:
    """The reason of a failed task in the words of the service; None if it has not failed."""
    return _FAILURES.get(task.failure, task.failure) or None


def handle_of(door: Door, task: MoveTask) -> str:
    """The handle of a task."""
    return base64.b64encode(msgspec.json.encode(_Handle(task.task_id, door.arn(task.source)))).decode()


def open_handle(handle: str) -> tuple[str, str]:
    """The task id and the ARN of the source in a handle. Raises SqsError."""
    try:
        found = msgspec.json.decode(base64.b64decode(handle, validate=True), type=_Handle)
    except (binascii.Error, ValueError, RecursionError):  # DecodeError of msgspec is a ValueError.
        raise SqsError(INVALID_PARAMETER, "Value for parameter TaskHandle is invalid.") from None
    return found.task_id, found.source_arn


async def queue_at(door: Door, parameter: str, arn: str, caller: Caller) -> QueueView:
    """The queue that an ARN names. Raises SqsError."""
    if _ARN.fullmatch(arn) is None:
        form = "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        raise SqsError(INVALID_PARAMETER, f"You must use this format to specify the {parameter}: {form}")
    try:
        return await door.service.call(DescribeQueue(queue_of_arn(parameter, arn)), caller.identity)
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_QUEUE:
            raise
    raise SqsError(NO_SUCH_RESOURCE, f"The resource that you specified for the {parameter} parameter doesn't exist.")
