"""Refusals and accepted operations under back-pressure."""

from __future__ import annotations

import logging

import msgspec
import pytest

from longhall.broker.backpressure import Backpressure
from longhall.broker.checkpoint import checkpoint
from longhall.broker.topic_administration import create_topic
from longhall.errors import Code
from tests.broker.desk import OPTIONS, Desk, Life, batch_of

BOUND_BYTES = 64 * 1024


def test_messages_are_refused_at_the_bound_of_the_log_until_a_checkpoint() -> None:
    options = msgspec.structs.replace(OPTIONS, wal_bytes_max=BOUND_BYTES)

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        partition = life.partition("t")
        codes = [(await life.send(partition, batch_of(bytes(10_000)))).code for _ in range(10)]
        assert codes[0] is None
        assert codes[-1] is Code.COMMIT_BACKLOG
        assert life.hall.log_behind_bytes < BOUND_BYTES + 20_000
        assert life.hall.has_room(1)  # Settles and commits of offsets go on.
        await checkpoint(life.hall)
        assert (await life.send(partition, batch_of(b"x"))).code is None

    Desk(options=options).live(play)


def test_backpressure_is_logged_once_at_its_start_and_end(caplog: pytest.LogCaptureFixture) -> None:
    async def play(life: Life) -> None:
        backpressure = Backpressure(life.hall)
        backlog = life.hall.backlog
        backpressure.look()
        backlog.add(backlog.weight_max, 1)
        for _ in range(3):
            backpressure.look()
        backlog.commit(backlog.weight_max, 1)
        backlog.refusals += 1  # It was full between two looks.
        backpressure.look()
        for _ in range(3):
            backpressure.look()

    with caplog.at_level(logging.WARNING, "longhall.backpressure"):
        Desk().live(play)
    said = [record.message for record in caplog.records]
    assert said == ["back-pressure: messages are refused", "back-pressure has ended: messages are accepted"]
