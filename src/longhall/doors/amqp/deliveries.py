"""Deliveries as the contents that a client gets: basic.deliver and basic.get_ok.

The bytes of the publisher's properties go out as they came in. Only a message of another door, and one that a quorum
queue delivers again, get properties that are made here.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from longhall.doors.amqp.publications import properties_from
from longhall.doors.amqp.wire.frames import append_content, content_frames
from longhall.doors.amqp.wire.methods import BASIC_DELIVER, BASIC_GET_OK
from longhall.exchanges.field_table import (
    EMPTY_TABLE,
    MalformedTable,
    encode_long,
    encode_short,
    join_table,
    split_table,
)
from longhall.exchanges.properties import decode_properties, encode_properties
from longhall.queues.messages import Delivery

DELIVERY_COUNT: Final = "x-delivery-count"
STREAM_OFFSET: Final = "x-stream-offset"
POSITIONS: Final = "x-longhall-positions"  # Of a consumer that wants to know where messages are.
_DELIVER: Final = BASIC_DELIVER.to_bytes(4, "big")
_GET_OK: Final = BASIC_GET_OK.to_bytes(4, "big")
_NUMBER: Final = Struct(">Q?")  # Delivery tag and redelivered.


def address_and_properties(delivery: Delivery, queue: str, counts: bool) -> tuple[bytes, bytes]:
    """Exchange and routing key as two short strings, and the property list."""
    stored = delivery.amqp
    if stored:
        at = 1 + stored[0]
        at += 1 + stored[at]
        address, properties = stored[:at], stored[at:]
    else:
        address = b"\0" + encode_short(queue)
        properties = properties_from(
            delivery.attributes,
            delivery.correlation_id,
            delivery.reply_to,
            delivery.priority,
            delivery.message_id,
            delivery.sent_ms,
        )
    if counts and delivery.attempts > 1:
        properties = _with_number(properties, DELIVERY_COUNT, delivery.attempts - 1)
    return address, properties


def with_stream_offset(delivery: Delivery, queue: str) -> bytes:
    """The stored properties of a message of a stream, with its offset."""
    address, properties = address_and_properties(delivery, queue, False)
    return address + _with_number(properties, STREAM_OFFSET, delivery.offset)


def with_position(delivery: Delivery, queue: str) -> bytes:
    """The stored properties of a message, with its partition, offset and sequence; the sequence is the offset unless
    the queue is FIFO.
    """
    address, properties = address_and_properties(delivery, queue, False)
    properties = _with_number(properties, "longhall.partition", delivery.partition)
    properties = _with_number(properties, "longhall.offset", delivery.offset)
    sequence = delivery.sequence if delivery.sequence >= 0 else delivery.offset
    properties = _with_number(properties, "longhall.sequence", sequence)
    return address + properties


def _with_number(raw: bytes, name: str, number: int) -> bytes:
    try:
        properties = decode_properties(raw)
        fields = split_table(properties.headers or EMPTY_TABLE)[0]
    except MalformedTable:
        return raw
    fields = [field for field in fields if field[0] != name]
    properties.headers = join_table([*fields, (name, encode_long(number))])
    return encode_properties(properties)


def append_delivery(
    parts: list[bytes],
    channel: int,
    tag: bytes,
    number: int,
    delivery: Delivery,
    queue: str,
    counts: bool,
    frame_max: int,
) -> None:
    """Append basic.deliver to other frames, as parts to be joined.

    `tag` is the consumer tag as a short string, `counts` that redeliveries are counted.
    """
    address, properties = address_and_properties(delivery, queue, counts)
    payload = _DELIVER + tag + _NUMBER.pack(number, delivery.attempts > 1) + address
    append_content(parts, channel, payload, properties, delivery.body, frame_max)


def get_frames(
    channel: int, number: int, delivery: Delivery, queue: str, counts: bool, left: int, frame_max: int
) -> bytes:
    """basic.get_ok."""
    address, properties = address_and_properties(delivery, queue, counts)
    payload = _GET_OK + _NUMBER.pack(number, delivery.attempts > 1) + address + min(left, 0xFFFFFFFF).to_bytes(4, "big")
    return content_frames(channel, payload, properties, delivery.body, frame_max)
