"""Permission is checked once, where a request is decided, and no other node is a way around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longhall.cluster.rpc.operation import Caller
from longhall.directory.access_rules import AccessAction, AccessRule, Kind
from longhall.directory.accounts import User, entry_of
from longhall.directory.events import DirectoryChanged
from longhall.doors.kafka.wire.apis import decode_response, encode_request
from longhall.doors.kafka.wire.messages.topics import CreateTopicsRequest, CreateTopicsRequestTopic
from longhall.errors import Code, LonghallError
from longhall.node.assembly import Node
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from longhall.service.access_operations import ChangeAccess
from longhall.service.directory_operations import AddUser
from longhall.service.kafka_operations import AnswerKafkaRequest
from longhall.service.queue_operations import CreateQueue, DeliverOutbox, ListQueues, LocateQueue, SendMessages
from tests.doors.two_nodes import FOLLOWER, LEADER, two_nodes

ANN = Caller("ann", "127.0.0.1", "default", "user")
ROOT = Caller("root", "127.0.0.1", "default", "administrator")
CREATE_TOPICS = 19


def _rule(action: AccessAction, kind: Kind, name: str) -> AccessRule:
    return AccessRule(subject="user:ann", action=action, kind=kind, name=name)


async def _with_users(leader: Node, follower: Node, rules: list[AccessRule]) -> None:
    """Add users and rules at the leader, and what a replica would have at the follower."""
    await leader.service.dispatch(AddUser("root", administrator=True))
    await leader.service.dispatch(AddUser("ann"))
    await leader.service.dispatch(ChangeAccess(rules, []))
    follower.hall.catalogue.directory.replace(
        leader.hall.catalogue.directory.version, leader.hall.catalogue.directory.rows()
    )


async def _code(work: Any) -> Code | None:
    try:
        await work
    except LonghallError as error:
        return error.code
    return None


async def test_a_follower_refuses_before_it_asks_the_leader(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        for name in ("mine", "other"):
            await two.leader.service.dispatch(CreateQueue(name, QueueSettings()))
        two.told.leader = FOLLOWER
        for name in ("mine", "other"):  # What a replica would have.
            await two.follower.service.dispatch(CreateQueue(name, QueueSettings()))
        two.told.leader = LEADER
        await _with_users(two.leader, two.follower, [_rule(AccessAction.WRITE, Kind.QUEUE, "mine")])
        two.hand.asked.clear()
        service = two.follower.service
        message = [Outgoing(body=b"1")]
        assert await _code(service.call(SendMessages("other", message), ANN)) is Code.ACCESS_REFUSED
        assert await _code(service.call(SendMessages("mine", message), Caller("ann"))) is Code.ACCESS_REFUSED
        assert two.hand.asked == []
        assert await _code(service.call(SendMessages("mine", message), ANN)) is None
        assert two.hand.asked[-1:] == ["SendMessages"]
        assert await service.call(ListQueues(), ANN) == ["mine"]
        assert await service.call(ListQueues(), ROOT) == ["mine", "other"]


async def test_a_queue_whose_policy_a_follower_does_not_know_is_not_sent_to(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await two.leader.service.dispatch(CreateQueue("mine", QueueSettings()))
        await _with_users(two.leader, two.follower, [_rule(AccessAction.ALL, Kind.QUEUE, "mine")])
        two.hand.asked.clear()
        sent = two.follower.service.call(SendMessages("mine", [Outgoing(body=b"1")]), ANN)
        assert await _code(sent) is Code.NOT_READY, "its policy may deny"
        assert two.hand.asked == ["DescribeQueue"]


@pytest.mark.parametrize("operation", [LocateQueue("q"), DeliverOutbox("q", b"", None)])  # type: ignore[arg-type]
async def test_operations_between_processes_are_not_for_clients(tmp_path: Path, operation: Any) -> None:
    async with two_nodes(tmp_path) as two:
        await _with_users(two.leader, two.follower, [_rule(AccessAction.ALL, Kind.QUEUE, "*")])
        assert await _code(two.leader.service.call(operation, ANN)) is Code.ACCESS_REFUSED


async def test_a_kafka_request_is_checked_by_the_leader_with_the_user_of_the_follower(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await _with_users(two.leader, two.follower, [_rule(AccessAction.CREATE, Kind.TOPIC, "mine")])
        topics = [
            CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1) for name in ("mine", "no")
        ]
        frame = encode_request(1, "test", 5, CreateTopicsRequest(topics=topics, timeout_ms=5000))[4:]

        async def create(caller: Caller) -> dict[str, int]:
            answer = await two.follower.service.dispatch(AnswerKafkaRequest(frame), caller)
            response: Any = decode_response(CREATE_TOPICS, 5, answer[4:])[1]
            return {topic.name: topic.error_code for topic in response.topics}

        assert await create(Caller(address="127.0.0.1")) == {"mine": 29, "no": 29}, "nobody in particular"
        assert await create(ANN) == {"mine": 0, "no": 29}
        assert "mine" in two.leader.hall.routes
        assert "no" not in two.leader.hall.routes


async def test_a_process_that_does_not_know_the_users_yet_refuses(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await two.leader.service.dispatch(CreateQueue("q", QueueSettings()))
        directory = two.leader.hall.catalogue.directory
        directory.known = False
        two.leader.guard.refresh()
        assert await _code(two.leader.service.call(SendMessages("q", []), ANN)) is Code.NOT_READY
        directory.known = True
        directory.apply(DirectoryChanged(put=[entry_of("ann", User("default", administrator=True))], removed=[]))
        assert await _code(two.leader.service.call(SendMessages("q", [Outgoing(body=b"1")]), ANN)) is None


async def test_report_only_mode_carries_out_and_counts(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await two.leader.service.dispatch(CreateQueue("q", QueueSettings()))
        await _with_users(two.leader, two.follower, [])
        guard = two.leader.guard
        guard.mode = "report"
        message = [Outgoing(body=b"1")]
        assert await _code(two.leader.service.call(SendMessages("q", message), ANN)) is None
        assert await two.leader.service.call(ListQueues(), ANN) == ["q"]
        assert dict(guard.reported) == {("ann", "write queue:q"): 1}
        guard.mode = "enforce"
        assert await _code(two.leader.service.call(SendMessages("q", message), ANN)) is Code.ACCESS_REFUSED
        assert dict(guard.refused) == {"write queue": 1}
