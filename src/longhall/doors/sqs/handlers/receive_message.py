"""ReceiveMessage: up to ten messages, now or within the wait."""

from __future__ import annotations

from functools import partial

from longhall.doors.sqs.door import Caller, Door, Later
from longhall.doors.sqs.receiving import WantedAttributes
from longhall.doors.sqs.sending import check_token
from longhall.doors.sqs.wire.faults import wrong_value
from longhall.doors.sqs.wire.requests import ReceiveMessageRequest
from longhall.doors.sqs.wire.results import ReceiveMessageResult
from longhall.queues.messages import Delivery, QueueView
from longhall.service.queue_operations import ReceiveMessages

MESSAGES_MAX = 10

_NOTHING_MORE = WantedAttributes((), ())


def receive_message(door: Door, view: QueueView, request: ReceiveMessageRequest, caller: Caller) -> Later:
    door.check_key(view)
    wanted = _NOTHING_MORE
    if request.attribute_names or request.message_system_attribute_names or request.message_attribute_names:
        system = (request.attribute_names or []) + (request.message_system_attribute_names or [])
        wanted = WantedAttributes(system, request.message_attribute_names or ())
    count_max = _number("MaxNumberOfMessages", request.max_number_of_messages, 1, MESSAGES_MAX)
    wait_s = _number("WaitTimeSeconds", request.wait_time_seconds, 0, door.limits.wait_s_max)
    lease_s = _number("VisibilityTimeout", request.visibility_timeout, 0, door.limits.visibility_s_max)
    attempt_id = request.receive_request_attempt_id or ""
    if attempt_id:
        check_token("ReceiveRequestAttemptId", attempt_id)
        if not view.settings.fifo:
            reason = "The request includes a parameter that is not valid for this queue type."
            raise wrong_value("ReceiveRequestAttemptId", attempt_id, reason)
    operation = ReceiveMessages(
        view.name,
        1 if count_max is None else count_max,
        -1 if wait_s is None else wait_s * 1000,
        -1 if lease_s is None else lease_s * 1000,
        attempt_id,
        wanted.filter,
        False,
    )
    return Later(door.service.call(operation, caller.identity), partial(_result, door, wanted))


def _result(door: Door, wanted: WantedAttributes, deliveries: list[Delivery]) -> ReceiveMessageResult:
    return ReceiveMessageResult(messages=[wanted.message(door, one) for one in deliveries])


def _number(parameter: str, value: int | None, least: int, most: int) -> int | None:
    if value is not None and not least <= value <= most:
        raise wrong_value(parameter, value, f"Must be between {least} and {most}, if provided.")
    return value
