"""Fuzz target: every decoder of the Kafka door reads a frame or refuses it with WireError, and nothing else happens.

The first two bytes choose the decoder; the rest is the frame. Run by `./dev fuzz`.
"""

from __future__ import annotations

from longhall.doors.kafka.wire.apis import API
from longhall.doors.kafka.wire.fetch import parse_fetch
from longhall.doors.kafka.wire.headers import decode_request_header
from longhall.doors.kafka.wire.malformed import WireError
from longhall.doors.kafka.wire.messages.membership import decode_assignment, decode_subscription
from longhall.doors.kafka.wire.produce import parse_produce
from longhall.doors.kafka.wire.schema import decode, encode

MESSAGES = [
    (cls, version)
    for api in API.values()
    for version in range(api.version_min, api.version_max + 1)
    for cls in (api.request, api.response)
]


def TestOneInput(data: bytes) -> None:
    if len(data) < 2:
        return
    choice = int.from_bytes(data[:2], "big")
    frame = data[2:]
    try:
        if choice < 0x1000:
            header = decode_request_header(frame)
            assert header.at <= len(frame)
        elif choice < 0x3000:
            for part in parse_produce(frame, 0, choice % 14).parts:
                assert part.records_size < 0 or part.records_at + part.records_size <= len(frame)
        elif choice < 0x5000:
            parse_fetch(frame, 0, 4 + choice % 15)
        elif choice < 0x5800:
            decode_subscription(frame)
        elif choice < 0x6000:
            decode_assignment(frame)
        else:
            cls, version = MESSAGES[choice % len(MESSAGES)]
            message, at = decode(cls, version, frame, 0)
            assert at <= len(frame)
            assert decode(cls, version, encode(message, version), 0)[0] == message
    except WireError:
        return
