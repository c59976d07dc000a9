"""A request that fails while it waits closes its connection: the client does not wait for its own time-out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from longhall.doors.kafka.sealing import KafkaSealing
from longhall.doors.kafka.topic_operations import create_topic
from tests.doors.kafka.asking import fetch, produce
from tests.doors.two_nodes import LEADER, two_nodes


async def test_a_failure_while_the_key_of_a_batch_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: KafkaSealing, names: Sequence[str]) -> Any:
        raise RuntimeError("a provider that breaks")

    monkeypatch.setattr(KafkaSealing, "is_sealed", lambda *_: True)
    monkeypatch.setattr(KafkaSealing, "has_key", lambda *_: False)
    monkeypatch.setattr(KafkaSealing, "fetch_keys", fail)
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, LEADER, "t", {})
        with pytest.raises(ConnectionError):
            await produce(two.leader, ("t", 0))


async def test_a_failure_while_fetched_batches_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: KafkaSealing, names: Sequence[str], wanted: Sequence[Any]) -> None:
        raise RuntimeError("a provider that breaks")

    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, LEADER, "t", {})
        assert await produce(two.leader, ("t", 0)) == [0]
        monkeypatch.setattr(KafkaSealing, "has_seals", lambda *_: True)
        monkeypatch.setattr(KafkaSealing, "open", fail)
        with pytest.raises(ConnectionError):
            await fetch(two.leader, ("t", 0))
