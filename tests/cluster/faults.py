"""Nodes of a cluster are killed, paused and cut off while clients go on: nothing acknowledged is lost."""

from __future__ import annotations

import time

from soak.cluster import Cluster
from tests.cluster.conftest import SESSION_MS
from tests.cluster.load import Load


def test_the_leader_is_killed(cluster: Cluster) -> None:
    leader = cluster.leader()
    other, third = cluster.followers()
    load = Load(cluster, "killed", other)
    load.start()
    moment = time.monotonic()
    cluster.nodes[leader].kill()
    assert cluster.leader() != leader
    load.wait_for_more()
    kafka_s, sqs_s = load.first_after(moment + 0.1)
    print(f"after kill -9 of the leader: Kafka answered {kafka_s:.2f} s later, SQS {sqs_s:.2f} s")
    cluster.nodes[leader].start()
    cluster.wait_in_sync()
    load.wait_for_more()
    load.stop()
    load.check(third)


def test_a_follower_is_killed(cluster: Cluster) -> None:
    leader = cluster.leader()
    other, third = cluster.followers()
    load = Load(cluster, "shrunk", third)
    load.start()
    moment = time.monotonic()
    cluster.nodes[other].kill()
    load.wait_for_more()
    kafka_s, sqs_s = load.first_after(moment + 0.2)
    print(f"after kill -9 of a follower: Kafka answered after {kafka_s:.2f} s, SQS after {sqs_s:.2f} s")
    assert cluster.leader() == leader
    cluster.nodes[other].start()
    cluster.wait_in_sync()
    load.stop()
    load.check(other)


def test_the_leader_is_paused_beyond_its_session(cluster: Cluster) -> None:
    """It wakes up as the leader that it no longer is, with requests in its hands."""
    leader = cluster.leader()
    other, _ = cluster.followers()
    load = Load(cluster, "paused", other)
    load.start()
    moment = time.monotonic()
    cluster.nodes[leader].suspend()
    try:
        assert cluster.leader(besides=leader) != leader
        load.wait_for_more()
        kafka_s, sqs_s = load.first_after(moment + 0.5)
        print(f"with a session of {SESSION_MS} ms: Kafka answered after {kafka_s:.2f} s, SQS after {sqs_s:.2f} s")
    finally:
        cluster.nodes[leader].resume()
    cluster.wait_in_sync()
    assert cluster.leader() != leader
    load.wait_for_more()
    load.stop()
    load.check(leader)


def test_zookeeper_is_away(cluster: Cluster) -> None:
    """For everything that exists the cluster goes on without it, and finds back to it."""
    leader = cluster.leader()
    other, third = cluster.followers()
    load = Load(cluster, "alone", other)
    load.start()
    (server,) = cluster.zookeeper.servers
    server.kill()
    try:
        began = time.monotonic()
        while time.monotonic() - began < SESSION_MS / 1000 + 1:
            load.wait_for_more()
            time.sleep(0.2)
    finally:
        server.start()
        cluster.zookeeper.wait_serving(server)
    cluster.wait_in_sync()
    assert cluster.leader() == leader
    load.wait_for_more()
    load.stop()
    load.check(third)


def test_every_node_is_stopped_in_turn(cluster: Cluster) -> None:
    load = Load(cluster, "rolling", 1)
    load.start()
    for number, node in cluster.nodes.items():
        if number != 1:  # The sender of this test knows that one alone.
            assert node.stop() == 0
            load.wait_for_more()
            node.start()
            cluster.wait_in_sync()
    load.stop()
    load.check(2)
