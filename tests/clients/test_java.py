"""The Java client: one run of the program under java/, judged case by case."""

from __future__ import annotations

import uuid

import pytest
from aiokafka.partitioner import murmur2

from soak.node import Node
from tests.clients.java_program import java_command
from tests.clients.programs import Saw, run_cases

pytestmark = pytest.mark.timeout(480)


@pytest.fixture(scope="module")
def saw(module_bootstrap: str, node: Node | None) -> Saw:
    return run_cases([*java_command(), "Cases", module_bootstrap, uuid.uuid4().hex[:8]])


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


ASSIGNORS = ("range", "roundRobin", "sticky", "cooperativeSticky", "uniformByServer", "rangeByServer")


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_come_and_leave(saw: Saw, assignor: str) -> None:
    assert saw(f"GroupCases.{assignor}") == {"owned": "all"}


@pytest.mark.parametrize("case", ["stalls", "stallsByServer"])
def test_a_member_that_stalls_is_replaced(saw: Saw, case: str) -> None:
    assert saw(f"GroupCases.{case}") == {"owned": "all"}


def test_static_members_keep_their_partitions_and_fence_their_doubles(saw: Saw) -> None:
    assert saw("GroupCases.staticMembers") == {"same": True, "fenced": "FencedInstanceIdException"}


def test_static_members_of_the_consumer_protocol_keep_their_partitions(saw: Saw) -> None:
    assert saw("GroupCases.staticMembersByServer") == {"same": True, "refused": "UnreleasedInstanceIdException"}


def test_an_expression_subscribes_to_present_and_future_topics(saw: Saw) -> None:
    assert saw("GroupCases.expression") == {"assigned": 5, "invalid": "InvalidRegularExpression"}


def test_the_members_of_a_group_change_their_protocol_one_by_one(saw: Saw) -> None:
    assert saw("GroupCases.changesProtocol") == {
        "upgrade": ["Consumer", "Consumer"],
        "downgrade": ["Consumer", "Classic"],
    }


def test_groups_have_settings(saw: Saw) -> None:
    assert saw("GroupCases.settings") == {
        "default": "300",
        "given": "1234",
        "refused": "InvalidConfigurationException",
        "unknown": "InvalidConfigurationException",
        "kept": "1234",
    }


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


@pytest.mark.parametrize("case", ["consumeTransformProduce", "consumeTransformProduceByServer"])
def test_consume_transform_produce(saw: Saw, case: str) -> None:
    seen = saw(f"TransactionCases.{case}")
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


def test_share_members_accept_release_and_reject(saw: Saw) -> None:
    assert saw("ShareCases.acceptReleaseReject") == {
        "first": ["accepted", "released", "rejected"],
        "counts": [1, 1, 1],
        "committed": ["none"],
        "again": ["released"],
        "againCounts": [2],
        "committedAgain": ["none"],
        "left": 0,
    }


def test_members_of_a_share_group_share_and_groups_do_not(saw: Saw) -> None:
    seen = saw("ShareCases.membersShareAndGroupsDoNot")
    assert seen == {"everything": True, "twice": 0, "otherGroup": True}


def test_a_lock_that_ends_gives_the_record_to_others(saw: Saw) -> None:
    assert saw("ShareCases.locks") == {"lock": 1000, "other": [2], "late": ["InvalidRecordStateException"]}


def test_a_renewed_lock_does_not_end(saw: Saw) -> None:
    assert saw("ShareCases.renewed") == {"accepted": ["none"]}


def test_a_closed_share_member_returns_its_records_which_die_at_the_limit(saw: Saw) -> None:
    assert saw("ShareCases.closed") == {"counts": [[1], [2]], "then": ["good"]}


def test_share_groups_have_an_isolation_level(saw: Saw) -> None:
    assert saw("ShareCases.transactions") == {
        "read_committed": ["committed", "last"],
        "read_uncommitted": ["committed", "aborted", "last"],
    }


def test_share_members_get_whole_batches_or_no_more_than_they_ask_for(saw: Saw) -> None:
    assert saw("ShareCases.recordLimit") == {"record_limit": 3, "batch_optimized": 10}


def test_share_groups_are_administered(saw: Saw) -> None:
    assert saw("ShareCases.administration") == {
        "state": "Stable",
        "member": "somebody",
        "assigned": 2,
        "busy": "GroupNotEmptyException",
        "listed": True,
        "offset": 3,
        "lag": 0,
        "moved": 1,
        "again": ["b", "c"],
        "unknown": "UnknownTopicOrPartitionException",
        "deleted": "GroupIdNotFoundException",
    }


def test_every_topic_configuration_of_kafka_is_taken_and_shown(saw: Saw) -> None:
    assert saw("OperatorCases.topicConfigurations") == {
        "different": {},
        "synonyms": 0,
        "askedSynonyms": 1,
        "tiered": "InvalidConfigurationException",
    }


def test_a_broker_shows_its_settings_and_changes_the_levels_of_loggers(saw: Saw, bootstrap: str) -> None:
    seen = saw("OperatorCases.brokerConfigurations")
    assert seen["listeners"].startswith("PLAINTEXT://")
    assert (seen["static"], seen["level"]) == ("InvalidRequestException", "WARN")
    assert (seen["dynamic"], seen["again"]) == ("DYNAMIC_BROKER_CONFIG", "STATIC_BROKER_CONFIG")


def test_broker_configurations_for_all_brokers_are_the_defaults_of_topics(saw: Saw) -> None:
    assert saw("OperatorCases.defaultsOfBrokers") == {
        "everywhere": "DYNAMIC_DEFAULT_BROKER_CONFIG 4000000",
        "topic": "DYNAMIC_DEFAULT_BROKER_CONFIG 4000000",
        "synonyms": ["log.segment.bytes DYNAMIC_DEFAULT_BROKER_CONFIG", "log.segment.bytes DEFAULT_CONFIG"],
        "own": "DYNAMIC_TOPIC_CONFIG 5000000",
        "after": "DEFAULT_CONFIG",
    }


def test_resources_and_the_quorum_are_described(saw: Saw) -> None:
    assert saw("OperatorCases.resources") == {"topic": True, "brokers": True}
    assert set(saw("OperatorCases.quorum").values()) == {True}


def test_elections_and_directories(saw: Saw) -> None:
    needless = "ElectionNotNeededException"
    assert saw("OperatorCases.elections") == {"PREFERRED": needless, "UNCLEAN": needless}
    assert saw("OperatorCases.directories") == {"here": "nothing", "elsewhere": "LogDirNotFoundException"}


def test_operations_that_a_client_may_do(saw: Saw) -> None:
    assert saw("OperatorCases.operations") == {"topic": 8, "cluster": 7}


def test_the_messages_that_spoil_a_batch_are_named(saw: Saw) -> None:
    rest = "KafkaException"  # They were in one batch with it.
    assert saw("OperatorCases.recordErrors") == {"refused": [rest, "InvalidRecordException", rest]}


def test_a_topic_needs_as_many_replicas_in_sync_as_it_says(saw: Saw) -> None:
    assert saw("OperatorCases.minimumInSync") == {"all": "NotEnoughReplicasException", "1": "nothing"}


def test_the_newest_record_is_found_behind_a_transaction(saw: Saw) -> None:
    assert saw("OperatorCases.newestBehindATransaction") == {"offset": 0, "timestamp": 1_700_000_000_005}


def test_replicas_that_the_cluster_does_not_have_are_refused(saw: Saw) -> None:
    assert saw("OperatorCases.assignments") == {
        "factor": "InvalidReplicationFactorException",
        "assigned": "InvalidReplicaAssignmentException",
    }
