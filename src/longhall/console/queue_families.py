"""The metrics of queues: which value has which name. Every sample has the queue's name as its label `queue`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from longhall.console.metrics import Family, Kind, Sample, labels
from longhall.console.sources import QueueStatus
from longhall.queues.outcomes import ATTEMPTS, DELETED, EXPIRED, LENGTH, REJECTED, RETENTION


class _OfQueues(NamedTuple):
    """A family with one sample a queue."""

    name: str
    kind: Kind
    help: str
    value: Callable[[QueueStatus], float]


_ROWS: Final = (
    _OfQueues("messages_ready", "gauge", "Messages that could be given out.", lambda of: of.ready),
    _OfQueues(
        "messages_in_flight", "gauge", "Messages that are leased, or wait after they were given back.",
        lambda of: of.in_flight,
    ),
    _OfQueues("messages_delayed", "gauge", "Messages that are not due yet.", lambda of: of.delayed),
    _OfQueues(
        "messages", "gauge", "Messages of all three kinds.", lambda of: of.ready + of.in_flight + of.delayed
    ),
    _OfQueues(
        "oldest_message_age_seconds", "gauge", "How long the oldest message that could be given out has waited.",
        lambda of: of.oldest_age_seconds,
    ),
    _OfQueues("size_bytes", "gauge", "Bytes of the queue's log, settled messages included.", lambda of: of.size_bytes),
    _OfQueues("parts", "gauge", "Logs that the queue is spread over.", lambda of: of.parts),
    _OfQueues(
        "parts_generation", "gauge", "How often the queue's parts have become more or fewer.", lambda of: of.generation
    ),
    _OfQueues("paused", "gauge", "1 while nothing is given out.", lambda of: int(of.paused)),
    _OfQueues("messages_sent_total", "counter", "Messages that producers sent.", lambda of: of.sends),
    _OfQueues(
        "deliveries_total", "counter", "Attempts: how often a message was given out.", lambda of: of.deliveries
    ),
    _OfQueues("messages_settled_total", "counter", "Messages that consumers settled.", lambda of: of.settles),
    _OfQueues(
        "leases_outlived_total", "counter", "Settles that came after the end of their lease.",
        lambda of: of.leases_outlived,
    ),
    _OfQueues(
        "fates_lost_total", "counter", "Fates that were not told, because the reply queue was gone or full.",
        lambda of: of.fates_lost,
    ),
)  # fmt: skip


# A counter that is there from zero can be watched for its first increase.
_NO_DEATHS: Final = dict.fromkeys((ATTEMPTS, EXPIRED, RETENTION, LENGTH, REJECTED, DELETED), 0)


def queue_families(queues: Sequence[QueueStatus]) -> Iterator[Family]:
    """The families of all queues."""
    # All families share the same labels, so they are formatted once.
    labelled: list[str] = []

    def samples(value: Callable[[QueueStatus], float]) -> Iterator[Sample]:
        for at, queue in enumerate(queues):
            if at == len(labelled):
                labelled.append(labels(("queue", queue.name)))
            yield "", labelled[at], value(queue)

    for row in _ROWS:
        yield Family(f"longhall_queue_{row.name}", row.kind, row.help, samples(row.value))
    yield _by_word(
        "dead_letters_total",
        "Messages that left without being settled, by reason.",
        (
            (queue.name, "reason", reason, count)
            for queue in queues
            for reason, count in {**_NO_DEATHS, **queue.dead_letters}.items()
        ),
    )
    yield _by_word(
        "fates_total",
        "What became of messages, as their reply queues were told.",
        ((queue.name, "fate", fate, count) for queue in queues for fate, count in queue.fates.items()),
    )


def _by_word(name: str, help: str, rows: Iterator[tuple[str, str, str, int]]) -> Family:
    samples = (("", labels(("queue", queue), (label, word)), count) for queue, label, word, count in rows)
    return Family(f"longhall_queue_{name}", "counter", help, samples)
