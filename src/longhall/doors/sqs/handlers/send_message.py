"""SendMessage."""

from __future__ import annotations

from longhall.doors.sqs.digests import digest_of_attributes, digest_of_body
from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.errors import error_of
from longhall.doors.sqs.receiving import sequence_number
from longhall.doors.sqs.sending import TRACE_HEADER, outgoing
from longhall.doors.sqs.wire.requests import SendMessageRequest
from longhall.doors.sqs.wire.results import SendMessageResult


async def send_message(door: Door, request: SendMessageRequest, caller: Caller) -> SendMessageResult:
    view = door.unlocked(request.queue_url)
    message = outgoing(door, view.settings, request, caller)
    (accepted,) = await door.queues.send(view.name, [message])
    if accepted.code is not None:
        raise error_of(accepted.code, accepted.message)
    result = SendMessageResult(md5_of_message_body=digest_of_body(message.body), message_id=accepted.message_id)
    if message.attributes:
        result.md5_of_message_attributes = digest_of_attributes(message.attributes)
    if TRACE_HEADER in message.system:
        trace = message.system[TRACE_HEADER].encode()
        result.md5_of_message_system_attributes = digest_of_attributes({TRACE_HEADER: ("String", trace)})
    if view.settings.fifo:
        result.sequence_number = sequence_number(accepted.sequence)
    return result
