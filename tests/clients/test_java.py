"""The Java client: one run of the program under java/, judged case by case."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

import pytest
from aiokafka.partitioner import murmur2

from soak.node import Node
from tests.clients.presence import need_command
from tests.clients.programs import Saw, fetched, run_cases

HERE = Path(__file__).parent / "java"

pytestmark = pytest.mark.timeout(480)


@pytest.fixture(scope="module")
def saw(module_bootstrap: str, node: Node | None, tmp_path_factory: pytest.TempPathFactory) -> Saw:
    java, compiler = need_command("java", "the Java client"), need_command("javac", "the Java client")
    maven = need_command("mvn", "the Java client")
    command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    libraries = f"{fetched('java', [HERE / 'pom.xml'], command)}/lib/*"
    classes = tmp_path_factory.mktemp("java")
    sources = [os.fspath(source) for source in sorted(HERE.glob("*.java"))]
    subprocess.run(
        [compiler, "-Xlint:all", "-Werror", "-cp", libraries, "-d", os.fspath(classes), *sources], check=True
    )
    path = f"{classes}{os.pathsep}{libraries}"
    # Two compiled tiers cost more than they bring in a run of seconds.
    flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
    return run_cases([java, *flags, "-cp", path, "Cases", module_bootstrap, uuid.uuid4().hex[:8]])


def test_a_record_keeps_all_its_parts(saw: Saw) -> None:
    assert saw("RecordCases.roundTrip") == {
        "key": "kéy",
        "value": "välue",
        "timestamp": 1_700_000_000_123,
        "headers": ["trace=abc", "none=null", "trace=again"],
        "tombstone": None,
        "offsets": [0, 1],
    }


def test_every_compression(saw: Saw) -> None:
    assert saw("RecordCases.compressions")["equal"]


def test_big_records_pass_and_too_big_ones_do_not(saw: Saw) -> None:
    assert saw("RecordCases.sizes") == {"refused": "RecordTooLargeException", "lengths": [900 << 10, 5]}


def test_keys_are_hashed_to_the_partition_of_every_client(saw: Saw) -> None:
    places = saw("RecordCases.keyHash")["places"]
    assert places == {key: (murmur2(key.encode()) & 0x7FFFFFFF) % 3 for key in (f"key-{n}" for n in range(60))}


def test_offsets_are_found_committed_and_resumed(saw: Saw) -> None:
    assert saw("RecordCases.offsets") == {
        "beginning": 0,
        "end": 10,
        "byTime": [4, 1_700_000_004_000],
        "afterTheEnd": None,
        "sought": [7, 8, 9],
        "committed": [4, "my place"],
        "resumed": [4, 5, 6, 7, 8, 9],
    }


def test_a_waiting_reader_wakes_on_the_first_record(saw: Saw) -> None:
    assert saw("RecordCases.wakesUp") == {"before": 0, "after": 1}


def test_topics_are_made_on_first_use_or_not(saw: Saw) -> None:
    assert saw("RecordCases.firstUse") == {"made": True, "unused": False}


@pytest.mark.parametrize("assignor", ["range", "roundRobin", "sticky", "cooperativeSticky"])
def test_members_come_and_leave(saw: Saw, assignor: str) -> None:
    assert saw(f"GroupCases.{assignor}") == {"owned": "all"}


def test_a_member_that_stalls_is_replaced(saw: Saw) -> None:
    assert saw("GroupCases.stalls") == {"owned": "all"}


def test_static_members_keep_their_partitions_and_fence_their_doubles(saw: Saw) -> None:
    assert saw("GroupCases.staticMembers") == {"same": True, "fenced": "FencedInstanceIdException"}


def test_topics(saw: Saw) -> None:
    seen = saw("AdminCases.topics")
    assert seen["again"] == "TopicExistsException"
    assert seen["described"][1:] == [2, False]
    assert seen["byId"]
    assert seen["unknown"] == "UnknownTopicOrPartitionException"


def test_configuration(saw: Saw) -> None:
    assert saw("AdminCases.configuration") == {
        "changed": False,
        "policy": "delete",
        "bad": "InvalidConfigurationException",
        "broker": True,
    }


def test_records_are_deleted_and_offsets_listed(saw: Saw) -> None:
    assert saw("AdminCases.recordsAndOffsets") == {
        "newest": True,
        "low": 4,
        "earliest": 4,
        "latest": 10,
        "sinceAlways": 4,
        "left": ["4", "5", "6", "7", "8", "9"],
    }


def test_groups(saw: Saw) -> None:
    assert saw("AdminCases.groups") == {
        "stable": "Stable",
        "member": "somebody",
        "assigned": 2,
        "deleteBusy": "GroupNotEmptyException",
        "subscribed": "GroupSubscribedToTopicException",
        "empty": "Empty",
        "listed": True,
        "offsets": {"0": 1, "1": 7},
        "fewerOffsets": {"0": 1},
        "deleteAgain": "GroupIdNotFoundException",
    }


def test_the_cluster_and_its_log_directories(saw: Saw, bootstrap: str) -> None:
    seen = saw("AdminCases.cluster")
    assert bootstrap in seen["addresses"]
    assert seen["id"]
    assert seen["controller"]
    assert seen["bytes"]


def test_an_idempotent_producer_writes_everything_once(saw: Saw) -> None:
    assert saw("TransactionCases.idempotent") == {"count": 500, "ordered": True}


def test_committed_is_seen_and_aborted_is_not(saw: Saw) -> None:
    assert saw("TransactionCases.commitAbort") == {
        "committed": ["one", "one", "three", "three"],
        "everything": ["one", "one", "three", "three", "two", "two"],
    }


def test_consume_transform_produce(saw: Saw) -> None:
    seen = saw("TransactionCases.consumeTransformProduce")
    assert seen == {"afterAbort": None, "afterCommit": 3, "output": ["A", "B", "C"]}


def test_a_newer_producer_fences_the_older(saw: Saw) -> None:
    seen = saw("TransactionCases.fenced")
    assert seen["zombie"] in {"ProducerFencedException", "InvalidProducerEpochException"}
    assert seen["committed"] == ["newer"]


def test_an_administrator_fences_a_producer(saw: Saw) -> None:
    refused = saw("TransactionCases.fencedByAdmin")["refused"]
    assert refused in {"ProducerFencedException", "InvalidProducerEpochException"}


def test_a_hung_transaction_is_found_described_and_aborted(saw: Saw) -> None:
    assert saw("TransactionCases.hung") == {
        "listed": ["Ongoing"],
        "partitions": [0],
        "timeout": 600_000,
        "startOffset": 0,
        "free": ["behind"],
    }


def test_a_transaction_is_terminated_by_name(saw: Saw) -> None:
    assert saw("TransactionCases.terminated") == {"free": ["behind"]}
