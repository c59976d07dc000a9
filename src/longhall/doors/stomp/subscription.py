"""Subscriptions: what SUBSCRIBE asks for, and how a client names it.

    id header                tag         `subscription` of MESSAGE
    id:1                     T_1         1
    none                     Q_<dest>    the destination

A delivery is named `<tag>@@<session>@@<number>`, in `message-id` and in the `ack` header of STOMP 1.2.
"""

from __future__ import annotations

from typing import Any, Final, final

from longhall.doors.amqp.unacknowledged import ChannelConsumer
from longhall.doors.stomp.destinations import TEMPORARY_PREFIX, StompDestination
from longhall.doors.stomp.errors import StompError, invalid_header
from longhall.doors.stomp.message_headers import number
from longhall.doors.stomp.wire.frames import StompFrame
from longhall.exchanges.field_table import SHORT_BYTES_MAX
from longhall.queues.filters import Filter

AUTO: Final = "auto"
CLIENT: Final = "client"
INDIVIDUAL: Final = "client-individual"
SUBSCRIPTIONS_MAX: Final = 4096
UNACKNOWLEDGED_MAX: Final = 65_536  # Of a subscription; RabbitMQ has no bound without prefetch-count.
BETWEEN: Final = "@@"


@final
class StompSubscription:
    """One subscription of a connection."""

    def __init__(self, tag: str, destination: StompDestination, consumer: ChannelConsumer) -> None:
        self.tag = tag
        self.destination = destination
        self.consumer = consumer
        self.shown_id = tag[2:]
        self.filter = ""  # Of the consumer: messages that do not match stay for others.
        self.stream_arguments: dict[str, Any] = {}  # Where it begins in a stream, and what it wants of it.
        self.selector: Filter | None = None  # Of a queue of its own: messages that do not match are dropped.

    @property
    def description(self) -> str:
        """The subscription as errors name it."""
        return f"id='{self.shown_id}'" if self.tag.startswith("T_") else f"destination='{self.shown_id}'"


def tag_of(frame: StompFrame) -> str:
    """The tag of the subscription that a frame names. StompError if it names none."""
    shown = frame.headers.get("id")
    if shown is not None:
        if shown.startswith(TEMPORARY_PREFIX):
            raise StompError("Invalid id", f"'id' may not start with {TEMPORARY_PREFIX}\n")
        tag = f"T_{shown}"
    elif "destination" in frame.headers:
        tag = f"Q_{frame.headers['destination']}"
    else:
        raise StompError("Missing destination or id", f"{frame.command} must include a 'destination' or 'id' header\n")
    if len(tag.encode("utf-8", "replace")) > SHORT_BYTES_MAX:
        raise StompError("Invalid id", f"an id has at most {SHORT_BYTES_MAX - 2} bytes\n")
    return tag


def acknowledgement_of(frame: StompFrame) -> str:
    """The acknowledgement mode of SUBSCRIBE."""
    mode = frame.headers.get("ack", AUTO)
    if mode not in (AUTO, CLIENT, INDIVIDUAL):
        raise invalid_header("ack", mode, f"it must be {AUTO}, {CLIENT} or {INDIVIDUAL}")
    return mode


def prefetch_of(frame: StompFrame, mode: str) -> int:
    """The number of messages that the client may hold; 0: any number."""
    asked = number(frame, "prefetch-count", 65_535) if "prefetch-count" in frame.headers else 0
    return 0 if mode == AUTO else asked or UNACKNOWLEDGED_MAX


def priority_of(frame: StompFrame) -> int:
    """The priority of the consumer."""
    text = frame.headers.get("x-priority", "0").strip()
    digits = text[1:] if text[:1] in "+-" else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        raise invalid_header("x-priority", text, "it is no 32-bit integer")
    return int(text)


def delivery_name(tag: str, session: str, number: int) -> str:
    """The message-id of a delivery."""
    return f"{tag}{BETWEEN}{session}{BETWEEN}{number}"


def delivery_number(name: str, session: str) -> int:
    """The number of a delivery of this session; 0 if the name is of no such delivery."""
    parts = name.rsplit(BETWEEN, 2)
    if len(parts) != 3 or parts[1] != session or not parts[2].isascii() or not parts[2].isdigit():
        return 0
    return int(parts[2]) if len(parts[2]) <= 18 else 0
