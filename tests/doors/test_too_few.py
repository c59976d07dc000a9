"""Hosts are lost while a message is under way: it is kept, and whoever sent it is told that it is not safe."""

from __future__ import annotations

import asyncio
import http.client
import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhall.broker.topic_administration import create_topic
from longhall.doors.kafka.errors import ERROR_OF
from longhall.errors import Code
from tests.doors.kafka.asking import ask, batch, produce_request
from tests.doors.kafka.test_quotas import produce
from tests.doors.sqs.clients import client
from tests.doors.two_nodes import two_nodes

pytestmark = pytest.mark.clients


async def test_a_kafka_producer_is_told(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        hall = two.leader.hall
        await create_topic(hall, "safe", 1, {})
        await create_topic(hall, "fast", 1, {"longhall.acknowledge": "one"})
        await create_topic(hall, "loose", 1, {"longhall.durability": "interval"})
        hall.is_short = True
        told = [await produce(two.leader, name, 10) for name in ("safe", "fast", "loose")]
        codes = [answer.responses[0].partition_responses[0].error_code for answer in told]
        assert codes == [ERROR_OF[Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND], 0, 0]
        partition = hall.partition("safe", 0)
        assert partition is not None
        assert partition.high_watermark == 1


async def test_a_topic_with_a_minimum_of_its_own(tmp_path: Path) -> None:
    """Two replicas are in sync here. Producers that want one copy are not asked to wait for others."""
    async with two_nodes(tmp_path) as two:
        hall = two.leader.hall
        hall.in_sync_count = 2
        for least in ("2", "3"):
            await create_topic(hall, f"least-{least}", 1, {"min.insync.replicas": least})

        async def error_of(name: str, acks: int) -> int:
            answer = await ask(two.leader, produce_request([(name, 0)], batch(), acks), 9)
            code: int = answer.responses[0].partition_responses[0].error_code
            return code

        before, behind = (ERROR_OF[code] for code in (Code.NOT_ENOUGH_REPLICAS, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        assert [await error_of(name, -1) for name in ("least-2", "least-3")] == [0, before]
        assert [await error_of(name, 1) for name in ("least-2", "least-3")] == [0, 0]
        assert [hall.routes[name][0].log.next_offset for name in ("least-2", "least-3")] == [2, 1]
        under_way = asyncio.ensure_future(error_of("least-2", -1))
        for _ in range(100_000):
            if hall.routes["least-2"][0].log.next_offset == 3:
                break
            await asyncio.sleep(0)
        hall.in_sync_count = 1  # A host is lost between the append and the commit.
        assert await under_way == behind
        assert hall.routes["least-2"][0].high_watermark == 3


async def test_an_idempotent_producer_tries_again_until_enough_are_back_and_is_there_once(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        hall = two.leader.hall
        await create_topic(hall, "safe", 1, {})
        told = []
        for hall.is_short in (True, True, False):
            part = (await produce(two.leader, "safe", 10, producer_id=7)).responses[0].partition_responses[0]
            told.append((part.error_code, part.base_offset))
        too_few = ERROR_OF[Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
        assert [error_code for error_code, _ in told] == [too_few, too_few, 0]
        assert told[2][1] == 0
        partition = hall.partition("safe", 0)
        assert partition is not None
        assert partition.high_watermark == 1


@pytest.mark.parametrize("protocol", ["json", "query"])
async def test_who_sends_to_a_queue_is_told(tmp_path: Path, protocol: str) -> None:
    async with two_nodes(tmp_path) as two:
        hall = two.leader.hall
        sqs = client(f"http://{two.leader.sqs}", protocol)
        url = (await asyncio.to_thread(sqs.create_queue, QueueName="jobs"))["QueueUrl"]
        hall.is_short = True
        await asyncio.to_thread(_is_told, sqs, url)
        await asyncio.to_thread(_is_told, client(f"http://{two.follower.sqs}", protocol), url)
        assert await asyncio.to_thread(_status_of_a_send, str(two.leader.http)) == 503
        hall.is_short = False
        await asyncio.to_thread(_finds, sqs, url, 3)


def _is_told(sqs: Any, url: str) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.send_message(QueueUrl=url, MessageBody="x")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503


def _status_of_a_send(address: str) -> int:
    connection = http.client.HTTPConnection(address, timeout=20)
    try:
        body = json.dumps({"messages": [{"body": "x"}]})
        connection.request("POST", "/api/v1/queues/jobs/messages", body, {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


def _finds(sqs: Any, url: str, count: int) -> None:
    """They are there all the same, and receipts are taken: nothing but sends is refused."""
    found: list[dict[str, Any]] = []
    for _ in range(20):
        if len(found) < count:
            found += sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5).get("Messages", [])
    assert len(found) == count
    for message in found:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
