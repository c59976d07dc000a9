"""Extensions of Longhall's queues beyond SQS, with an unmodified boto3: priorities, filters, rewinds."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from soak.node import Node
from tests.clients.conftest import FreshName
from tests.clients.librdkafka import new_producer, read_all
from tests.clients.librdkafka import send as produce
from tests.clients.sqs.conftest import CREDENTIALS, REGION, MakeQueue
from tests.clients.sqs.words import attribute, bodies, delete, nothing_comes, receive, send
from tests.left_out import leave_out


def priority(level: int) -> dict[str, dict[str, str]]:
    return {"longhall.priority": {"DataType": "Number", "StringValue": str(level)}}


def city(name: str) -> dict[str, dict[str, str]]:
    return {"city": {"DataType": "String", "StringValue": name}}


@pytest.fixture(autouse=True)
def ours(hall: Node | None) -> None:
    if hall is None:
        leave_out("LONGHALL_TEST_SQS names a server, and only Longhall has these")


def _name(url: str) -> str:
    return url.rsplit("/", 1)[1]


def _post(node: Node, path: str, body: object) -> None:
    request = urllib.request.Request(
        f"http://{node.http}/api/v1/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status in (200, 201)


def test_higher_priorities_come_first_and_are_seen(sqs: Any, make_queue: MakeQueue, kafka: str) -> None:
    queue = make_queue(LonghallPriorities=3)
    assert attribute(sqs, queue, "LonghallPriorities") == "3"
    for level in (0, 2, 1):
        send(sqs, queue, f"level {level}", MessageAttributes={**priority(level), **city("Oslo")})
    # The same with a header, as a Kafka producer says it.
    produce(new_producer(kafka), _name(queue), [b"from Kafka"], headers=[("longhall.priority", b"2")])
    got = [receive(sqs, queue, MessageAttributeNames=["All"])[0] for _ in range(4)]
    assert bodies(got) == ["level 2", "from Kafka", "level 1", "level 0"]
    assert got[2]["MessageAttributes"] == {**priority(1), **city("Oslo")}
    assert got[3]["MessageAttributes"] == city("Oslo")
    # A reader of the topic sees each once, in the order of availability.
    assert [message.value() for message in read_all(kafka, _name(queue))] == [
        b"level 0",
        b"level 2",
        b"level 1",
        b"from Kafka",
    ]


def test_an_invalid_priority_is_refused(sqs: Any, queue: str, make_queue: MakeQueue) -> None:
    for wrong in (
        {"DataType": "String", "StringValue": "1"},
        {"DataType": "Number", "StringValue": "-1"},
        {"DataType": "Number", "StringValue": "256"},
    ):
        with pytest.raises(ClientError, match=r"longhall\.priority"):
            send(sqs, queue, "x", MessageAttributes={"longhall.priority": wrong})
    for value in ("0", "257", "x"):
        with pytest.raises(ClientError) as caught:
            make_queue(LonghallPriorities=value)
        assert caught.value.response["Error"]["Code"] == "InvalidAttributeValue"
    with pytest.raises(ClientError) as caught:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"LonghallPriorities": "2"})
    assert caught.value.response["Error"]["Code"] == "InvalidAttributeValue"
    assert nothing_comes(sqs, queue)


def test_a_receiver_names_a_filter_among_the_attributes_it_wants(sqs: Any, queue: str) -> None:
    for number in range(6):
        send(sqs, queue, str(number), MessageAttributes=city("Oslo" if number % 2 else "Rome"))
    wanted = ["city", "longhall.filter=city = 'Oslo'"]
    got = receive(sqs, queue, 3, MessageAttributeNames=wanted)
    assert bodies(got) == ["1", "3", "5"]
    assert got[0]["MessageAttributes"] == city("Oslo")
    delete(sqs, queue, got)
    assert nothing_comes(sqs, queue, MessageAttributeNames=wanted)
    policy = ['longhall.filter={"city": [{"prefix": "R"}]}']
    assert bodies(receive(sqs, queue, 1, MessageAttributeNames=policy)) == ["0"]
    assert bodies(receive(sqs, queue, 2)) == ["2", "4"]


def test_an_invalid_filter_is_an_invalid_parameter(sqs: Any, queue: str) -> None:
    for names in (["longhall.filter=city ="], ["longhall.filter={}x"], ["longhall.filter=a", "longhall.filter=b"]):
        with pytest.raises(ClientError) as caught:
            sqs.receive_message(QueueUrl=queue, MessageAttributeNames=names)
        assert caught.value.response["Error"]["Code"] == "InvalidParameterValue"


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "data") as running:
        yield running


def _client(node: Node) -> Any:
    return boto3.client("sqs", endpoint_url=f"http://{node.sqs}", region_name=REGION, **CREDENTIALS)


def _drain(client: Any, url: str, count: int) -> list[str]:
    got = receive(client, url, count)
    delete(client, url, got)
    return sorted(bodies(got))


def test_a_rewind_delivers_all_settled_messages_again_also_after_a_kill(killable: Node, fresh_name: FreshName) -> None:
    name = fresh_name("kept")
    sent = [f"{number:03}" for number in range(30)]
    client = _client(killable)
    url = client.create_queue(QueueName=name, Attributes={"LonghallSettled": "keep"})["QueueUrl"]
    send(client, url, *sent)
    assert _drain(client, url, 30) == sent
    assert nothing_comes(client, url)
    _post(killable, f"queues/{name}/rewind", {})
    assert _drain(client, url, 30) == sent
    _post(killable, f"queues/{name}/fork", {"name": f"{name}-fork"})
    killable.kill()

    killable.start()
    client = _client(killable)
    url = client.get_queue_url(QueueName=name)["QueueUrl"]
    assert nothing_comes(client, url)
    fork = client.get_queue_url(QueueName=f"{name}-fork")["QueueUrl"]
    assert _drain(client, fork, 30) == sent
    _post(killable, f"queues/{name}/rewind", {})
    killable.kill()

    killable.start()
    client = _client(killable)
    url = client.get_queue_url(QueueName=name)["QueueUrl"]
    assert _drain(client, url, 30) == sent
    assert [message.value().decode() for message in read_all(killable.bootstrap, name)] == sent
    with pytest.raises(ClientError) as caught:
        client.delete_queue(QueueUrl=url)
    assert caught.value.response["Error"]["Code"] == "AWS.SimpleQueueService.UnsupportedOperation"
