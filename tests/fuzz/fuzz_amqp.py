"""Fuzz target: whatever bytes come to the decoders of the AMQP door, they are read or refused as malformed.

The first byte chooses the decoder: the arguments of some method, a content header, or the properties of a message on
their way to the service and back.
"""

from __future__ import annotations

from longhall.doors.amqp.deliveries import deliver_frames
from longhall.doors.amqp.errors import AmqpError
from longhall.doors.amqp.publications import publication_of
from longhall.doors.amqp.wire.frames import decode_content_header
from longhall.doors.amqp.wire.methods import METHODS, decode_arguments, encode_arguments
from longhall.exchanges.field_table import MalformedTable, encode_table
from longhall.queues.messages import Delivery

FORMS = sorted({method.form for method in METHODS.values()})
_HEADERS = encode_table({"CC": ["k"], "x-delay": 5, "a": {"b": [1, None, True]}})
SEEDS = [bytes([0, 4, 0, 0, 1, 0]), b"\1\0\x3c\0\0" + bytes(8) + b"\0\0", b"\2\x20\0" + _HEADERS, b"\2\x01\0\x0260"]


def TestOneInput(data: bytes) -> None:
    """The first byte chooses the decoder, so that each gets a corpus of its own."""
    if len(data) < 2:
        return
    choice, body = data[0] % 3, data[1:]
    try:
        if choice == 0:
            form = FORMS[body[0] % len(FORMS)]
            arguments = decode_arguments(form, body, 1, len(body))
            again = encode_arguments(form, arguments)
            assert decode_arguments(form, again, 0, len(again)) == arguments
        elif choice == 1:
            decode_content_header(body)
        else:
            message = publication_of("/", "exchange", "key", body, b"body", "guest").message
            delivery = Delivery(message_id="", receipt="", body=message.body, amqp=message.amqp, attempts=2)
            assert deliver_frames(1, b"\0", 1, delivery, "queue", True, 4096)
    except (MalformedTable, AmqpError):
        pass
