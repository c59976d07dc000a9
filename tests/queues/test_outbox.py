"""The state of outboxes: events rebuild it, and a snapshot restores it."""

from __future__ import annotations

import pytest

from longhall.errors import Code
from longhall.queues import outbox as module
from longhall.queues.messages import Outgoing
from longhall.queues.outbox import Outboxes
from longhall.queues.outbox_events import (
    OutboxEntry,
    OutboxEvent,
    OutboxOpened,
    entry_decoder,
    entry_encoder,
    outbox_decoder,
)


def opened(outboxes: Outboxes, stream: int, target: str) -> OutboxOpened:
    event = outboxes.decide_open(stream, target)
    assert isinstance(event, OutboxOpened)
    outboxes.apply(event)
    return event


def test_the_events_of_an_outbox_rebuild_its_state() -> None:
    outboxes = Outboxes()
    events: list[OutboxEvent] = [opened(outboxes, 7, "dead"), opened(outboxes, 8, "replies")]
    changes: list[OutboxEvent] = [
        outboxes.decide_aim(7, 0, b"first", 100),
        outboxes.decide_aim(7, 60, b"second", 200),
        outboxes.decide_close(8),
    ]
    for event in changes:
        outboxes.apply(event)
        events.append(event)
    outbox = outboxes.by_target["dead"]
    assert (outbox.next_offset, outbox.topic_id, outbox.until) == (60, b"second", 200)
    assert list(outboxes.by_stream) == [7]

    replayed = Outboxes()
    for event in events:
        replayed.apply(outbox_decoder.decode(entry_encoder.encode(event)))
    restored = Outboxes()
    restored.restore(outboxes.snapshot())
    assert replayed.snapshot() == restored.snapshot() == outboxes.snapshot()
    assert restored.by_target["dead"] is restored.by_stream[7]


def test_an_aim_never_ends_before_what_is_delivered() -> None:
    outboxes = Outboxes()
    opened(outboxes, 7, "dead")
    assert outboxes.decide_aim(7, 10, b"", 3).until == 10


def test_the_number_of_outboxes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STREAMS_MAX", 2)
    outboxes = Outboxes()
    opened(outboxes, 1, "a")
    opened(outboxes, 2, "b")
    assert outboxes.decide_open(3, "c") is Code.QUEUE_FULL


@pytest.mark.parametrize(
    "entry",
    [
        OutboxEntry(priority=3, group="g", key=None, value=b"", headers=[("a", None), ("b", b"1")], waits=True),
        OutboxEntry(message=Outgoing(body=b"answer", correlation_id="x"), message_id="id"),
    ],
)
def test_an_entry_is_stored_as_it_is(entry: OutboxEntry) -> None:
    assert entry_decoder.decode(entry_encoder.encode(entry)) == entry
