"""The audit topic: what is recorded, and that clients can only read it."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from longhall.broker.pending import Pending, failed
from longhall.directory.access_rules import AccessAction, Kind
from longhall.errors import Code, LonghallError
from longhall.front import audit as audit_module
from longhall.front.audit import AuditTrail
from longhall.front.identity import ADMINISTRATOR_KIND, USER_KIND, Principal, caller_of
from longhall.names import AUDIT_TOPIC
from longhall.node.assembly import Node
from longhall.node.audit_writer import AuditWriter
from longhall.node.settings import Settings
from longhall.queues.settings import QueueSettings
from longhall.service import directory_operations as ops
from longhall.service.audit_operations import AppendAudit
from longhall.service.queue_operations import CreateQueue
from longhall.world.real.world import real_world
from tests.doors.two_nodes import FREE, two_nodes

PASSWORD = "correct horse battery staple"
ROOT = caller_of(Principal("default", "root", ADMINISTRATOR_KIND), "10.0.0.1")
ALICE = caller_of(Principal("default", "alice", USER_KIND), "10.0.0.2")
T = TypeVar("T")


@asynccontextmanager
async def running(directory: Path, **settings: object) -> AsyncIterator[Node]:
    world = real_world(str(directory))
    try:
        given = {**FREE, "data": str(directory), "drain_ms": 0, "audit": True, **settings}
        node = Node(world, Settings(**given))  # type: ignore[arg-type]
        await node.start(lambda error: None)
        yield node
        await node.stop()
    finally:
        world.close()


async def add(node: Node, name: str, **fields: object) -> None:
    scram = node.authentication.secrets.scram_keys(PASSWORD)
    await node.service.call(ops.AddUser(name, scram=scram, **fields), ROOT)  # type: ignore[arg-type]


def read(address: str, **login: Any) -> list[dict[str, Any]]:
    """All records of the audit topic, with a Kafka consumer."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "auditor", "enable.auto.commit": False, **login})
    try:
        part = TopicPartition(AUDIT_TOPIC, 0, 0)
        consumer.assign([part])
        _, end = consumer.get_watermark_offsets(TopicPartition(AUDIT_TOPIC, 0), timeout=10)
        found: list[dict[str, Any]] = []
        while len(found) < end:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            found.append(json.loads(message.value() or b""))
        return found
    finally:
        consumer.close()


async def until(node: Node, count: int, **login: Any) -> list[dict[str, Any]]:
    """The records of the audit topic, as soon as there are so many."""
    partition = None
    while partition is None or partition.high_watermark < count:
        await asyncio.sleep(0.05)
        partition = node.hall.partition(AUDIT_TOPIC, 0)
    return await asyncio.to_thread(read, str(node.kafka), **login)


async def apart(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)


async def status(node: Node, method: str, path: str, body: object = None, password: str = "") -> int:
    """The status of an HTTP request."""
    headers = {"Content-Type": "application/json"}
    if password:
        headers["Authorization"] = "Basic " + base64.b64encode(f"root:{password}".encode()).decode()
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"http://{node.http}/api/v1{path}", data, headers, method=method)

    def ask() -> int:
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            return error.code

    return await apart(ask)


async def test_logins_refusals_and_administrative_operations_are_recorded(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await add(node, "root", administrator=True)
        await add(node, "alice")
        with pytest.raises(LonghallError) as caught:
            await node.service.call(CreateQueue("orders", QueueSettings()), ALICE)
        assert caught.value.code is Code.ACCESS_REFUSED
        assert await status(node, "GET", "/queues", password="wrong") == 401
        assert await status(node, "GET", "/queues", password=PASSWORD) == 200
        assert await status(node, "GET", "/queues", password=PASSWORD) == 200
        login: dict[str, Any] = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "root",
            "sasl.password": PASSWORD,
        }
        admin = AdminClient({"bootstrap.servers": str(node.kafka), **login})
        await apart(lambda: admin.create_topics([NewTopic("sales", 1)])["sales"].result(10))
        records = await until(node, 7, **login)
    told = [(one["event"], one["allowed"], one["user"], one["action"], one["resource"]) for one in records]
    assert told[0] == ("operation", True, "root", "AddUser", "root")
    assert told[1] == ("operation", True, "root", "AddUser", "alice")
    assert told[2] == ("refusal", False, "alice", "create", "orders")
    assert records[2]["address"] == "10.0.0.2"
    http = [(one["allowed"], one["user"]) for one in records if one["door"] == "http"]
    assert http == [(False, "root"), (True, "root")], "requests of one client are one login"
    assert ("operation", True, "root", "CreateTopics", "sales") in told
    assert any(one["door"] == "kafka" and one["allowed"] for one in records)
    assert len({one["id"] for one in records}) == len(records)
    assert not any(PASSWORD in json.dumps(one) for one in records)


async def test_records_survive_a_restart_and_the_last_ones_are_written_at_a_stop(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.service.call(CreateQueue("one", QueueSettings()), ROOT)
    async with running(tmp_path, audit=False) as node:
        records = await until(node, 1)
        assert [one["resource"] for one in records] == ["one"]
        await node.service.call(CreateQueue("two", QueueSettings()), ROOT)
        assert len(await until(node, 1)) == 1, "without the setting nothing is recorded"


def change_by_kafka(address: str) -> list[str]:
    """The errors of everything that a Kafka client could try."""
    servers: dict[str, Any] = {"bootstrap.servers": address}
    admin = AdminClient(servers)
    tried: list[Any] = [
        admin.create_partitions([NewPartitions(AUDIT_TOPIC, 3)])[AUDIT_TOPIC],
        *admin.incremental_alter_configs([retention()]).values(),
        *admin.delete_records([TopicPartition(AUDIT_TOPIC, 0, 1)]).values(),
        admin.delete_topics([AUDIT_TOPIC])[AUDIT_TOPIC],
    ]
    errors = []
    for future in tried:
        with pytest.raises(KafkaException) as caught:
            future.result(10)
        errors.append(caught.value.args[0].name())
    producer = Producer(servers)
    producer.produce(AUDIT_TOPIC, b"forged", on_delivery=lambda error, message: errors.append(str(error)))
    producer.flush(10)
    return errors


def retention() -> ConfigResource:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    return ConfigResource(ConfigResource.Type.TOPIC, AUDIT_TOPIC, incremental_configs=[entry])


async def test_no_client_can_write_change_or_delete_the_audit_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.service.call(CreateQueue("orders", QueueSettings()), ROOT)
        await until(node, 1)
        errors = await apart(lambda: change_by_kafka(str(node.kafka)))
        assert errors[:4] == ["CLUSTER_AUTHORIZATION_FAILED"] * 4
        assert "TOPIC_AUTHORIZATION_FAILED" in errors[4]
        sqs = boto3.client(
            "sqs",
            endpoint_url=f"http://{node.sqs}",
            region_name="us-east-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
            config=Config(retries={"max_attempts": 0}),
        )
        url = f"http://{node.sqs}/000000000000/{AUDIT_TOPIC}"
        with pytest.raises(ClientError):
            await apart(lambda: sqs.send_message(QueueUrl=url, MessageBody="forged"))
        with pytest.raises(ClientError):
            await apart(lambda: sqs.create_queue(QueueName=AUDIT_TOPIC))
        with pytest.raises(ClientError):
            await apart(lambda: sqs.delete_queue(QueueUrl=url))
        assert await status(node, "POST", "/queues", {"name": AUDIT_TOPIC}) == 403
        assert await status(node, "POST", "/queues", {"name": "over", "topic": AUDIT_TOPIC}) == 403
        forged = {"messages": [{"body": "forged"}]}
        assert await status(node, "POST", f"/queues/{AUDIT_TOPIC}/messages", forged) == 404
        assert await status(node, "DELETE", f"/queues/{AUDIT_TOPIC}") == 404
        records = await apart(lambda: read(str(node.kafka)))
        assert records[0]["resource"] == "orders"
        assert {one["event"] for one in records} == {"operation"}


def _begin_and_abort(address: str) -> str:
    """A transaction that wants to write to the audit topic; the reason why it cannot."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": "forger"})
    producer.init_transactions(20)
    producer.begin_transaction()
    reasons: list[str] = []
    producer.produce(AUDIT_TOPIC, b"forged", on_delivery=lambda error, _: reasons.append(error.name() if error else ""))
    producer.flush(20)
    producer.abort_transaction(20)
    return reasons[0]


def _end_offset(address: str) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "offsets"})
    _, end = consumer.get_watermark_offsets(TopicPartition(AUDIT_TOPIC, 0), 20)
    consumer.close()
    return int(end)


async def test_transactions_leave_no_marker_in_the_audit_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.service.call(CreateQueue("orders", QueueSettings()), ROOT)
        await until(node, 1)
        assert await apart(lambda: _begin_and_abort(str(node.kafka))) in ("TOPIC_AUTHORIZATION_FAILED", "_PURGE_QUEUE")
        records = await apart(lambda: read(str(node.kafka)))
        assert await apart(lambda: _end_offset(str(node.kafka))) == len(records)


async def test_records_of_a_node_that_does_not_lead_go_to_the_leader(tmp_path: Path) -> None:
    async with two_nodes(tmp_path, audit=True) as pair:
        await pair.follower.service.call(CreateQueue("orders", QueueSettings()), ROOT)
        records = await until(pair.leader, 1)
        assert [(one["action"], one["resource"], one["address"]) for one in records] == [
            ("CreateQueue", "orders", "10.0.0.1")
        ], "recorded once, by the node that the client has asked"


async def test_a_write_of_unknown_outcome_is_repeated_with_the_same_records(tmp_path: Path) -> None:
    async with running(tmp_path, audit=False) as node:
        trail = AuditTrail("p", lambda: 1)
        tried: list[list[bytes]] = []

        def call(operation: AppendAudit) -> Pending[None]:
            tried.append(operation.records)
            written = node.service.dispatch(operation)
            lost = LonghallError(Code.NOT_READY, "the answer was lost")
            return written if len(tried) > 1 else failed(lost)

        writer = AuditWriter(node.hall, trail, call)
        trail.note_operation(ROOT, "CreateQueue", Kind.QUEUE, "orders")
        writer.start()
        records = await until(node, 2)
        await writer.stop()
    assert tried[0] == tried[1]
    assert [one["id"] for one in records] == ["p-1", "p-1"]


async def test_the_name_is_taken_before_the_topic_exists(tmp_path: Path) -> None:
    async with running(tmp_path, audit=False) as node:
        admin = AdminClient({"bootstrap.servers": str(node.kafka)})
        with pytest.raises(KafkaException):
            await apart(lambda: admin.create_topics([NewTopic(AUDIT_TOPIC, 1)])[AUDIT_TOPIC].result(10))
        assert node.hall.topic(AUDIT_TOPIC) is None


async def test_a_full_trail_drops_the_newest_records_and_tells_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "RECORDS_MAX", 3)
    trail = AuditTrail("p", lambda: 1)
    for number in range(5):
        trail.note_refusal(ALICE, AccessAction.READ, Kind.QUEUE, f"q{number}", allowed=False)
    assert (trail.recorded, trail.dropped) == (3, 2)
    assert [json.loads(one)["resource"] for one in trail.take()] == ["q0", "q1", "q2"]
    (loss,) = [json.loads(one) for one in trail.take()]
    assert (loss["event"], loss["count"]) == ("loss", 2)
    assert trail.take() == []
