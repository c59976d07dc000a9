"""A delivery in the form of the service, with only the requested attributes.

A body that is not text (another door accepts any bytes) is encoded in base64, and an attribute that is always present
says so: nothing is lost and clients need not guess.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final, final

from longhall.doors.sqs.attributes import unknown
from longhall.doors.sqs.door import Door
from longhall.doors.sqs.extensions import QUEUE, filter_in, position_attributes, positions_in, received_attributes
from longhall.doors.sqs.sending import SENDER, TRACE_HEADER
from longhall.doors.sqs.text import decode, digest_of_attributes, digest_of_body, is_binary
from longhall.doors.sqs.wire.results import AttributeValueResult, MessageResult
from longhall.queues.messages import Attribute, Delivery

ENCODING_ATTRIBUTE: Final = "longhall.body-encoding"
SYSTEM_ATTRIBUTES: Final = (
    "SenderId",
    "SentTimestamp",
    "ApproximateReceiveCount",
    "ApproximateFirstReceiveTimestamp",
    "SequenceNumber",
    "MessageDeduplicationId",
    "MessageGroupId",
    TRACE_HEADER,
    "DeadLetterQueueSourceArn",
)
# In `AttributeNames` an old client may use names of queue attributes; the service ignores them.
_LET_PASS: Final = frozenset({"All", "Policy", "VisibilityTimeout", "MaximumMessageSize", "MessageRetentionPeriod",
    "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "CreatedTimestamp",
    "LastModifiedTimestamp", "QueueArn", "ApproximateNumberOfMessagesDelayed", "DelaySeconds",
    "ReceiveMessageWaitTimeSeconds", "RedrivePolicy", "FifoQueue", "ContentBasedDeduplication", "KmsMasterKeyId",
    "KmsDataKeyReusePeriodSeconds", "DeduplicationScope", "FifoThroughputLimit", "RedriveAllowPolicy",
    "SqsManagedSseEnabled"})  # fmt: skip
_EVERY: Final = frozenset({"All", ".*", "*"})  # Names of message attributes that mean all of them.
_BASE64: Final[Attribute] = ("String", b"base64")


@final
class WantedAttributes:
    """The attributes that a receiver requested."""

    __slots__ = ("_all", "_names", "_positions", "_prefixes", "_system", "filter")

    def __init__(self, system: Sequence[str], attributes: Sequence[str]) -> None:
        """Raises SqsError for an unknown system attribute, and for two filters."""
        for name in system:
            if name not in SYSTEM_ATTRIBUTES and name not in _LET_PASS:
                raise unknown(name)
        self._system: Sequence[str] = SYSTEM_ATTRIBUTES if "All" in system else system
        self.filter = filter_in(attributes)
        self._positions = positions_in(attributes)
        self._all = not _EVERY.isdisjoint(attributes)
        self._names = frozenset(attributes)
        self._prefixes = tuple(name[:-2] for name in attributes if name.endswith(".*"))

    def message(self, door: Door, delivery: Delivery, queue: str = "") -> MessageResult:
        """One message as the service shows it. `queue` is its name in a receive from several."""
        text = decode(delivery.body)
        attributes = self._attributes(delivery.attributes) if delivery.attributes else {}
        if self._positions:
            attributes = {**attributes, **position_attributes(delivery, self._positions)}
        if queue:
            attributes = {**attributes, QUEUE: ("String", queue.encode())}
        if delivery.priority or delivery.reply_to or delivery.correlation_id or delivery.stamp:
            attributes = {**attributes, **self._attributes(received_attributes(delivery))}
        body = delivery.body
        if text is None:
            body = base64.b64encode(body)
            text = body.decode()
            attributes = {**attributes, ENCODING_ATTRIBUTE: _BASE64}
        result = MessageResult(
            message_id=delivery.message_id,
            receipt_handle=delivery.receipt,
            md5_of_body=digest_of_body(body),
            body=text,
        )
        if self._system:
            every = _system_attributes(door, delivery)
            result.attributes = {name: every[name] for name in self._system if name in every}
        if attributes:
            shown = {name: _shown(value) for name, value in attributes.items()}
            result.message_attributes = {name: one for name, (one, _) in shown.items()}
            result.md5_of_message_attributes = digest_of_attributes({name: raw for name, (_, raw) in shown.items()})
        return result

    def _attributes(self, attributes: dict[str, Attribute]) -> dict[str, Attribute]:
        if self._all:
            return attributes
        return {
            name: value
            for name, value in attributes.items()
            if name in self._names or (self._prefixes and name.startswith(self._prefixes))
        }


def _shown(attribute: Attribute) -> tuple[AttributeValueResult, Attribute]:
    """An attribute for the result, and for the digest. An attribute of type text that is not text is shown as bytes."""
    data_type, value = attribute
    text = None if is_binary(data_type) else decode(value)
    if text is not None:
        return AttributeValueResult(string_value=text, data_type=data_type), attribute
    if not is_binary(data_type):
        data_type = "Binary"
    return AttributeValueResult(binary_value=value, data_type=data_type), (data_type, value)


def _system_attributes(door: Door, delivery: Delivery) -> dict[str, str]:
    out = {
        "SenderId": delivery.sender or delivery.system.get(SENDER) or door.account,
        "SentTimestamp": str(delivery.sent_ms),
        "ApproximateReceiveCount": str(delivery.attempts_before + delivery.attempts),
        "ApproximateFirstReceiveTimestamp": str(delivery.first_received_ms),
    }
    if delivery.sequence >= 0:
        out["SequenceNumber"] = sequence_number(delivery.sequence)
    if delivery.deduplication_id:
        # The service gives a dead letter its message id, so that letters with the same id do not repeat each other.
        is_letter = bool(delivery.dead_letter_source) and delivery.sequence >= 0
        out["MessageDeduplicationId"] = delivery.message_id if is_letter else delivery.deduplication_id
    if delivery.group:
        out["MessageGroupId"] = delivery.group
    if TRACE_HEADER in delivery.system:
        out[TRACE_HEADER] = delivery.system[TRACE_HEADER]
    if delivery.dead_letter_source:
        out["DeadLetterQueueSourceArn"] = door.arn(delivery.dead_letter_source)
    return out


def sequence_number(sequence: int) -> str:
    """A sequence number in twenty digits, so that texts sort like the numbers."""
    return f"{sequence:020d}"
