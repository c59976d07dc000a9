"""SendMessage: send one message, or an answer to one."""

from __future__ import annotations

from functools import partial

from longhall.doors.sqs.door import Caller, Door, Later
from longhall.doors.sqs.errors import error_of
from longhall.doors.sqs.outgoing import ExtendedOutgoing
from longhall.doors.sqs.receiving import sequence_number
from longhall.doors.sqs.sending import digest_of_system, outgoing, sent_attributes
from longhall.doors.sqs.text import digest_of_attributes, digest_of_body
from longhall.doors.sqs.wire.requests import SendMessageRequest
from longhall.doors.sqs.wire.results import SendMessageResult
from longhall.queues.messages import Accepted, Outgoing, QueueView
from longhall.service.queue_operations import AnswerMessage, SendMessages


def send_message(door: Door, view: QueueView, request: SendMessageRequest, caller: Caller) -> Later:
    message = outgoing(door, view.settings, request, caller)
    door.check_rate(view, (message.group,))
    if type(message) is ExtendedOutgoing and message.answers:
        answer = AnswerMessage(view.name, message.answers, message)
        return Later(door.service.call(answer, caller.identity), partial(_result, view, message, request))
    pending = door.service.call(SendMessages(view.name, [message]), caller.identity)
    return Later(pending, partial(_first_result, view, message, request))


def _first_result(
    view: QueueView, message: Outgoing, request: SendMessageRequest, accepted: list[Accepted]
) -> SendMessageResult:
    return _result(view, message, request, accepted[0])


def _result(view: QueueView, message: Outgoing, request: SendMessageRequest, accepted: Accepted) -> SendMessageResult:
    if accepted.code is not None:
        raise error_of(accepted.code, accepted.message)
    result = SendMessageResult(md5_of_message_body=digest_of_body(message.body), message_id=accepted.message_id)
    if attributes := sent_attributes(message):
        result.md5_of_message_attributes = digest_of_attributes(attributes)
    if request.message_system_attributes:
        result.md5_of_message_system_attributes = digest_of_system(request)
    if view.settings.fifo and accepted.sequence >= 0:  # An answer may have gone to a queue of another kind.
        result.sequence_number = sequence_number(accepted.sequence)
    return result
