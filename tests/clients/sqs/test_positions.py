"""Where messages are and in which order they come: positions, stamps and weights, through SQS, Kafka and HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from soak.node import Node
from tests.clients.librdkafka import new_producer, read_all
from tests.clients.librdkafka import send as produce
from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.words import attribute, bodies, delete, receive, send
from tests.console.api.asking import Asking
from tests.left_out import leave_out

POSITION = ("longhall.partition", "longhall.offset", "longhall.sequence")


@pytest.fixture(autouse=True)
def ours(hall: Node | None) -> None:
    if hall is None:
        leave_out("LONGHALL_TEST_SQS names a server, and only Longhall has these")


@pytest.fixture
def ask(hall: Node) -> Iterator[Asking]:
    asking = Asking(hall.http)
    yield asking
    asking.close()


def named(url: str) -> str:
    return url.rsplit("/", 1)[1]


def stamp(number: int) -> dict[str, dict[str, str]]:
    return {"longhall.stamp": {"DataType": "Number", "StringValue": str(number)}}


def test_every_delivery_says_where_the_message_is(sqs: Any, ask: Asking, kafka: str, make_queue: MakeQueue) -> None:
    queue = make_queue()
    send(sqs, queue, "one", "two", "three")
    places = {
        message.value().decode(): (message.partition(), message.offset()) for message in read_all(kafka, named(queue))
    }
    (one,) = receive(sqs, queue, MessageAttributeNames=list(POSITION))
    (two,) = receive(sqs, queue, MessageAttributeNames=["All"], AttributeNames=["All"])
    assert "MessageAttributes" not in two  # Clients that do not ask see the service unchanged,
    assert "SequenceNumber" not in two["Attributes"]  # which numbers only the messages of FIFO queues.
    numbers = [int(one["MessageAttributes"][name]["StringValue"]) for name in POSITION]
    assert tuple(numbers[:2]) == places["one"]
    (three,) = ask.good("POST", f"queues/{named(queue)}/receive", {})["messages"]
    assert (three["partition"], three["offset"]) == places["three"]
    assert three["sequence"] > numbers[2]


def test_the_sequence_of_a_fifo_queue_is_the_same_through_both_doors(sqs: Any, ask: Asking, fifo: str) -> None:
    for body in ("one", "two"):
        send(sqs, fifo, body, MessageGroupId="g", MessageDeduplicationId=body)
    (one,) = receive(sqs, fifo, MessageAttributeNames=["longhall.sequence"], AttributeNames=["SequenceNumber"])
    sequence = int(one["MessageAttributes"]["longhall.sequence"]["StringValue"])
    assert sequence == int(one["Attributes"]["SequenceNumber"])
    delete(sqs, fifo, [one])
    (two,) = ask.good("POST", f"queues/{named(fifo)}/receive", {})["messages"]
    assert two["sequence"] > sequence
    assert two["partition"] == 0


def test_a_late_stamped_message_goes_to_the_head(sqs: Any, ask: Asking, kafka: str, make_queue: MakeQueue) -> None:
    queue = make_queue(LonghallLateStamped="head")
    assert attribute(sqs, queue, "LonghallLateStamped") == "head"
    assert ask.good("GET", f"queues/{named(queue)}")["settings"]["late_stamped"] == "head"
    for body, number in (("a", 10), ("e", 50), ("f", 60)):
        send(sqs, queue, body, MessageAttributes=stamp(number))
    assert bodies(receive(sqs, queue, 2)) == ["a", "e"]
    # Older than e, through each door in its own field; newer than e, and without a stamp.
    send(sqs, queue, "b", MessageAttributes=stamp(20))
    ask.good("POST", f"queues/{named(queue)}/messages", {"messages": [{"body": "c", "stamp": 30}]})
    produce(new_producer(kafka), named(queue), [b"d"], headers=[("longhall.stamp", b"40")])
    produce(new_producer(kafka), named(queue), [b"g"], headers=[("longhall.stamp", b"70")])
    send(sqs, queue, "unstamped")
    got = receive(sqs, queue, 6, MaxNumberOfMessages=1, MessageAttributeNames=["All"])
    assert bodies(got) == ["b", "c", "d", "f", "g", "unstamped"]
    assert [one.get("MessageAttributes") for one in got] == [*map(stamp, (20, 30, 40, 60, 70)), None]
    assert [message.value() for message in read_all(kafka, named(queue))] == [
        b"a",
        b"e",
        b"f",
        b"b",
        b"c",
        b"d",
        b"g",
        b"unstamped",
    ]
    for wrong in ("soon", "-1"):
        with pytest.raises(ClientError, match=r"longhall\.stamp|number"):
            send(sqs, queue, "x", MessageAttributes={"longhall.stamp": {"DataType": "Number", "StringValue": wrong}})
    with pytest.raises(ClientError, match="arrival or head"):
        make_queue(LonghallLateStamped="tail")
    with pytest.raises(ClientError, match="decided when"):
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"LonghallLateStamped": "arrival"})
    status, said = ask("POST", f"queues/{named(queue)}/messages", {"messages": [{"body": "x", "stamp": -1}]})
    assert (status, said["code"]) == (400, "invalid-request")


def test_several_queues_are_received_by_weight(sqs: Any, make_queue: MakeQueue) -> None:
    often, seldom = make_queue(), make_queue()
    for queue in (often, seldom):
        send(sqs, queue, *[f"{named(queue)} {number}" for number in range(8)])
    weights = f"longhall.weights={named(often)}=3,{named(seldom)}=1"
    got = sqs.receive_message(QueueUrl=often, MaxNumberOfMessages=8, MessageAttributeNames=[weights])["Messages"]
    origins = [one["MessageAttributes"]["longhall.queue"]["StringValue"] for one in got]
    assert (origins.count(named(often)), origins.count(named(seldom))) == (6, 2)
    assert all(one["Body"].startswith(origin) for one, origin in zip(got, origins, strict=True))
    for one, origin in zip(got, origins, strict=True):
        delete(sqs, often if origin == named(often) else seldom, [one])
    rest = receive(sqs, seldom, 8, MessageAttributeNames=[weights])
    assert len({one["MessageId"] for one in [*got, *rest]}) == 16
    for wrong in ("a", f"{named(often)}=0", f"{named(often)}=x", f"{named(seldom)}=1"):
        with pytest.raises(ClientError):
            sqs.receive_message(QueueUrl=often, MessageAttributeNames=[f"longhall.weights={wrong}"])
    with pytest.raises(ClientError) as caught:
        sqs.receive_message(QueueUrl=often, MessageAttributeNames=[f"longhall.weights={named(often)}=1,nowhere=1"])
    assert "NonExistentQueue" in caught.value.response["Error"]["Code"]


def test_a_receive_from_several_queues_waits_for_any_of_them(sqs: Any, make_queue: MakeQueue) -> None:
    first, second = make_queue(), make_queue()
    weights = f"longhall.weights={named(first)}=1,{named(second)}=1"
    sqs.send_message(QueueUrl=second, MessageBody="late", DelaySeconds=1)
    (got,) = receive(sqs, first, WaitTimeSeconds=10, MessageAttributeNames=[weights])
    assert got["Body"] == "late"
