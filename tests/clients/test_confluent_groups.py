"""confluent-kafka: groups whose members join, leave and die, and their committed offsets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.clients.conftest import FreshName, MakeTopic
from tests.clients.librdkafka import (
    CLASSIC_TIMES,
    PROTOCOLS,
    dotted,
    new_consumer,
    new_producer,
    owned_by,
    poll_until,
    read,
    send,
)

# How the partitions of a group are assigned: by a member, in the classic protocol, or by the server.
ASSIGNMENTS: dict[str, dict[str, object]] = {
    "range": {"partition_assignment_strategy": "range"},
    "roundrobin": {"partition_assignment_strategy": "roundrobin"},
    "cooperative-sticky": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
    "consumer-range": {"group_protocol": "consumer", "group_remote_assignor": "range"},
}
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
ALL = {0, 1, 2, 3}


def joined(bootstrap: str, group: str, topic: str, **settings: object) -> Consumer:
    consumer = new_consumer(bootstrap, group, **settings)
    consumer.subscribe([topic])
    return consumer


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_members_come_and_leave(bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName, assignment: str) -> None:
    topic, group = make_topic(partitions=4), fresh_name("group")
    first = joined(bootstrap, group, topic, **ASSIGNMENTS[assignment])
    poll_until([first], lambda: owned_by(first) == ALL)

    second = joined(bootstrap, group, topic, **ASSIGNMENTS[assignment])
    poll_until([first, second], lambda: len(owned_by(first)) == len(owned_by(second)) == 2)
    assert owned_by(first) | owned_by(second) == ALL

    third = joined(bootstrap, group, topic, **ASSIGNMENTS[assignment])
    everyone = [first, second, third]
    poll_until(everyone, lambda: sorted(len(owned_by(c)) for c in everyone) == [1, 1, 2])
    assert owned_by(first) | owned_by(second) | owned_by(third) == ALL

    second.close()
    poll_until([first, third], lambda: owned_by(first) | owned_by(third) == ALL)
    first.close()
    poll_until([third], lambda: owned_by(third) == ALL)
    third.close()


@pytest.mark.parametrize("assignment", ["cooperative-sticky", "consumer"])
def test_nothing_is_lost_or_read_twice_while_members_come_and_leave(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName, assignment: str
) -> None:
    """Every member commits what it was given before it hands a partition over, so each record is read once."""
    topic, group = make_topic(partitions=4), fresh_name("group")
    producer = new_producer(bootstrap)
    got: list[Message] = []

    def member() -> Consumer:
        consumer = new_consumer(bootstrap, group, enable_auto_commit=True, **ASSIGNMENTS[assignment])
        consumer.subscribe([topic])
        return consumer

    def gather(members: list[Consumer], count: int) -> None:
        poll_until(members, lambda: len(got) >= count and all(owned_by(m) for m in members), got)

    first = member()
    send(producer, topic, [str(n) for n in range(100)])
    gather([first], 100)
    second = member()
    send(producer, topic, [str(n) for n in range(100, 200)])
    gather([first, second], 200)
    first.close()
    send(producer, topic, [str(n) for n in range(200, 300)])
    gather([second], 300)
    second.close()
    assert sorted(int(m.value()) for m in got) == list(range(300))


@pytest.mark.parametrize("assignment", ["range", "cooperative-sticky", "consumer"])
def test_a_member_that_dies_is_replaced(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName, assignment: str
) -> None:
    topic, group = make_topic(partitions=4), fresh_name("group")
    program = Path(__file__).with_name("member.py")
    classic = {} if assignment == "consumer" else CLASSIC_TIMES
    settings = json.dumps({**classic, **dotted(ASSIGNMENTS[assignment])})
    doomed = subprocess.Popen(
        [sys.executable, str(program), bootstrap, group, topic, settings], stdout=subprocess.PIPE, text=True
    )
    try:
        assert doomed.stdout is not None
        owned: list[int] = []
        while set(owned) != ALL:
            owned = json.loads(doomed.stdout.readline())
        survivor = joined(bootstrap, group, topic, **ASSIGNMENTS[assignment])
        poll_until([survivor], lambda: len(owned_by(survivor)) == 2)
    finally:
        doomed.kill()
        doomed.wait()
    poll_until([survivor], lambda: owned_by(survivor) == ALL)
    survivor.close()


@each_protocol
def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName, protocol: str
) -> None:
    topic, group = make_topic(partitions=4), fresh_name("group")
    rebalances: list[str] = []
    stays = new_consumer(bootstrap, group, group_instance_id="stays", group_protocol=protocol)
    stays.subscribe(
        [topic], on_assign=lambda *_: rebalances.append("given"), on_revoke=lambda *_: rebalances.append("taken")
    )
    leaves = joined(bootstrap, group, topic, group_instance_id="leaves", group_protocol=protocol)
    poll_until([stays, leaves], lambda: len(owned_by(stays)) == len(owned_by(leaves)) == 2)
    before, seen = owned_by(leaves), list(rebalances)
    leaves.close()

    returned = joined(bootstrap, group, topic, group_instance_id="leaves", group_protocol=protocol)
    poll_until([stays, returned], lambda: len(owned_by(returned)) > 0)
    assert owned_by(returned) == before
    assert rebalances == seen
    returned.close()
    stays.close()


def test_two_members_of_one_static_name_fence_the_older(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    topic, group = make_topic(partitions=2), fresh_name("group")
    older = joined(bootstrap, group, topic, group_instance_id="only-one")
    poll_until([older], lambda: len(owned_by(older)) == 2)
    newer = joined(bootstrap, group, topic, group_instance_id="only-one")
    poll_until([newer], lambda: len(owned_by(newer)) == 2)
    error = None
    for _ in range(100):
        try:
            message = older.poll(0.2)
        except KafkaException as fatal:
            error = fatal.args[0]
            break
        if message is not None and message.error() is not None:
            error = message.error()
            break
    assert error is not None
    assert error.name() in {"FENCED_INSTANCE_ID", "_FATAL"}
    newer.close()
    older.close()


def test_a_static_name_of_the_consumer_protocol_is_for_one_member_at_a_time(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    topic, group = make_topic(partitions=2), fresh_name("group")
    settings = {"group_instance_id": "only-one", "group_protocol": "consumer"}
    older = joined(bootstrap, group, topic, **settings)
    poll_until([older], lambda: len(owned_by(older)) == 2)
    newer = joined(bootstrap, group, topic, **settings)
    errors: list[KafkaError] = []

    def refused() -> bool:
        try:
            message = newer.poll(0.05)
        except KafkaException as fatal:
            errors.append(fatal.args[0])
        else:
            if message is not None and message.error() is not None:
                errors.append(message.error())
        return bool(errors)

    poll_until([older], refused)
    assert errors[0].name() in {"UNRELEASED_INSTANCE_ID", "_FATAL"}
    assert owned_by(older) == {0, 1}
    newer.close()
    older.close()


@each_protocol
def test_a_group_continues_at_its_committed_offset(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName, protocol: str
) -> None:
    topic, group = make_topic(), fresh_name("group")
    send(new_producer(bootstrap), topic, [str(n) for n in range(10)])
    first = joined(bootstrap, group, topic, group_protocol=protocol)
    messages = read(first, 4)
    first.commit(message=messages[-1], asynchronous=False)
    first.close()

    second = joined(bootstrap, group, topic, group_protocol=protocol)
    assert [int(m.value()) for m in read(second, 6)] == [4, 5, 6, 7, 8, 9]
    (committed,) = second.committed([TopicPartition(topic, 0)], timeout=10)
    assert committed.offset == 4
    second.close()


def test_commits_have_metadata_and_unknown_offsets_are_reported(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    topic, group = make_topic(partitions=2), fresh_name("group")
    consumer = new_consumer(bootstrap, group)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.commit(offsets=[TopicPartition(topic, 0, 5, metadata="where I stood")], asynchronous=False)
    known, unknown = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=10)
    assert (known.offset, known.metadata) == (5, "where I stood")
    assert unknown.offset == -1001  # librdkafka's word for "nothing committed".
    consumer.close()


@each_protocol
def test_a_commit_from_outside_the_group_is_refused(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName, protocol: str
) -> None:
    topic, group = make_topic(partitions=2), fresh_name("group")
    inside = joined(bootstrap, group, topic, group_protocol=protocol)
    poll_until([inside], lambda: len(owned_by(inside)) == 2)
    outside = new_consumer(bootstrap, group)
    outside.assign([TopicPartition(topic, 0)])
    with pytest.raises(KafkaException) as refused:
        outside.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert refused.value.args[0].name() in {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"}
    outside.close()
    inside.close()


@each_protocol
def test_a_topic_that_grows_or_appears_reaches_its_readers(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName, protocol: str
) -> None:
    word, group = fresh_name("pattern"), fresh_name("group")
    consumer = joined(bootstrap, group, f"^{word}-.*", topic_metadata_refresh_interval_ms=300, group_protocol=protocol)
    producer = new_producer(bootstrap)
    send(producer, f"{word}-one", [b"1"])
    poll_until([consumer], lambda: {p.topic for p in consumer.assignment()} == {f"{word}-one"})
    send(producer, f"{word}-two", [b"2"])
    poll_until([consumer], lambda: {p.topic for p in consumer.assignment()} == {f"{word}-one", f"{word}-two"})
    consumer.close()


@pytest.mark.parametrize("protocols", [("classic", "consumer"), ("consumer", "classic")], ids="-to-".join)
def test_the_members_of_a_group_change_their_protocol_one_by_one(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName, protocols: tuple[str, str]
) -> None:
    """Every partition has a reader in the mixed group, and the committed offsets stay."""
    topic, group = make_topic(partitions=4), fresh_name("group")
    send(new_producer(bootstrap), topic, ["a"])
    before, after = protocols

    def member(protocol: str) -> Consumer:
        assignment = {} if protocol == "consumer" else {"partition_assignment_strategy": "cooperative-sticky"}
        return joined(bootstrap, group, topic, group_protocol=protocol, **assignment)

    old = [member(before), member(before)]
    poll_until(old, lambda: sorted(len(owned_by(one)) for one in old) == [2, 2])
    old[0].commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    new = [member(after)]
    everyone = [*old, *new]
    poll_until(everyone, lambda: sorted(len(owned_by(one)) for one in everyone) == [1, 1, 2])
    old[0].close()
    new.append(member(after))
    everyone = [old[1], *new]
    poll_until(everyone, lambda: sorted(len(owned_by(one)) for one in everyone) == [1, 1, 2])
    old[1].close()
    poll_until(new, lambda: sorted(len(owned_by(one)) for one in new) == [2, 2])
    assert owned_by(new[0]) | owned_by(new[1]) == ALL
    (committed,) = new[0].committed([TopicPartition(topic, 0)], timeout=10)
    assert committed.offset == 1
    for one in new:
        one.close()
    again = member(before)  # And back, when the group is empty.
    poll_until([again], lambda: owned_by(again) == ALL)
    (committed,) = again.committed([TopicPartition(topic, 0)], timeout=10)
    assert committed.offset == 1
    again.close()
