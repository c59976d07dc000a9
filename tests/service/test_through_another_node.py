"""Requests for queues that reach a node which follows: the leader answers them, and nobody can tell."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable
from pathlib import Path

import botocore.exceptions
import pytest

from longhall.doors.kafka.wire.messages.topics import CreateTopicsRequest, CreateTopicsRequestTopic
from longhall.errors import Code
from tests.doors.kafka.asking import ask
from tests.doors.sqs.clients import client
from tests.doors.two_nodes import FOLLOWER, LEADER, TwoNodes, two_nodes

pytestmark = pytest.mark.clients


def _is_told_what_is_wrong(follower: str) -> None:
    """A refusal of the leader's, and those that whoever was asked says by itself."""
    sqs = client(follower)
    url = sqs.get_queue_url(QueueName="jobs")["QueueUrl"]
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=11)
    assert caught.value.response["Error"]["Code"] == "InvalidParameterValue"
    assert "11" in caught.value.response["Error"]["Message"]
    connection = http.client.HTTPConnection(follower.removeprefix("http://"), timeout=20)
    try:
        for body, headers, word in (
            (b"{", {}, b"SerializationException"),
            (b"{}", {"Origin": "http://elsewhere"}, b"AccessDenied"),
        ):
            known = {"X-Amz-Target": "AmazonSQS.ListQueues", "Content-Type": "application/x-amz-json-1.0"}
            connection.request("POST", "/", body, {**known, **headers})
            answer = connection.getresponse()
            assert (answer.status // 100, word in answer.read()) == (4, True)
    finally:
        connection.close()


def _is_told_what_cannot_be_read(follower: str) -> None:
    """Whoever was asked looks for the queue, and must not stumble over what is no JSON, or too deep, or no text."""
    connection = http.client.HTTPConnection(follower.removeprefix("http://"), timeout=20)
    try:
        for body in (b"{", b'{"a":' * 50_000, b"[" * 50_000, b'{"QueueUrl": "\xff"}', b'{"QueueUrl": 7}', b"\xff"):
            known = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
            connection.request("POST", "/", body, known)
            answer = connection.getresponse()
            assert (answer.status, b"__type" in answer.read()) == (400, True)
    finally:
        connection.close()


def _receives_nothing_while_answers_fill_the_memory(two: TwoNodes) -> None:
    """That of the node where the connections are: the other one has given its answers away."""
    budget = two.follower.doors.sqs.budget
    held = budget.bytes_max + 1
    for protocol in ("json", "query"):
        sqs = client(f"http://{two.follower.sqs}", protocol)
        url = sqs.get_queue_url(QueueName="jobs")["QueueUrl"]
        budget.used_bytes += held
        try:
            with pytest.raises(botocore.exceptions.ClientError) as caught:
                sqs.receive_message(QueueUrl=url)
            assert caught.value.response["Error"]["Code"].endswith("RequestThrottled")
            sqs.send_message(QueueUrl=url, MessageBody="Who sends ReceiveMessage is not held up.")
        finally:
            budget.used_bytes -= held
        (message,) = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1, WaitTimeSeconds=20)["Messages"]
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def _gives_nothing_while_answers_fill_the_memory(two: TwoNodes) -> None:
    budget = two.follower.doors.sqs.budget
    held = budget.bytes_max + 1
    budget.used_bytes += held
    try:
        assert _status(two, "/api/v1/queues/jobs/receive", "POST", b"{}") == 503
        assert _status(two, "/api/v1/queues/jobs") == 200
    finally:
        budget.used_bytes -= held
    assert _status(two, "/api/v1/queues/jobs/receive", "POST", b"{}") == 200


async def test_queues_through_the_wrong_node(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await asyncio.to_thread(_use_sqs, f"http://{two.follower.sqs}", f"http://{two.leader.sqs}")
        await asyncio.to_thread(_use_api, str(two.follower.http))
        assert {"CreateQueue", "SendMessages", "ReceiveMessages", "DescribeQueue"} <= set(two.hand.asked)
        assert "jobs" in two.leader.hall.catalogue.queues.by_name
        assert not two.follower.hall.catalogue.queues.by_name
        await asyncio.to_thread(_is_told_what_is_wrong, f"http://{two.follower.sqs}")
        await asyncio.to_thread(_is_told_what_cannot_be_read, f"http://{two.follower.sqs}")
        await asyncio.to_thread(_receives_nothing_while_answers_fill_the_memory, two)
        await asyncio.to_thread(_gives_nothing_while_answers_fill_the_memory, two)
        await _nobody_waits_any_more(two)
        two.hand.refusal = Code.NOT_READY
        await asyncio.to_thread(_is_refused, two)


def _use_sqs(follower: str, leader: str) -> None:
    sqs = client(follower)
    url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    assert url.startswith(follower)  # Clients go on asking the node that they know.
    body = "x" * 200_000
    sent = sqs.send_message(QueueUrl=url, MessageBody=body)
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], body)
    client(leader).delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.get_queue_url(QueueName="unknown")


def _use_api(follower: str) -> None:
    connection = http.client.HTTPConnection(follower, timeout=20)
    try:
        for _ in range(2):  # The connection stays open, as if the answer had been made here.
            connection.request("GET", "/api/v1/queues/jobs")
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["name"]) == (200, "jobs")
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
    finally:
        connection.close()


async def _nobody_waits_any_more(two: TwoNodes) -> None:
    """A receiver that hangs up at the follower is gone at the leader too: it is given nothing."""
    waiters = two.leader.hall.queues[two.leader.hall.catalogue.queues.by_name["jobs"].number].waiters
    writer = await _begin_to_receive(two)
    await _until(lambda: len(waiters) == 1)
    assert two.hand.under_way == 1
    writer.close()
    await _until(lambda: not two.hand.under_way)
    await _until(lambda: all(waiter.future.done() for waiter in waiters._waiting))
    await asyncio.to_thread(_finds_a_message, f"http://{two.follower.sqs}")


async def _begin_to_receive(two: TwoNodes) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", two.follower.sqs.port)
    request = json.dumps({"QueueUrl": f"http://{two.follower.sqs}/0/jobs", "WaitTimeSeconds": 20}).encode()
    writer.write(
        b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
        b"Content-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(request), request)
    )
    return writer


def _finds_a_message(follower: str) -> None:
    sqs = client(follower)
    url = sqs.get_queue_url(QueueName="jobs")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="for whoever is there")
    assert len(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]) == 1


async def _until(condition: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to pass")


def _is_refused(two: TwoNodes) -> None:
    sqs = client(f"http://{two.follower.sqs}")
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        sqs.list_queues()
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    connection = http.client.HTTPConnection(str(two.follower.http), timeout=20)
    connection.request("GET", "/api/v1/queues")
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["code"]) == (503, "not-ready")
    connection.close()


async def test_a_deposed_leader_says_nothing_for_good_before_it_has_asked(tmp_path: Path) -> None:
    """The node that is asked believes that it leads; the queue was made at the next leader meanwhile."""
    async with two_nodes(tmp_path) as two:
        await asyncio.to_thread(client(f"http://{two.leader.sqs}").create_queue, QueueName="jobs")

        def hear() -> None:
            two.told.leader = LEADER

        sqs = client(f"http://{two.follower.sqs}")
        two.hand.on_confirm = hear
        for find in (lambda: sqs.get_queue_url(QueueName="jobs"), lambda: _status(two, "/api/v1/queues/jobs") == 200):
            two.told.leader = FOLLOWER
            assert await asyncio.to_thread(find)
        assert (two.hand.confirmed, two.hand.asked[:2]) == (2, ["DescribeQueue", "DescribeQueue"])
        two.hand.on_confirm = lambda: None
        two.told.leader = FOLLOWER
        with pytest.raises(sqs.exceptions.QueueDoesNotExist):
            await asyncio.to_thread(sqs.get_queue_url, QueueName="jobs")
        assert await asyncio.to_thread(_status, two, "/api/v1/queues/jobs") == 404
        assert two.hand.confirmed == 4
        two.hand.refusal = Code.NOT_READY
        with pytest.raises(botocore.exceptions.ClientError) as caught:
            await asyncio.to_thread(sqs.get_queue_url, QueueName="jobs")
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert await asyncio.to_thread(_status, two, "/api/v1/queues/jobs") == 503


def _status(two: TwoNodes, path: str, method: str = "GET", body: bytes | None = None) -> int:
    connection = http.client.HTTPConnection(str(two.follower.http), timeout=20)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


async def test_a_deposed_leader_does_not_say_that_a_name_is_taken_before_it_has_asked(tmp_path: Path) -> None:
    """The node that is asked believes that it leads, and has not heard that the queue was deleted."""
    async with two_nodes(tmp_path) as two:
        two.told.leader = FOLLOWER
        sqs = client(f"http://{two.follower.sqs}")
        await asyncio.to_thread(sqs.create_queue, QueueName="jobs")
        wanted = CreateTopicsRequest(topics=[CreateTopicsRequestTopic(name="jobs", num_partitions=1)], timeout_ms=1000)
        wanted.topics[0].replication_factor = 1

        def make() -> int:
            return _status(two, "/api/v1/queues", "POST", b'{"name": "jobs"}')

        assert two.hand.confirmed == 0
        await asyncio.to_thread(sqs.create_queue, QueueName="jobs")
        with pytest.raises(sqs.exceptions.QueueNameExists):
            await asyncio.to_thread(sqs.create_queue, QueueName="jobs", Attributes={"VisibilityTimeout": "3"})
        assert await asyncio.to_thread(make) == 409
        assert (await ask(two.follower, wanted, 5)).topics[0].error_code == 36
        assert (two.hand.confirmed, two.hand.asked) == (4, [])

        def hear() -> None:
            two.told.leader = LEADER

        two.hand.on_confirm = hear
        await asyncio.to_thread(sqs.create_queue, QueueName="jobs", Attributes={"VisibilityTimeout": "3"})
        assert two.hand.asked == ["CreateQueue"]
        assert two.leader.hall.queues, "it was made where it was gone"
        two.told.leader = FOLLOWER
        assert (await ask(two.follower, wanted, 5)).topics[0].error_code == 41
        two.told.leader = FOLLOWER
        two.hand.refusal = Code.NOT_READY
        with pytest.raises(botocore.exceptions.ClientError) as caught:
            await asyncio.to_thread(sqs.create_queue, QueueName="jobs")
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
