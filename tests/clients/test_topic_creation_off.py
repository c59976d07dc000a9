"""A node that was told not to make topics on first use: clients get the protocol's error and nothing appears."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from soak.node import Node
from tests.clients.conftest import WAIT_SECONDS
from tests.clients.librdkafka import new_producer, read_all, send, send_refused
from tests.clients.serving import served


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node of its own, because the setting is of the node and not of a topic."""
    directory = tmp_path_factory.mktemp("strict")
    with served(directory / "data", options=["--set", "auto_create_topics=false"]) as running:
        yield running


def test_unknown_topics_stay_unknown(strict: Node) -> None:
    settings = {"message_timeout_ms": 10_000, "topic_metadata_propagation_max_ms": 500}
    error = send_refused(new_producer(strict.bootstrap, **settings), "nobody-made-this", b"x")
    assert error.name() in {"_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART"}
    assert "nobody-made-this" not in AdminClient({"bootstrap.servers": strict.bootstrap}).list_topics(timeout=10).topics


def test_topics_that_were_made_work(strict: Node) -> None:
    admin = AdminClient({"bootstrap.servers": strict.bootstrap})
    admin.create_topics([NewTopic("made", num_partitions=1, replication_factor=1)])["made"].result(WAIT_SECONDS)
    send(new_producer(strict.bootstrap), "made", [b"x"])
    assert [m.value() for m in read_all(strict.bootstrap, "made")] == [b"x"]
