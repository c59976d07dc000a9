"""Conversion of a message of the service into one of ours, with the checks of the service.

Raises SqsError for everything that the service would refuse. Batches use the same checks for each of their entries.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.extensions import extended
from longhall.doors.sqs.outgoing import ExtendedOutgoing
from longhall.doors.sqs.text import digest_of_attributes, encode, is_binary
from longhall.doors.sqs.wire.faults import (
    EMPTY_VALUE,
    INVALID_CONTENTS,
    INVALID_PARAMETER,
    UNSUPPORTED,
    SqsError,
    missing,
    wrong_value,
)
from longhall.doors.sqs.wire.requests import AttributeValue, SendMessageBatchRequestEntry, SendMessageRequest
from longhall.queues.messages import Attribute, Outgoing
from longhall.queues.settings import QueueSettings

ATTRIBUTES_MAX: Final = 10
ATTRIBUTE_NAME_LENGTH_MAX: Final = 256
TRACE_HEADER: Final = "AWSTraceHeader"
SENDER: Final = "SenderId"

_NAME = re.compile(r"[A-Za-z0-9_\-.\u00c0-\u017f]*")  # The service takes accented Latin letters too.
_ALLOWED_CHARACTERS: Final = "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
_RESERVED = re.compile(r"(?i)(aws|amazon)\.")
_TYPE = re.compile(r"(String|Number|Binary)(\..+)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_NUMBER_MIN: Final = -1e128
_NUMBER_MAX: Final = 1e126
_TOKEN = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")  # Of groups, deduplication, attempts.


def outgoing(
    door: Door, settings: QueueSettings, request: SendMessageRequest | SendMessageBatchRequestEntry, caller: Caller
) -> Outgoing:
    """The message to send. Raises SqsError."""
    if not request.message_body:
        if isinstance(request, SendMessageRequest):
            raise missing("MessageBody")
        raise SqsError(EMPTY_VALUE, "The request must contain the parameter MessageBody.")
    body = request.message_body.encode() if caller.is_allowed_text else encode(request.message_body)
    if body is None:
        said = "Invalid characters found. Valid unicode characters are "
        raise SqsError(INVALID_CONTENTS, said + _ALLOWED_CHARACTERS)
    message = Outgoing(body=body)
    if request.message_attributes:
        message.attributes = _attributes(request.message_attributes)
        message = extended(message)
    if request.message_system_attributes:
        message.system = _system_attributes(request.message_system_attributes)
    if caller.trace and TRACE_HEADER not in message.system:
        message.system = {**message.system, TRACE_HEADER: caller.trace}
    if caller.sender:
        message.system = {**message.system, SENDER: caller.sender}
    bytes_max = max(settings.message_bytes_max, settings.whole_bytes_max)  # Over the first it is stored in parts.
    if size_bytes(message) > bytes_max:
        what = "are invalid" if isinstance(request, SendMessageRequest) else "cannot be validated"
        reason = f"Message must be shorter than {bytes_max} bytes."
        raise SqsError(INVALID_PARAMETER, f"One or more parameters {what}. Reason: {reason}")
    if request.delay_seconds is not None:
        message.delay_ms = _delay_ms(door, settings, request.delay_seconds)
    if settings.fifo:
        _order(settings, request, message)
    else:
        if request.message_deduplication_id is not None:
            reason = "The request includes a parameter that is not valid for this queue type."
            raise wrong_value("MessageDeduplicationId", request.message_deduplication_id, reason)
        if request.message_group_id is not None:
            message.group = check_token("MessageGroupId", request.message_group_id)
    return message


def size_bytes(message: Outgoing) -> int:
    """The size for the limits: the body, and the names, types and values of attributes."""
    size = len(message.body)
    for name, (data_type, value) in sent_attributes(message).items():
        size += len(name.encode()) + len(data_type.encode()) + len(value)
    return size


def sent_attributes(message: Outgoing) -> dict[str, Attribute]:
    """The attributes as the sender wrote them."""
    return message.sent if type(message) is ExtendedOutgoing else message.attributes


def check_token(parameter: str, token: str) -> str:
    """An id of up to 128 letters, digits and punctuation marks. Raises SqsError."""
    if _TOKEN.fullmatch(token) is None:
        reason = f"{parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length."
        raise wrong_value(parameter, token, reason)
    return token


def _delay_ms(door: Door, settings: QueueSettings, delay_s: int) -> int:
    if not 0 <= delay_s <= door.limits.delay_s_max:
        reason = f"DelaySeconds must be >= 0 and <= {door.limits.delay_s_max}."
        raise wrong_value("DelaySeconds", delay_s, reason)
    if settings.fifo:
        if delay_s:
            raise wrong_value(
                "DelaySeconds", delay_s, "The request include parameter that is not valid for this queue type."
            )
        return -1  # Zero is allowed and means the queue's setting.
    return delay_s * 1000


def _order(
    settings: QueueSettings, request: SendMessageRequest | SendMessageBatchRequestEntry, message: Outgoing
) -> None:
    """The message group id and the deduplication id of a message for a FIFO queue."""
    if not request.message_group_id:
        raise missing("MessageGroupId")
    message.group = check_token("MessageGroupId", request.message_group_id)
    if request.message_deduplication_id is not None:
        message.deduplication_id = check_token("MessageDeduplicationId", request.message_deduplication_id)
    elif settings.deduplication == "content":
        message.deduplication_id = hashlib.sha256(message.body).hexdigest()
    else:
        raise _no_deduplication_id()


def _attributes(values: dict[str, AttributeValue]) -> dict[str, Attribute]:
    if len(values) > ATTRIBUTES_MAX:
        said = f"Number of message attributes [{len(values)}] exceeds the allowed maximum [{ATTRIBUTES_MAX}]."
        raise SqsError(INVALID_PARAMETER, said)
    out: dict[str, Attribute] = {}
    for name, value in values.items():
        _check_name(name)
        out[name] = _attribute(name, value)
    return out


def _check_name(name: str) -> None:
    if not name:
        raise SqsError(INVALID_PARAMETER, "The request must contain non-empty message (user) attribute names.")
    if len(name) > ATTRIBUTE_NAME_LENGTH_MAX:
        said = f"Message (user) attribute names must be shorter than {ATTRIBUTE_NAME_LENGTH_MAX} Bytes"
        raise SqsError(INVALID_PARAMETER, said)
    if _NAME.fullmatch(name) is None:
        said = "Message (user) attributes name can only contain upper and lower score characters, digits, periods, "
        raise SqsError(INVALID_PARAMETER, said + "hyphens and underscores. ")
    if _RESERVED.match(name) or name[0] == "." or name[-1] == "." or ".." in name:
        raise SqsError(
            INVALID_PARAMETER,
            "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. These strings are reserved for "
            "internal use. Additionally, they cannot start or end with '.', or have two of them in succession.",
        )


def _attribute(name: str, value: AttributeValue) -> Attribute:
    data_type = value.data_type
    if not data_type:
        raise SqsError(
            INVALID_PARAMETER, f"The message attribute '{name}' must contain non-empty message attribute type."
        )
    if len(data_type) > ATTRIBUTE_NAME_LENGTH_MAX:
        said = f"Message (user) attribute types must be shorter than {ATTRIBUTE_NAME_LENGTH_MAX} Bytes"
        raise SqsError(INVALID_PARAMETER, said)
    if _TYPE.fullmatch(data_type) is None or encode(data_type) is None:
        said = f"The type of message (user) attribute '{name}' is invalid. You must use only the following supported "
        raise SqsError(INVALID_PARAMETER, said + "type prefixes: Binary, Number, String.")
    if value.string_list_values or value.binary_list_values:
        raise SqsError(UNSUPPORTED, "Message attribute list values in SendMessage operation are not supported.")
    if is_binary(data_type):
        if not value.binary_value or value.string_value:
            raise _empty(name, "Binary")
        return data_type, value.binary_value
    if not value.string_value or value.binary_value:
        raise _empty(name, "String" if data_type.startswith("String") else "Number")
    encoded = encode(value.string_value)
    if encoded is None:
        said = f"Invalid characters found in the message (user) attribute '{name}'. Valid unicode characters are "
        raise SqsError(INVALID_PARAMETER, said + _ALLOWED_CHARACTERS)
    if data_type.startswith("Number"):
        _check_number(name, value.string_value)
    return data_type, encoded


def _check_number(name: str, text: str) -> None:
    if _NUMBER.fullmatch(text) is None:
        raise SqsError(INVALID_PARAMETER, f"Can't cast the value of message (user) attribute '{name}' to a number.")
    if not _NUMBER_MIN <= float(text) <= _NUMBER_MAX:
        said = f"Number attribute value {text[:200]} should be in range (-10**128..10**126)"
        raise SqsError(INVALID_PARAMETER, said)


def digest_of_system(request: SendMessageRequest | SendMessageBatchRequestEntry) -> str | None:
    """The MD5 of the system attributes of a request that `outgoing` accepts; None if it has none."""
    trace = (request.message_system_attributes or {}).get(TRACE_HEADER)
    if trace is None:
        return None
    return digest_of_attributes({TRACE_HEADER: (trace.data_type, (trace.string_value or "").encode())})


def check_order(settings: QueueSettings, entries: list[SendMessageBatchRequestEntry]) -> None:
    """Raises SqsError for a batch to a FIFO queue in which an entry lacks its group or its deduplication id.

    The service refuses such a batch as a whole.
    """
    for entry in entries:
        if entry.message_deduplication_id is None and settings.deduplication != "content":
            raise _no_deduplication_id()
        if not entry.message_group_id:
            raise SqsError(INVALID_PARAMETER, "The request must contain the parameter MessageGroupId.")


def _no_deduplication_id() -> SqsError:
    said = (
        "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
    )
    return SqsError(INVALID_PARAMETER, said)


def _system_attributes(values: dict[str, AttributeValue]) -> dict[str, str]:
    for name, value in values.items():
        if name != TRACE_HEADER:
            raise _wrong(name, "is no system attribute that can be sent")
        data_type, encoded = _attribute(name, value)
        if data_type != "String":
            raise _wrong(name, "must be of type String")
        return {name: encoded.decode()}
    return {}


def _empty(name: str, kind: str) -> SqsError:
    said = f"Message (user) attribute '{name}' must contain a non-empty value of type '{kind}'."
    return SqsError(INVALID_PARAMETER, said)


def _wrong(name: str, what: str) -> SqsError:
    return SqsError(INVALID_PARAMETER, f"The message system attribute '{name[:256]}' {what}.")
