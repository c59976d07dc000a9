"""Handles of move tasks: each has the id of a task and its queue."""

from __future__ import annotations

import base64
import binascii

import msgspec

from longhall.doors.sqs.addresses import queue_of_arn
from longhall.doors.sqs.door import Door
from longhall.doors.sqs.wire.faults import NO_SUCH_RESOURCE, SqsError, wrong_value
from longhall.errors import Code, LonghallError
from longhall.queues.messages import MoveTask, QueueView
from longhall.service.queue_operations import DescribeQueue


class _Handle(msgspec.Struct, rename="camel"):
    task_id: str
    source_arn: str


def handle_of(door: Door, task: MoveTask) -> str:
    """The handle of a task."""
    return base64.b64encode(msgspec.json.encode(_Handle(task.task_id, door.arn(task.source)))).decode()


def task_of(handle: str) -> str:
    """The task id in a handle. Raises SqsError."""
    try:
        return msgspec.json.decode(base64.b64decode(handle, validate=True), type=_Handle).task_id
    except (binascii.Error, ValueError, RecursionError):  # DecodeError of msgspec is a ValueError.
        raise wrong_value("TaskHandle", handle, "It was not given by this service.") from None


async def queue_at(door: Door, parameter: str, arn: str) -> QueueView:
    """The queue that an ARN names. Raises SqsError."""
    try:
        return await door.service.call(DescribeQueue(queue_of_arn(parameter, arn)))
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_QUEUE:
            raise
    raise SqsError(NO_SUCH_RESOURCE, f"The resource that you specified for the {parameter} parameter doesn't exist.")
