"""Leases: hidden while leased, redelivered afterwards, longer or shorter on request; delays and long polling."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.clients.conftest import eventually
from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.refusals import INVALID_PARAMETER, NOT_IN_FLIGHT, refusal
from tests.clients.sqs.words import attribute, bodies, delete, nothing_comes, receive, send


def test_a_received_message_is_hidden_and_comes_back(sqs: Any, make_queue: MakeQueue) -> None:
    url = make_queue(VisibilityTimeout=4)
    send(sqs, url, "again")
    (first,) = receive(sqs, url)
    assert nothing_comes(sqs, url)
    (second,) = receive(sqs, url, MessageSystemAttributeNames=["ApproximateReceiveCount"])
    assert second["MessageId"] == first["MessageId"]
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"


def test_the_receiver_may_ask_for_its_own_time(sqs: Any, make_queue: MakeQueue) -> None:
    url = make_queue(VisibilityTimeout=600)
    send(sqs, url, "soon")
    receive(sqs, url, VisibilityTimeout=1)
    assert bodies(receive(sqs, url)) == ["soon"]


def test_a_lease_is_extended(sqs: Any, make_queue: MakeQueue) -> None:
    url = make_queue(VisibilityTimeout=3)
    send(sqs, url, "long")
    (message,) = receive(sqs, url)
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=600)
    assert nothing_comes(sqs, url, WaitTimeSeconds=4)
    delete(sqs, url, [message])


def test_a_message_is_given_back(sqs: Any, queue: str) -> None:
    send(sqs, queue, "back")
    (message,) = receive(sqs, queue)
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    assert bodies(receive(sqs, queue)) == ["back"]


def test_a_fifo_message_that_is_not_in_flight_has_no_lease_to_change(sqs: Any, make_queue: MakeQueue) -> None:
    queue = make_queue(fifo=True, ContentBasedDeduplication="true")
    send(sqs, queue, "back", MessageGroupId="g")
    (message,) = receive(sqs, queue)
    how = {"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"]}
    sqs.change_message_visibility(**how, VisibilityTimeout=0)
    assert refusal(sqs.change_message_visibility, **how, VisibilityTimeout=10) == NOT_IN_FLIGHT


def test_a_deleted_message_has_no_lease_to_change(sqs: Any, queue: str) -> None:
    send(sqs, queue, "gone")
    (message,) = receive(sqs, queue)
    delete(sqs, queue, [message])
    assert (
        refusal(
            sqs.change_message_visibility, QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=10
        )
        == INVALID_PARAMETER
    )


@pytest.mark.parametrize("seconds", [-1, 43_201])
def test_leases_beyond_their_bounds(sqs: Any, queue: str, seconds: int) -> None:
    send(sqs, queue, "x")
    (message,) = receive(sqs, queue)
    assert (
        refusal(
            sqs.change_message_visibility,
            QueueUrl=queue,
            ReceiptHandle=message["ReceiptHandle"],
            VisibilityTimeout=seconds,
        )
        == INVALID_PARAMETER
    )


def test_a_redelivered_message_can_be_deleted_by_its_first_receiver(sqs: Any, queue: str) -> None:
    send(sqs, queue, "late")
    (first,) = receive(sqs, queue, VisibilityTimeout=0)
    delete(sqs, queue, [first])
    assert nothing_comes(sqs, queue)


def test_a_delayed_message_comes_later(sqs: Any, queue: str) -> None:
    send(sqs, queue, "later", DelaySeconds=4)
    send(sqs, queue, "now")
    assert bodies(receive(sqs, queue)) == ["now"]
    assert attribute(sqs, queue, "ApproximateNumberOfMessagesDelayed") == "1"
    assert bodies(receive(sqs, queue)) == ["later"]


def test_a_queue_has_a_delay_of_its_own(sqs: Any, make_queue: MakeQueue) -> None:
    url = make_queue(DelaySeconds=600)
    send(sqs, url, "later")
    send(sqs, url, "now", DelaySeconds=0)
    assert bodies(receive(sqs, url)) == ["now"]
    assert nothing_comes(sqs, url)


def test_a_waiting_receiver_wakes_on_a_send(sqs: Any, queue: str) -> None:
    timer = threading.Timer(0.5, send, (sqs, queue, "wake"))
    timer.start()
    began = time.monotonic()
    messages = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20).get("Messages", [])
    timer.join()
    assert bodies(messages) == ["wake"]
    assert time.monotonic() - began < 15  # Not at the end of its wait, however slow the machine.


def test_a_waiting_receiver_wakes_when_a_lease_or_a_delay_ends(sqs: Any, queue: str) -> None:
    send(sqs, queue, "leased")
    receive(sqs, queue, VisibilityTimeout=1)
    send(sqs, queue, "delayed", DelaySeconds=2)
    began = time.monotonic()
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]) == ["leased"]
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]) == ["delayed"]
    assert time.monotonic() - began < 15


def test_the_queue_may_ask_receivers_to_wait(sqs: Any, make_queue: MakeQueue) -> None:
    url = make_queue(ReceiveMessageWaitTimeSeconds=20)
    timer = threading.Timer(0.5, send, (sqs, url, "wake"))
    timer.start()
    assert bodies(sqs.receive_message(QueueUrl=url)["Messages"]) == ["wake"]
    timer.join()
    began = time.monotonic()
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0)
    assert time.monotonic() - began < 15


def test_every_message_wakes_one_of_many_receivers(sqs: Any, queue: str) -> None:
    got: list[Any] = []

    def wait() -> None:
        got.extend(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20).get("Messages", []))

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    send(sqs, queue, *(str(number) for number in range(5)))
    for thread in threads:
        thread.join(30)
    assert sorted(bodies(got)) == ["0", "1", "2", "3", "4"]


def test_messages_older_than_the_retention_are_deleted(sqs: Any, queue: str) -> None:
    """The shortest retention is a minute, so only that it may be set below a message's age is seen here."""
    send(sqs, queue, "kept")
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"MessageRetentionPeriod": "60"})
    eventually(lambda: attribute(sqs, queue, "MessageRetentionPeriod") == "60", "the retention is set")
    assert bodies(receive(sqs, queue)) == ["kept"]
