"""The outbox of a replication group among the metrics: messages on their way to queues of other groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from longhall.console.metrics import Family, counter, gauge


class OutboxCounts(Protocol):
    """The counters of the outbox. Only the leader of the group delivers, and only it has them."""

    @property
    def is_delivering(self) -> bool: ...

    @property
    def waiting(self) -> int: ...

    @property
    def oldest_age_ms(self) -> int: ...

    @property
    def dropped(self) -> int: ...


def outbox_families(outbox: OutboxCounts) -> Iterator[Family]:
    """The metrics of the outbox; none at followers."""
    if outbox.is_delivering:
        yield gauge("longhall_outbox_messages", "Messages that wait for queues of other groups.", outbox.waiting)
        help_age = "How long the oldest message for a queue of another group has waited."
        yield gauge("longhall_outbox_oldest_message_age_seconds", help_age, outbox.oldest_age_ms / 1000)
        help_dropped = "Messages for queues of other groups that went with their deleted queue."
        yield counter("longhall_outbox_dropped_total", help_dropped, outbox.dropped)
