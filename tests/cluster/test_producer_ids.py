"""Every broker of a cluster gives out producer ids of a block of its own, and no id twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.client.hall import Hall
from longhall.coordination.ensemble import Ensemble
from longhall.doors.kafka.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from longhall.world.real.network import RealNetwork
from soak.cluster import Cluster

BROKERS = 12  # Three nodes, and a process of each wing on each of them.
ROUNDS = 3


@pytest.fixture
def winged(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}")
    try:
        made.start()
        yield made
    finally:
        made.stop()


async def _ids_of_all_brokers(address: str) -> dict[int, list[int]]:
    """Some producer ids of each broker, which are asked in turns."""
    hall = await Hall.connect(RealNetwork(), address, patience_ms=20_000)
    found: dict[int, list[int]] = {}
    try:
        await hall.metadata([])
        for node in sorted(hall.brokers) * ROUNDS:
            answer = await hall.ask(node, InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
            assert answer.error_code == 0
            found.setdefault(node, []).append(answer.producer_id)
    finally:
        hall.close()
    return found


def test_each_broker_has_ids_of_its_own(winged: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": winged.bootstrap})
    admin.create_topics([NewTopic("placed", 3, config={"longhall.placement": "parts"})])["placed"].result(60)
    given = asyncio.run(_ids_of_all_brokers(winged.nodes[1].bootstrap))
    assert len(given) == BROKERS
    everything = [number for numbers in given.values() for number in numbers]
    assert len(set(everything)) == ROUNDS * BROKERS
    for broker, numbers in given.items():
        assert numbers == list(range(numbers[0], numbers[0] + ROUNDS)), f"{broker} asked the hall in between"

    for node in winged.nodes.values():
        producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
        for partition in range(3):
            producer.produce("placed", b"x", partition=partition)
        assert producer.flush(60) == 0
