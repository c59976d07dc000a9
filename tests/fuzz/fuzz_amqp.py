"""Fuzz target: whatever bytes come to the decoders of the AMQP door, they are read or refused as malformed.

The first byte chooses the decoder: the arguments of some method, a content header, the properties of a message on
their way to the service and back, or the reader of whole contents.
"""

from __future__ import annotations

from longhall.doors.amqp.deliveries import append_delivery
from longhall.doors.amqp.errors import AmqpError
from longhall.doors.amqp.publications import publication_of
from longhall.doors.amqp.wire.frames import content_frames, decode_content_header
from longhall.doors.amqp.wire.methods import BASIC_PUBLISH, METHODS, decode_arguments, encode_arguments
from longhall.doors.amqp.wire.publish_reader import PublishReader, read_ack
from longhall.exchanges.field_table import MalformedTable, encode_table
from longhall.queues.messages import Delivery

FORMS = sorted({method.form for method in METHODS.values()})
_HEADERS = encode_table({"CC": ["k"], "x-delay": 5, "a": {"b": [1, None, True]}})
_PUBLISH = BASIC_PUBLISH.to_bytes(4, "big") + bytes((0, 0, 1, 65, 1, 66, 0))
SEEDS = [
    bytes([0, 4, 0, 0, 1, 0]),
    b"\1\0\x3c\0\0" + bytes(8) + b"\0\0",
    b"\2\x20\0" + _HEADERS,
    b"\2\x01\0\x0260",
    b"\3" + content_frames(1, _PUBLISH, b"\x10\0\2", b"body", 4096),
]


def TestOneInput(data: bytes) -> None:
    """The first byte chooses the decoder, so that each gets a corpus of its own."""
    if len(data) < 2:
        return
    choice, body = data[0] % 4, data[1:]
    try:
        if choice == 0:
            form = FORMS[body[0] % len(FORMS)]
            arguments = decode_arguments(form, body, 1, len(body))
            again = encode_arguments(form, arguments)
            assert decode_arguments(form, again, 0, len(again)) == arguments
        elif choice == 1:
            decode_content_header(body)
        elif choice == 3:
            stop = PublishReader(4096).read(body, 0, 4096)
            assert 0 <= stop <= len(body)
            read_ack(body, 0)
        else:
            message = publication_of("/", "exchange", "key", body, b"body", "guest").message
            delivery = Delivery(message_id="", receipt="", body=message.body, amqp=message.amqp, attempts=2)
            parts: list[bytes] = []
            append_delivery(parts, 1, b"\0", 1, delivery, "queue", True, 4096)
            assert b"".join(parts)
    except (MalformedTable, AmqpError):
        pass
