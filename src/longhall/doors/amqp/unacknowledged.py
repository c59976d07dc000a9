"""Consumers as a client knows them, and the deliveries that it has not ended yet."""

from __future__ import annotations

from typing import Final, final

from longhall.broker.queues.consumers.session import PushedMessages
from longhall.broker.queues.consumers.stream_reader import StreamStart
from longhall.exchanges.field_table import encode_short
from longhall.service.exchange_operations import AddConsumer

UNLIMITED: Final = 1 << 40


@final
class ChannelConsumer:
    """A consumer of a channel, as the client knows it."""

    __slots__ = (
        "asked",
        "counts",
        "early",
        "is_cumulative",
        "key",
        "no_ack",
        "outstanding",
        "positions",
        "prefetch",
        "queue",
        "shown_queue",
        "stream",
        "tag",
        "tag_bytes",
    )

    def __init__(self, tag: str, key: int, queue: str, shown_queue: str, no_ack: bool, prefetch: int) -> None:
        self.tag = tag
        self.tag_bytes = encode_short(tag)
        self.key = key
        self.queue = queue
        self.shown_queue = shown_queue
        self.no_ack = no_ack
        self.prefetch = prefetch
        self.outstanding = 0
        self.counts = False
        self.is_cumulative = False  # STOMP's mode `client`: an acknowledgement ends all deliveries before, too.
        self.positions = False  # Deliveries say where the message is.
        self.asked: tuple[bool, int] = (False, 0)  # Exclusive, and priority.
        self.stream: StreamStart | None = None  # Of a stream: where it begins, or goes on at another leader.
        self.early: (
            list[PushedMessages] | None
        ) = []  # Pushes that came before the consumer was confirmed; None afterwards.

    def operation(self, session: str, channel: int) -> AddConsumer:
        """The request that opens the consumer, at first or at another leader."""
        exclusive, priority = self.asked
        return AddConsumer(
            self.queue,
            session,
            self.key,
            channel,
            self.credit,
            self.no_ack,
            exclusive,
            priority,
            stream=self.stream,
        )

    @property
    def credit(self) -> int:
        """The credit of a consumer that is opened now."""
        return self.prefetch - self.outstanding if self.prefetch and not self.no_ack else UNLIMITED


@final
class Unacknowledged:
    """One delivery that the client has not ended."""

    __slots__ = ("consumer", "number", "queue", "receipt")

    def __init__(self, number: int, queue: str, receipt: str, consumer: ChannelConsumer | None) -> None:
        self.number = number
        self.queue = queue
        self.receipt = receipt
        self.consumer = consumer


def end_deliveries(
    waiting: dict[int, Unacknowledged], last: int, number: int, multiple: bool
) -> list[Unacknowledged] | None:
    """Remove deliveries that a client ends: this one, or all up to it (0: all). None for an unknown number.

    `waiting` are those that it has not ended, by number; `last` is the highest number so far.
    """
    if not multiple:
        one = waiting.pop(number, None)
        return [one] if one is not None else None
    if number == 0:
        found = list(waiting.values())
        waiting.clear()
        return found
    if number not in waiting:
        if not 0 < number <= last:
            return None
        # Acknowledging twice up to the same delivery is an error as well, unless something is left below it.
        if not any(tag < number for tag in waiting):
            return None
    tags: list[int] = []
    for tag in waiting:
        if tag > number:
            break
        tags.append(tag)
    return [waiting.pop(tag) for tag in tags]
