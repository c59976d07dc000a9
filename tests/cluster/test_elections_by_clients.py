"""ElectLeaders of a Kafka client: the preferred replica leads again, and nothing is lost on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster, wait_until
from tests.cluster.ledger import TOPIC, acknowledged, make_topic, readable

NOT_NEEDED = 84


@pytest.fixture
def three(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}")
    made.start()
    try:
        yield made
    finally:
        made.stop()


def _elect(cluster: Cluster, kind: ElectionType) -> KafkaException | None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    place = TopicPartition(TOPIC, 0)
    try:
        outcome: dict[TopicPartition, KafkaException | None] = admin.elect_leaders(kind, [place]).result(60)
    except KafkaException as error:
        if error.args[0].code() == KafkaError._TRANSPORT:  # The old leader closes its connections soon.
            return None
        raise
    return outcome[place]


def _placement(cluster: Cluster) -> tuple[int, int]:
    """The leader and the preferred leader, as clients see them."""
    found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(TOPIC, timeout=30)
    partition = found.topics[TOPIC].partitions[0]
    return partition.leader, partition.replicas[0]


def test_the_preferred_replica_is_elected(three: Cluster) -> None:
    make_topic(three)
    three.wait_in_sync()
    leader, preferred = _placement(three)
    if leader == preferred:
        assert _code(_elect(three, ElectionType.PREFERRED)) == NOT_NEEDED
        three.nodes[leader].kill()  # Another one leads until it is back.
        three.leader(besides=leader)
        three.nodes[leader].launch()
        three.nodes[leader].wait_ready(60)
        three.wait_in_sync()
    wait_until(lambda: _placement(three)[0] not in (-1, preferred), "another node leads")
    assert _code(_elect(three, ElectionType.UNCLEAN)) == NOT_NEEDED
    acknowledged(three, ["before"])
    assert _elect(three, ElectionType.PREFERRED) is None
    wait_until(lambda: _placement(three)[0] == preferred, "the preferred replica leads")
    acknowledged(three, ["behind"])
    assert readable(three.bootstrap) == ["before", "behind"]
    assert _voters(three) == sorted(three.nodes)
    lines = "".join(node.log_file.read_text() for node in three.nodes.values())
    assert "a leader was elected" in lines
    assert "the leadership was transferred" in lines


def _code(error: KafkaException | None) -> int:
    assert error is not None
    code: int = error.args[0].code() if isinstance(error, KafkaException) else error.code()
    return code


def _voters(cluster: Cluster) -> list[int]:
    """The replicas of the quorum, as a follower describes them."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.nodes[cluster.followers()[0]].bootstrap)
    try:
        (topic,) = admin.describe_metadata_quorum()["topics"]
        return sorted(voter["replica_id"] for voter in topic["partitions"][0]["current_voters"])
    finally:
        admin.close()
