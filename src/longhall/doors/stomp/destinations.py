"""Destinations of STOMP frames, as RabbitMQ has them.

    destination           exchange          routing key    SEND creates        SUBSCRIBE reads
    /queue/n, or n        default           n              the queue           the queue, which it creates
    /amq/queue/n          default           n              nothing             a queue that exists
    /reply-queue/n        default           n              nothing             a queue that exists
    /topic/k              amq.topic         k              nothing             a queue of the subscription, bound with k
    /exchange/x[/k]       x                 k              nothing             a queue of the subscription, bound with k
    /temp-queue/n         only in reply-to: a private queue that the connection reads

Names are percent-encoded, so that they may have slashes.
"""

from __future__ import annotations

from typing import Final, final
from urllib.parse import quote, unquote

from longhall.doors.stomp.errors import StompError

QUEUE: Final = "queue"
AMQ_QUEUE: Final = "amq/queue"
REPLY_QUEUE: Final = "reply-queue"
TOPIC: Final = "topic"
EXCHANGE: Final = "exchange"
TEMPORARY: Final = "temp-queue"
TEMPORARY_PREFIX: Final = "/temp-queue/"
REPLY_PREFIX: Final = "/reply-queue/"
TOPIC_EXCHANGE: Final = "amq.topic"
PREFIXES: Final = "/temp-queue, /exchange, /topic, /amq/queue, /queue, /reply-queue"
NAME_BYTES_MAX: Final = 255
DIRECT_REPLY: Final = "amq.rabbitmq.reply-to."


@final
class StompDestination:
    """What a destination means. `exchange` and `key` are where a message for it is published."""

    __slots__ = ("exchange", "key", "kind", "text")

    def __init__(self, text: str, kind: str, exchange: str, key: str) -> None:
        self.text = text
        self.kind = kind
        self.exchange = exchange
        self.key = key

    @property
    def names_queue(self) -> bool:
        """True if the routing key is the name of a queue."""
        return self.kind in (QUEUE, AMQ_QUEUE, REPLY_QUEUE)


def parse_destination(text: str) -> StompDestination:
    """Raises StompError for what is none."""
    parts = text.split("/")
    if len(parts) == 1 and text:
        return _checked(StompDestination(text, QUEUE, "", unquote(text)))
    if parts[0] or len(parts) < 2:
        raise _unknown(text)
    kind, rest = parts[1], parts[2:]
    if kind == REPLY_QUEUE and rest:
        name = text[len(REPLY_PREFIX) :]
        if not name:
            raise _invalid(kind, rest)
        return _checked(StompDestination(text, REPLY_QUEUE, "", name))
    if kind == "amq" and rest[:1] == ["queue"]:
        kind, rest = AMQ_QUEUE, rest[1:]
    if kind == EXCHANGE:
        if not 1 <= len(rest) <= 2 or not rest[0]:
            raise _invalid(kind, rest)
        key = unquote(rest[1]) if len(rest) == 2 else ""
        return _checked(StompDestination(text, EXCHANGE, unquote(rest[0]), key))
    if kind not in (QUEUE, AMQ_QUEUE, TOPIC, TEMPORARY):
        raise _unknown(text)
    if len(rest) != 1 or not rest[0]:
        raise _invalid(kind, rest)
    name = unquote(rest[0])
    return _checked(StompDestination(text, kind, TOPIC_EXCHANGE if kind == TOPIC else "", name))


def _checked(destination: StompDestination) -> StompDestination:
    for name in (destination.exchange, destination.key):
        if len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX or "\0" in name:
            raise StompError("Invalid destination", f"a name has more than {NAME_BYTES_MAX} bytes, or a NUL\n")
    return destination


def _unknown(text: str) -> StompError:
    if not text:
        return StompError("Invalid destination", "'' is not a valid destination\n")
    return StompError(
        "Unknown destination", f"'{text}' is not a valid destination.\nValid destination types are: {PREFIXES}.\n"
    )


def _invalid(kind: str, rest: list[str]) -> StompError:
    shown = "".join("/" + part for part in rest)
    return StompError("Invalid destination", f"'{shown}' is not a valid {kind} destination\n")


def destination_of(exchange: str, key: str) -> str:
    """The destination of a message, from its exchange and its routing key."""
    if not exchange:
        return f"/queue/{_escaped(key)}"
    if exchange == TOPIC_EXCHANGE:
        return f"/topic/{_escaped(key)}"
    return f"/exchange/{_escaped(exchange)}/{_escaped(key)}" if key else f"/exchange/{_escaped(exchange)}"


def reply_name(text: str) -> str:
    """The name of a reply queue as AMQP has it; other destinations stay as they are."""
    if text.startswith(REPLY_PREFIX):
        return text[len(REPLY_PREFIX) :]
    if text.startswith("/queue/") and text.count("/") == 2:
        return unquote(text[len("/queue/") :])
    return text


def reply_destination(name: str) -> str:
    """The inverse of `reply_name`: a destination that a STOMP client can send to."""
    if name.startswith("/"):
        return name
    return REPLY_PREFIX + name if name.startswith("amq.") else f"/queue/{_escaped(name)}"


def _escaped(name: str) -> str:
    # Everything that a routing key usually has stays readable; a slash does not.
    return quote(name, safe="!#$&'()*+,:;=@[]?<>|^`{}~ \"")
