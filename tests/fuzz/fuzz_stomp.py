"""Fuzz target: whatever bytes come to the decoders of the STOMP door, they are read or refused as malformed.

The first byte chooses the decoder: frames of one of the versions, in pieces, with what a SEND becomes; or WebSocket.
"""

from __future__ import annotations

from longhall.doors.amqp.errors import AmqpError
from longhall.doors.stomp.destinations import parse_destination
from longhall.doors.stomp.errors import StompError
from longhall.doors.stomp.heart_beat import agreed
from longhall.doors.stomp.message_headers import message_headers, publication
from longhall.doors.stomp.selectors import selector_of
from longhall.doors.stomp.subscription import delivery_number, tag_of
from longhall.doors.stomp.subscription_queues import arguments_of
from longhall.doors.stomp.wire.frames import V1_0, V1_1, V1_2, FrameDecoder, MalformedFrame, StompFrame, encode_frame
from longhall.exchanges.field_table import MalformedTable
from longhall.front.websocket import WebSocketDecoder, WebSocketError, close_code
from longhall.queues.messages import Delivery

VERSIONS = (V1_0, V1_1, V1_2)
SEEDS = [
    b"\2\7SEND\ndestination:/queue/a\ncontent-length:1\nx-delay:5\n\nb\0\n",
    b"\1\3SUBSCRIBE\nid:1\nselector:a = 'b'\nx-message-ttl:5\n\n\0",
    b"\0\1CONNECT\nheart-beat:1,2\n\n\0",
    b"\3\5\x81\x83\1\2\3\4abc\x88\x80\1\2\3\4",
]


def TestOneInput(data: bytes) -> None:
    """The first byte chooses the decoder, the second the size of the pieces."""
    if len(data) < 3:
        return
    choice, size, body = data[0] % 4, data[1] % 64 + 1, data[2:]
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    if choice == 3:
        _websocket(pieces)
        return
    decoder = FrameDecoder()
    decoder.version = version = VERSIONS[choice]
    try:
        for piece in pieces:
            decoder.feed(piece)
            while (frame := decoder.next()) is not None:
                _frame(frame, version)
    except MalformedFrame:
        pass


def _frame(frame: StompFrame, version: str) -> None:
    again = FrameDecoder(1 << 22)
    again.version = version
    again.feed(encode_frame(frame.command, [*frame.headers.items()], frame.body, version))
    for attempt in (_send, _rest):
        try:
            attempt(frame)
        except (StompError, AmqpError, MalformedTable):
            pass


def _send(frame: StompFrame) -> None:
    destination = parse_destination(frame.headers.get("destination", "a"))
    message = publication(frame, destination, "/", "guest").message
    message_headers(Delivery(message_id="", receipt="", body=message.body, amqp=message.amqp, attempts=2), "a", True)


def _rest(frame: StompFrame) -> None:
    delivery_number(frame.headers.get("id", ""), "session")
    arguments_of(frame)
    tag_of(frame)
    agreed(frame.headers.get("heart-beat", "0,0"))
    selector_of(frame.headers.get("selector", "a = 1"))


def _websocket(pieces: list[bytes]) -> None:
    decoder = WebSocketDecoder(1000)
    try:
        for piece in pieces:
            for opcode, payload in decoder.feed(piece):
                if opcode == 8:
                    close_code(payload)
    except WebSocketError:
        pass
