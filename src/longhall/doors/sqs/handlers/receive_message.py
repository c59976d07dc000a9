"""ReceiveMessage: up to ten messages, now or within the wait."""

from __future__ import annotations

from functools import partial

from longhall.doors.sqs.door import Caller, Door, Later
from longhall.doors.sqs.extensions import weights_in
from longhall.doors.sqs.receiving import WantedAttributes
from longhall.doors.sqs.sending import check_token
from longhall.doors.sqs.wire.faults import wrong_value
from longhall.doors.sqs.wire.requests import ReceiveMessageRequest
from longhall.doors.sqs.wire.results import ReceiveMessageResult
from longhall.queues.messages import Delivery, QueueView
from longhall.service.queue_operations import ReceiveFromAny, ReceiveMessages

MESSAGES_MAX = 10

_NOTHING_MORE = WantedAttributes((), ())


def receive_message(door: Door, view: QueueView, request: ReceiveMessageRequest, caller: Caller) -> Later:
    wanted = _NOTHING_MORE
    if request.attribute_names or request.message_system_attribute_names or request.message_attribute_names:
        system = (request.attribute_names or []) + (request.message_system_attribute_names or [])
        wanted = WantedAttributes(system, request.message_attribute_names or ())
    count_max = request.max_number_of_messages
    if count_max is not None and not 1 <= count_max <= MESSAGES_MAX:
        reason = f"Must be between 1 and {MESSAGES_MAX}, if provided."
        raise wrong_value("MaxNumberOfMessages", count_max, reason)
    wait_s = _seconds("WaitTimeSeconds", request.wait_time_seconds, door.limits.wait_s_max)
    lease_s = _seconds("VisibilityTimeout", request.visibility_timeout, door.limits.visibility_s_max)
    attempt_id = request.receive_request_attempt_id or ""
    if attempt_id:
        check_token("ReceiveRequestAttemptId", attempt_id)
    weights = weights_in(request.message_attribute_names, view.name) if request.message_attribute_names else None
    if weights:
        if attempt_id:
            raise wrong_value("ReceiveRequestAttemptId", attempt_id, "It is not possible for several queues.")
        from_any = ReceiveFromAny(
            weights,
            1 if count_max is None else count_max,
            view.settings.wait_ms if wait_s is None else wait_s * 1000,
            -1 if lease_s is None else lease_s * 1000,
            wanted.filter,
            False,
        )
        return Later(door.service.call(from_any, caller.identity), partial(_result_of_any, door, wanted))
    operation = ReceiveMessages(
        view.name,
        1 if count_max is None else count_max,
        -1 if wait_s is None else wait_s * 1000,
        -1 if lease_s is None else lease_s * 1000,
        attempt_id if view.settings.fifo else "",  # Frameworks send one to every queue; the service ignores it then.
        wanted.filter,
        False,
    )
    return Later(door.service.call(operation, caller.identity), partial(_result, door, wanted))


def _result(door: Door, wanted: WantedAttributes, deliveries: list[Delivery]) -> ReceiveMessageResult:
    return ReceiveMessageResult(messages=[wanted.message(door, one) for one in deliveries])


def _result_of_any(door: Door, wanted: WantedAttributes, found: list[tuple[str, Delivery]]) -> ReceiveMessageResult:
    return ReceiveMessageResult(messages=[wanted.message(door, one, name) for name, one in found])


def _seconds(parameter: str, value: int | None, most: int) -> int | None:
    if value is not None and not 0 <= value <= most:
        raise wrong_value(parameter, value, f"Must be >= 0 and <= {most}, if provided.")
    return value
