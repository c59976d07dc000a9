"""SendMessageBatch: up to ten messages, each with its own result."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from longhall.doors.sqs.batches import check_batch
from longhall.doors.sqs.door import Caller, Door, Later
from longhall.doors.sqs.errors import error_of, failed_entry
from longhall.doors.sqs.outgoing import ExtendedOutgoing
from longhall.doors.sqs.receiving import sequence_number
from longhall.doors.sqs.sending import check_order, digest_of_system, outgoing, sent_attributes, size_bytes
from longhall.doors.sqs.text import digest_of_attributes, digest_of_body
from longhall.doors.sqs.wire.faults import BATCH_TOO_LONG, UNSUPPORTED, SqsError
from longhall.doors.sqs.wire.requests import SendMessageBatchRequest, SendMessageBatchRequestEntry
from longhall.doors.sqs.wire.results import (
    BatchResultErrorEntry,
    Result,
    SendMessageBatchResult,
    SendMessageBatchResultEntry,
)
from longhall.queues.messages import Accepted, Outgoing, QueueView
from longhall.service.queue_operations import SendMessages


def send_message_batch(door: Door, view: QueueView, request: SendMessageBatchRequest, caller: Caller) -> Result | Later:
    check_batch(request.entries, "SendMessageBatchRequestEntry")
    if view.settings.fifo:
        check_order(view.settings, request.entries)
        door.check_rate(view, [entry.message_group_id or "" for entry in request.entries])
    size = sum(map(_size_bytes, request.entries))
    bytes_max = max(door.limits.batch_bytes_max, view.settings.whole_bytes_max)
    if size > bytes_max:
        said = f"Batch requests cannot be longer than {bytes_max} bytes. You have sent {size} bytes."
        raise SqsError(BATCH_TOO_LONG, said)
    failed: list[BatchResultErrorEntry] = []
    entries: list[SendMessageBatchRequestEntry] = []
    messages: list[Outgoing] = []
    for entry in request.entries:
        try:
            message = outgoing(door, view.settings, entry, caller)
            if type(message) is ExtendedOutgoing and message.answers:
                raise SqsError(UNSUPPORTED, "An answer is sent by itself, with SendMessage.")
            messages.append(message)
            entries.append(entry)
        except SqsError as error:
            failed.append(failed_entry(entry.id, error))
    if not messages:
        return SendMessageBatchResult(successful=[], failed=failed)
    batch = _Batch(view, entries, messages, failed)
    return Later(door.service.call(SendMessages(view.name, messages), caller.identity), partial(_result, batch))


class _Batch(NamedTuple):
    """The valid messages of a batch, and the errors of the others."""

    view: QueueView
    entries: list[SendMessageBatchRequestEntry]
    messages: list[Outgoing]
    failed: list[BatchResultErrorEntry]


def _result(batch: _Batch, answers: list[Accepted]) -> SendMessageBatchResult:
    successful: list[SendMessageBatchResultEntry] = []
    for entry, message, accepted in zip(batch.entries, batch.messages, answers, strict=True):
        if accepted.code is not None:
            batch.failed.append(failed_entry(entry.id, error_of(accepted.code, accepted.message)))
        else:
            successful.append(_sent(entry, message, accepted, batch.view.settings.fifo))
    return SendMessageBatchResult(successful=successful, failed=batch.failed)


def _sent(
    entry: SendMessageBatchRequestEntry, message: Outgoing, accepted: Accepted, fifo: bool
) -> SendMessageBatchResultEntry:
    result = SendMessageBatchResultEntry(
        id=entry.id, message_id=accepted.message_id, md5_of_message_body=digest_of_body(message.body)
    )
    if attributes := sent_attributes(message):
        result.md5_of_message_attributes = digest_of_attributes(attributes)
    if entry.message_system_attributes:
        result.md5_of_message_system_attributes = digest_of_system(entry)
    if fifo:
        result.sequence_number = sequence_number(accepted.sequence)
    return result


def _size_bytes(entry: SendMessageBatchRequestEntry) -> int:
    """The size of an entry before its checks. An unpaired surrogate is refused later, so its size does not matter."""
    message = Outgoing(body=entry.message_body.encode("utf-8", "surrogatepass"))
    for name, value in (entry.message_attributes or {}).items():
        data = value.binary_value or (value.string_value or "").encode("utf-8", "surrogatepass")
        message.attributes = {**message.attributes, name: (value.data_type, data)}
    return size_bytes(message)
