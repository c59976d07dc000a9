"""CreateQueue: create a queue, or find an existing one with the same attributes.

An existing queue is no error if every attribute of the request has the same value there.
"""

from __future__ import annotations

from longhall.doors.sqs.addresses import check_name
from longhall.doors.sqs.attributes import first_difference, new_settings
from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.policies import check_dead_letters
from longhall.doors.sqs.tags import check_tags
from longhall.doors.sqs.wire.faults import QUEUE_DELETED_RECENTLY, QUEUE_EXISTS, SqsError
from longhall.doors.sqs.wire.requests import CreateQueueRequest
from longhall.doors.sqs.wire.results import CreateQueueResult
from longhall.errors import Code, LonghallError
from longhall.queues.messages import QueueView
from longhall.queues.settings import QueueSettings
from longhall.service.queue_operations import CreateQueue, DescribeQueue


async def create_queue(door: Door, request: CreateQueueRequest, caller: Caller) -> CreateQueueResult:
    name = request.queue_name
    attributes = request.attributes or {}
    check_name(name, fifo=attributes.get("FifoQueue", "").lower() == "true")
    settings = new_settings(door, name, attributes, check_tags(name, request.tags or {}))
    if "RedrivePolicy" in attributes:
        await check_dead_letters(door, name, settings, caller)
    try:
        create = CreateQueue(name, settings, "", door.limits.name_reuse_ms, key_later=True)
        await door.service.call(create, caller.identity)
    except LonghallError as error:
        if error.code is Code.QUEUE_DELETED_RECENTLY:
            raise _too_soon(door.limits.name_reuse_ms) from None
        if error.code is not Code.QUEUE_EXISTS:
            raise
        _check_same(door, settings, await door.service.call(DescribeQueue(name), caller.identity), attributes)
    return CreateQueueResult(queue_url=door.url(name, caller))


def _too_soon(reuse_ms: int) -> SqsError:
    said = "after deleting a queue before you can create another with the same name."
    return SqsError(QUEUE_DELETED_RECENTLY, f"You must wait {-(-reuse_ms // 1000)} seconds {said}")


def _check_same(door: Door, settings: QueueSettings, view: QueueView, attributes: dict[str, str]) -> None:
    if attribute := first_difference(door, settings, view, attributes):
        said = f"A queue already exists with the same name and a different value for attribute {attribute}"
        raise SqsError(QUEUE_EXISTS, said)
