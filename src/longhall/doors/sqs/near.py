"""What any node may do about a queue that wings have, without the leader of the hall: everything about its messages."""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.doors.sqs.addresses import queue_of_url
from longhall.doors.sqs.wire.faults import SqsError
from longhall.doors.sqs.wire.json import TARGET_PREFIX

NEAR: Final = frozenset(  # What needs no more of the hall than to know that the queue is there.
    TARGET_PREFIX + name
    for name in (
        b"ChangeMessageVisibility",
        b"ChangeMessageVisibilityBatch",
        b"DeleteMessage",
        b"DeleteMessageBatch",
        b"ReceiveMessage",
        b"SendMessage",
        b"SendMessageBatch",
    )
)


class _About(msgspec.Struct):
    """What a request is about; the rest of it is passed over."""

    QueueUrl: str


_decoder: Final = msgspec.json.Decoder(_About)


def queue_meant(body: bytes) -> str | None:
    """The name of the queue that a request is about. What cannot be read is left to whoever leads, to say why."""
    try:
        return queue_of_url(_decoder.decode(body).QueueUrl)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, SqsError):
        return None
