"""SendMessage."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from longhall.doors.sqs.digests import digest_of_attributes, digest_of_body
from longhall.doors.sqs.door import Caller, Door, Held
from longhall.doors.sqs.errors import error_of
from longhall.doors.sqs.extensions import sent_attributes
from longhall.doors.sqs.outgoing import ExtendedOutgoing
from longhall.doors.sqs.receiving import sequence_number
from longhall.doors.sqs.sending import TRACE_HEADER, outgoing
from longhall.doors.sqs.wire.requests import SendMessageRequest
from longhall.doors.sqs.wire.results import SendMessageResult
from longhall.queues.messages import Accepted, Outgoing, QueueView


def send_message(
    door: Door, request: SendMessageRequest, caller: Caller
) -> Held | Coroutine[Any, Any, SendMessageResult]:
    view = door.unlocked(request.queue_url)
    message = outgoing(door, view.settings, request, caller)
    if isinstance(message, ExtendedOutgoing) and message.answers:
        return _answer(door, view, message, caller)
    accepted = door.queues.send_nowait(view.name, [message])
    if accepted is None:
        return _send_patiently(door, view, message)
    return Held(view.name, _result(view, message, accepted[0]), sends=True)


async def _send_patiently(door: Door, view: QueueView, message: Outgoing) -> SendMessageResult:
    (accepted,) = await door.queues.send(view.name, [message])
    return _result(view, message, accepted)


async def _answer(door: Door, view: QueueView, message: ExtendedOutgoing, caller: Caller) -> SendMessageResult:
    return _result(view, message, await door.queues.answer(view.name, message.answers, message, caller.access_key))


def _result(view: QueueView, message: Outgoing, accepted: Accepted) -> SendMessageResult:
    if accepted.code is not None:
        raise error_of(accepted.code, accepted.message)
    result = SendMessageResult(md5_of_message_body=digest_of_body(message.body), message_id=accepted.message_id)
    if attributes := sent_attributes(message):
        result.md5_of_message_attributes = digest_of_attributes(attributes)
    if TRACE_HEADER in message.system:
        trace = message.system[TRACE_HEADER].encode()
        result.md5_of_message_system_attributes = digest_of_attributes({TRACE_HEADER: ("String", trace)})
    if view.settings.fifo and accepted.sequence >= 0:  # An answer may have gone to a queue of another kind.
        result.sequence_number = sequence_number(accepted.sequence)
    return result
