"""What a permission does not give: another user's account, another queue's messages, or time after it has ended."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from soak.node import COMMAND, Node
from tests.clients.accounts import ROOT, ROOT_PASSWORD, Administrator
from tests.clients.conftest import eventually
from tests.clients.serving import served
from tests.clients.test_kafka_logins import sasl
from tests.clients.test_permissions import allow, basic, revoke

Secured = tuple[Node, Administrator]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("indirect")
    key = home / "master.key"  # The nodes of a cluster do not make one themselves.
    subprocess.run([*COMMAND, "user", "master-key", str(key)], check=True, capture_output=True)
    with served(home / "data", options=["--set", f"master_key={key}"]) as node:
        root = Administrator(node.http)
        for name in ("eve", "ops", "waiter"):
            root.add_user(name, administrator=False)
        yield node, root


def sqs(node: Node, root: Administrator, user: str) -> Any:
    key = root.ask("POST", f"users/{user}/access-keys", {})
    client = boto3.client(
        "sqs",
        endpoint_url=f"http://{node.sqs}",
        region_name="us-east-1",
        aws_access_key_id=key["access_key"],
        aws_secret_access_key=key["secret"],
        config=Config(retries={"total_max_attempts": 1}),
    )
    eventually(lambda: is_known(client), "the access key at the node of the client")
    return client


def is_known(client: Any) -> bool:
    try:
        client.list_queues()
    except ClientError:
        return False
    return True


def bodies_of(node: Node, topic: str, count: int) -> list[bytes]:
    """The records of a topic, read by the administrator."""
    settings = {**sasl(node, ROOT, ROOT_PASSWORD), "group.id": f"reader-{topic}", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    found: list[bytes] = []
    end = time.monotonic() + 30
    while len(found) < count and time.monotonic() < end:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
    extra = consumer.poll(1.0)
    consumer.close()
    return [*found, *([extra.value() or b""] if extra is not None else [])]


def ask_soon(root: Administrator, method: str, path: str, body: object, header: str) -> Any:
    """One request of a user whose rule another node may have to learn first; the JSON of the response."""
    end = time.monotonic() + 30
    while True:
        try:
            return root.ask(method, path, body, header)
        except urllib.error.HTTPError as error:
            if error.code not in (403, 404) or time.monotonic() > end:
                raise
        time.sleep(0.05)


def messages(*bodies: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"body": body, **fields} for body in bodies]}


def test_who_may_change_users_cannot_become_an_administrator(secured: Secured) -> None:
    _, root = secured
    allow(root, "user:ops", "alter", "user", "*")
    shown = basic("ops")
    for path, body in (
        ("users/root/password", {"password": "taken over by ops"}),
        ("users/root/tokens", {"label": "mine"}),
        ("users/root/access-keys", {}),
    ):
        assert root.status("POST", path, body, shown) == 403, path
    assert root.status("PATCH", "users/root", {"enabled": False}, shown) == 403
    assert root.status("DELETE", "users/root", None, shown) == 403
    ask_soon(root, "POST", "users/waiter/tokens", {"label": "of another user"}, shown)
    assert root.status("GET", "users") == 200, "the administrator still has its password"


def test_an_administrator_sees_and_rotates_data_keys(secured: Secured) -> None:
    node, root = secured
    root.ask("POST", "queues", {"name": "plain"})
    assert root.ask("GET", "keys/plain")["keys"] == []
    assert root.status("GET", "keys/plain", header=basic("eve")) == 403
    assert root.status("POST", "keys/plain/rotate", {}, basic("eve")) == 403
    environment = {"LONGHALL_USER": ROOT, "LONGHALL_PASSWORD": ROOT_PASSWORD, "PATH": ""}
    command = [*COMMAND, "keys", "show", "plain", "--http", node.http, "-o", "json"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout) == []


def test_a_queue_over_a_topic_is_no_way_around_the_topics_permissions(secured: Secured) -> None:
    node, root = secured
    admin = AdminClient(sasl(node, ROOT, ROOT_PASSWORD))
    admin.create_topics([NewTopic("prices", 1)])["prices"].result()
    producer = Producer(sasl(node, ROOT, ROOT_PASSWORD))
    producer.produce("prices", b"genuine")
    assert producer.flush(30) == 0
    allow(root, "user:eve", "all", "queue", "eve-", pattern="prefix")
    reads = allow(root, "user:eve", "read", "topic", "prices")
    eve = basic("eve")
    ask_soon(root, "POST", "queues", {"name": "eve-prices", "topic": "prices"}, eve)
    assert root.status("POST", "queues/eve-prices/messages", messages("forged"), eve) == 403
    letters = {"name": "eve-source", "settings": {"dead_letters": {"queue": "eve-prices", "attempts_max": 1}}}
    assert root.status("POST", "queues", letters, eve) == 403
    (first,) = ask_soon(root, "POST", "queues/eve-prices/receive", {"wait_ms": 5_000}, eve)["messages"]
    assert first["body"] == "genuine"
    assert bodies_of(node, "prices", 1) == [b"genuine"]
    revoke(root, reads)
    eventually(lambda: root.status("POST", "queues/eve-prices/receive", {}, eve) == 403, "the refusal of a receive")
    root.ask("DELETE", "queues/eve-prices", None, eve)


def test_a_fork_is_no_way_around_the_queues_permissions(secured: Secured) -> None:
    _, root = secured
    root.ask("POST", "queues", {"name": "forked", "settings": {"settled": "keep"}})
    root.ask("POST", "queues/forked/messages", messages("genuine"))
    reads = allow(root, "user:eve", "read", "queue", "forked")
    allow(root, "user:eve", "all", "queue", "eve-", pattern="prefix")
    eve = basic("eve")
    ask_soon(root, "POST", "queues/forked/fork", {"name": "eve-fork"}, eve)
    assert root.status("POST", "queues/eve-fork/messages", messages("forged"), eve) == 403
    (first,) = ask_soon(root, "POST", "queues/eve-fork/receive", {"wait_ms": 5_000}, eve)["messages"]
    assert first["body"] == "genuine"
    explained = "access/explain?user=eve&action=write&kind=queue&name=eve-fork"
    assert root.ask("GET", explained)["reason"].startswith("the queue is over the topic 'forked'")
    revoke(root, reads)
    eventually(lambda: root.status("POST", "queues/eve-fork/receive", {}, eve) == 403, "the refusal of a receive")


def test_an_answer_needs_write_on_the_reply_queue(secured: Secured) -> None:
    node, root = secured
    root.ask("POST", "queues", {"name": "victim"})
    allow(root, "user:eve", "all", "queue", "eve-", pattern="prefix")
    eve = basic("eve")
    ask_soon(root, "POST", "queues", {"name": "eve-requests"}, eve)
    for _ in range(2):
        ask_soon(root, "POST", "queues/eve-requests/messages", messages("answer me", reply_to="victim"), eve)
    taken = ask_soon(root, "POST", "queues/eve-requests/receive", {"count": 2, "wait_ms": 5_000}, eve)["messages"]
    first, second = [{"receipt": one["receipt"], "message": {"body": "forged"}} for one in taken]
    assert root.status("POST", "queues/eve-requests/answer", first, eve) in (403, 404)
    client = sqs(node, root, "eve")
    url = client.get_queue_url(QueueName="eve-requests")["QueueUrl"]
    answers = {"longhall.answers": {"DataType": "String", "StringValue": second["receipt"]}}
    with pytest.raises(ClientError):
        client.send_message(QueueUrl=url, MessageBody="forged", MessageAttributes=answers)
    assert root.ask("GET", "queues/victim")["depth"]["available"] == 0
    assert root.ask("GET", "queues/eve-requests")["depth"]["in_flight"] == 2, "nothing is settled"
    allow(root, "user:eve", "write", "queue", "victim")
    ask_soon(root, "POST", "queues/eve-requests/answer", first, eve)
    eventually(lambda: root.ask("GET", "queues/victim")["depth"]["available"] == 1, "the answer")


def waiting(receive: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """A receive that waits in a thread, and what it returns or raises."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(receive())
        except ClientError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(1.0)  # Until it waits at the node.
    return thread, found


def test_a_receive_that_waits_ends_when_its_user_is_disabled_or_denied(secured: Secured) -> None:
    node, root = secured
    root.ask("POST", "queues", {"name": "slow"})
    allow(root, "user:waiter", "read", "queue", "slow")
    client, shown = sqs(node, root, "waiter"), basic("waiter")
    eventually(lambda: root.status("GET", "queues/slow", None, shown) == 200, "the permission of the waiter")
    url = client.get_queue_url(QueueName="slow")["QueueUrl"]
    receives: list[Callable[[], Any]] = [
        lambda: client.receive_message(QueueUrl=url, WaitTimeSeconds=10).get("Messages", []),
        lambda: root.status("POST", "queues/slow/receive", {"wait_ms": 10_000}, shown),
        lambda: root.status("POST", "receive", {"queues": {"slow": 1}, "wait_ms": 10_000}, shown),
    ]
    for receive in receives:
        for how in ("disabled", "denied"):
            thread, found = waiting(receive)
            if how == "disabled":
                root.ask("PATCH", "users/waiter", {"enabled": False})
            else:
                denial = allow(root, "user:waiter", "read", "queue", "slow", allow=False)
            thread.join(30)
            assert isinstance(found[0], ClientError) or found[0] in (403, 404), (how, found)
            if how == "disabled":
                root.ask("PATCH", "users/waiter", {"enabled": True})
            else:
                revoke(root, denial)
            eventually(lambda: root.status("GET", "queues/slow", None, shown) == 200, "the permission of the waiter")


def test_a_receive_that_waits_goes_on_when_other_rules_change(secured: Secured) -> None:
    _, root = secured
    root.ask("POST", "queues", {"name": "calm"})
    allow(root, "user:waiter", "read", "queue", "calm")
    eventually(lambda: root.status("GET", "queues/calm", None, basic("waiter")) == 200, "the permission of the waiter")
    thread, found = waiting(lambda: root.ask("POST", "queues/calm/receive", {"wait_ms": 20_000}, basic("waiter")))
    revoke(root, allow(root, "user:eve", "read", "queue", "calm"))
    root.ask("POST", "queues/calm/messages", messages("for the waiter"))
    thread.join(30)
    assert [one["body"] for one in found[0]["messages"]] == ["for the waiter"]
