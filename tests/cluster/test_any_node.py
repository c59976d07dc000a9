"""The tests of other projects' clients against a cluster, each through a node that does not lead."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from house.environment import ROOT
from soak.cluster import Cluster

# A part of each: records, groups, transactions, administration, and queue messages.
KAFKA = (
    "tests/clients/test_confluent_records.py",
    "tests/clients/test_confluent_transactions.py",
    "tests/clients/test_confluent_admin.py::test_a_topic_is_made_listed_described_and_deleted",
    "tests/clients/test_confluent_admin.py::test_partitions_are_added_and_never_taken_away",
)
SQS = ("tests/clients/sqs/test_messages.py",)


def _run(tests: tuple[str, ...], **where: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **where}, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    print(done.stdout.strip().splitlines()[-1])


def test_kafka_through_a_follower(cluster: Cluster) -> None:
    _run(KAFKA, LONGHALL_TEST_BOOTSTRAP=cluster.nodes[cluster.followers()[0]].bootstrap)


def test_sqs_through_a_follower(cluster: Cluster) -> None:
    other, third = (cluster.nodes[number] for number in cluster.followers())
    _run(SQS, LONGHALL_TEST_SQS=f"http://{other.sqs}", LONGHALL_TEST_BOOTSTRAP=third.bootstrap)


@pytest.mark.parametrize("door", ["/api/v1/queues", "/readyz", "/metrics"])
def test_http_at_every_node(cluster: Cluster, door: str) -> None:
    import urllib.request

    for node in cluster.nodes.values():
        with urllib.request.urlopen(f"http://{node.http}{door}", timeout=20) as answer:
            assert answer.status == 200
