"""Rules of delivery that only Longhall has, with boto3 and over HTTP: one by one, hours, retries of expired leases."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from soak.node import Node
from tests.clients.conftest import FreshName
from tests.clients.sqs.conftest import CREDENTIALS, REGION, MakeQueue
from tests.clients.sqs.words import attribute, bodies, delete, nothing_comes, receive, redrive, send
from tests.console.api.asking import Asking
from tests.left_out import leave_out

MINUTE_S = 60


@pytest.fixture(autouse=True)
def ours(hall: Node | None) -> None:
    if hall is None:
        leave_out("LONGHALL_TEST_SQS names a server, and only Longhall has these")


@pytest.fixture
def ask(hall: Node) -> Iterator[Asking]:
    asking = Asking(hall.http)
    yield asking
    asking.close()


def test_one_by_one_the_next_waits_for_the_one_before(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue(LonghallOneByOne="true")
    assert attribute(sqs, queue, "LonghallOneByOne") == "true"
    send(sqs, queue, "first", "second", "third")
    (first,) = receive(sqs, queue, 1, MaxNumberOfMessages=10)
    assert first["Body"] == "first"
    assert nothing_comes(sqs, queue)
    waiting: list[Any] = []
    waiter = threading.Thread(target=lambda: waiting.extend(receive(sqs, queue, 1, WaitTimeSeconds=20)))
    waiter.start()
    delete(sqs, queue, [first])
    waiter.join(30)
    assert bodies(waiting) == ["second"]
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=waiting[0]["ReceiptHandle"], VisibilityTimeout=0)
    (again,) = receive(sqs, queue, 1, MaxNumberOfMessages=10)
    assert again["Body"] == "second"
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"LonghallOneByOne": "false"})
    assert bodies(receive(sqs, queue)) == ["third"]
    with pytest.raises(ClientError, match="Must be true or false"):
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"LonghallOneByOne": "perhaps"})


def test_one_by_one_over_http(ask: Asking, fresh_name: FreshName) -> None:
    name = fresh_name("strict")
    ask.good("POST", "queues", {"name": name, "settings": {"one_by_one": True}})
    ask.good("POST", f"queues/{name}/messages", {"messages": [{"body": "a"}, {"body": "b"}]})
    (first,) = ask.good("POST", f"queues/{name}/receive", {"count": 10})["messages"]
    assert first["body"] == "a"
    assert ask.good("POST", f"queues/{name}/receive", {"count": 10})["messages"] == []
    ask.good("POST", f"queues/{name}/settle", {"receipts": [first["receipt"]]})
    (second,) = ask.good("POST", f"queues/{name}/receive", {"count": 10})["messages"]
    assert second["body"] == "b"


def test_an_expired_lease_is_a_failure_where_the_queue_says_so(sqs: Any, ask: Asking, make_queue: MakeQueue) -> None:
    dead = make_queue()
    policy = {"first_ms": 1500, "factor": 2.0, "lapsed": True}
    queue = make_queue(LonghallRetry=json.dumps(policy), RedrivePolicy=redrive(sqs, dead, 2))
    assert json.loads(attribute(sqs, queue, "LonghallRetry")).items() >= policy.items()
    send(sqs, queue, "poison")
    receive(sqs, queue, VisibilityTimeout=1)
    state = ""
    for _ in range(300):  # Leased, and then delayed: nobody gets it at the end of the lease.
        (seen,) = ask.good("GET", f"queues/{queue.rsplit('/', 1)[1]}/messages?count=1")["messages"]
        state = seen["state"]
        if state != "leased":
            break
        assert not sqs.receive_message(QueueUrl=queue).get("Messages")
        time.sleep(0.02)
    assert state == "delayed"
    (again,) = receive(sqs, queue, VisibilityTimeout=1, AttributeNames=["All"])
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    with pytest.raises(AssertionError, match="only 0 of 1"):
        receive(sqs, queue, seconds_max=2)
    assert bodies(receive(sqs, dead)) == ["poison"]
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"LonghallRetry": ""})
    assert "LonghallRetry" not in sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    for wrong in ("soon", "[]", '{"first": 5}', '{"first_ms": -1}'):
        with pytest.raises(ClientError, match="LonghallRetry"):
            sqs.set_queue_attributes(QueueUrl=queue, Attributes={"LonghallRetry": wrong})


def test_hours_in_any_time_zone_are_the_same_through_both_doors(sqs: Any, ask: Asking, make_queue: MakeQueue) -> None:
    queue = make_queue(LonghallHours="22:00-06:00,12:00-13:00 Europe/Berlin")
    path = f"queues/{queue.rsplit('/', 1)[1]}"
    night = {"from_minute": 1320, "to_minute": 360, "zone": "Europe/Berlin"}
    assert ask.good("GET", path)["settings"]["hours"] == {**night, "also": [{"from_minute": 720, "to_minute": 780}]}
    ask.good("PATCH", path, {"settings": {"hours": {"from_minute": 0, "to_minute": 60, "zone": "Asia/Tokyo"}}})
    assert attribute(sqs, queue, "LonghallHours") == "00:00-01:00 Asia/Tokyo"
    for wrong in ("22:00", "22:00-06:00 Atlantis/City", "25:00-26:00"):
        with pytest.raises(ClientError) as caught:
            sqs.set_queue_attributes(QueueUrl=queue, Attributes={"LonghallHours": wrong})
        assert caught.value.response["Error"]["Code"] == "InvalidAttributeValue"
    status, said = ask("PATCH", path, {"settings": {"hours": {**night, "zone": "Atlantis/City"}}})
    assert (status, "Atlantis/City" in said["message"]) == (400, True)
    status, said = ask("PATCH", path, {"settings": {"hours": {**night, "also": [{"from": 1, "to": 2}]}}})
    assert (status, "hours.also.from" in said["message"]) == (400, True)
    assert attribute(sqs, queue, "LonghallHours") == "00:00-01:00 Asia/Tokyo"


CLOCK = """
import pathlib, time
ahead, real = pathlib.Path({path!r}), time.monotonic_ns
time.monotonic_ns = lambda: real() + int(ahead.read_text())
"""


class Clock:
    """The clock of a node in the hand of a test."""

    def __init__(self, home: Path) -> None:
        self._file = home / "ahead-ns"
        self._file.write_text("0")
        (home / "sitecustomize.py").write_text(CLOCK.format(path=str(self._file)))
        self.environment = {"PYTHONPATH": os.pathsep.join([str(home), *filter(None, [os.environ.get("PYTHONPATH")])])}

    def advance(self, seconds: float) -> None:
        self._file.with_suffix(".new").write_text(str(int(seconds * 1e9)))
        self._file.with_suffix(".new").replace(self._file)


def test_a_receiver_that_waits_gets_messages_when_the_hours_open(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    with Node(tmp_path / "data", environment=clock.environment) as node:
        sqs = boto3.client("sqs", endpoint_url=f"http://{node.sqs}", region_name=REGION, **CREDENTIALS)
        ask = Asking(node.http)
        now_s = ask.good("POST", "queues", {"name": "clock"})["created_ms"] / 1000
        opens = int(now_s) // MINUTE_S + 10
        begin, end = (f"{minute // 60 % 24:02d}:{minute % 60:02d}" for minute in (opens, opens + 60))
        queue = sqs.create_queue(QueueName="hours", Attributes={"LonghallHours": f"{begin}-{end}"})["QueueUrl"]
        send(sqs, queue, "one", "two")
        clock.advance(opens * MINUTE_S - now_s - 5)
        assert not sqs.receive_message(QueueUrl=queue).get("Messages")
        found: list[Any] = []
        waiter = threading.Thread(target=lambda: found.extend(receive(sqs, queue, WaitTimeSeconds=20)))
        waiter.start()
        (one,) = ask.good("POST", "queues/hours/receive", {"count": 1, "wait_ms": 20_000})["messages"]
        waiter.join(30)
        ask.close()
    assert sorted([one["body"], *bodies(found)]) == ["one", "two"]
    assert one["first_received_ms"] // 1000 // MINUTE_S == opens
    assert one["attempts"] == 1
