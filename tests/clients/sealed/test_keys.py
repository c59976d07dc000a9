"""Data keys with real clients: rotation under load, destroyed keys, crashes, a key service that hangs, dead letters."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from soak.node import COMMAND, Node
from tests.clients.sealed.conftest import found_in, sqs_at, write_keys
from tests.clients.sealed.test_doors import consume, http, produce, receive
from tests.front.keys.transit_server import TOKEN, TransitServer

SEALED = {"KmsMasterKeyId": "alias/orders"}


def keys(node: Node, *words: str) -> dict[str, Any]:
    ended = subprocess.run(
        [*COMMAND, "keys", *words, "--http", node.http, "-o", "json"], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_rotation_under_load_and_the_end_of_a_key(sealed_node: Node, sqs: Any) -> None:
    secret = secrets.token_hex(24)
    url = sqs.create_queue(QueueName="rotated", Attributes=SEALED)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=f"first {secret}")
    sent = [f"first {secret}"]
    over = threading.Event()

    def send() -> None:
        client = sqs_at(sealed_node)
        while not over.is_set():
            sent.append(f"{len(sent)} {secret}")
            client.send_message(QueueUrl=url, MessageBody=sent[-1])

    thread = threading.Thread(target=send)
    thread.start()
    numbers = []
    for _ in range(5):
        numbers.append(http(sealed_node, "POST", "/api/v1/keys/rotated/rotate")["keys"][-1]["number"])
        time.sleep(0.1)
    over.set()
    thread.join()
    assert numbers == [2, 3, 4, 5, 6]
    sqs.send_message(QueueUrl=url, MessageBody=f"last {secret}")
    sent.append(f"last {secret}")
    assert sorted(value.decode() for value in consume(sealed_node, "rotated", len(sent))) == sorted(sent)
    assert found_in(sealed_node.data, secret.encode()) == []
    shown = http(sealed_node, "GET", "/api/v1/keys/rotated")
    assert [key["seals"] for key in shown["keys"]] == [False] * 5 + [True]
    for number in range(1, 6):
        keys(sealed_node, "destroy", "rotated", str(number), "--yes")
    time.sleep(1.1)  # Front ends notice a destroyed key within a second.
    with pytest.raises(ClientError, match="destroyed"):
        sqs.receive_message(QueueUrl=url)
    with pytest.raises(subprocess.SubprocessError):
        subprocess.run([*COMMAND, "keys", "destroy", "rotated", "6", "--yes", "--http", sealed_node.http], check=True)
    assert keys(sealed_node, "rotate", "rotated")["keys"][-1]["number"] == 7


def test_a_crash_leaves_ciphertext_and_loses_nothing(tmp_path: Path) -> None:
    secret = secrets.token_hex(24)
    with Node(tmp_path / "data", options=["--keys", str(write_keys(tmp_path))]) as node:
        sqs = sqs_at(node)
        url = sqs.create_queue(QueueName="q", Attributes={**SEALED, "DelaySeconds": "1"})["QueueUrl"]
        bodies = [f"{number} {secret}" for number in range(20)]
        for body in bodies:
            sqs.send_message(QueueUrl=url, MessageBody=body)
        node.kill()
        assert found_in(tmp_path, secret.encode()) == []
        node.start()
        url = f"http://{node.sqs}/000000000000/q"
        assert sorted(receive(sqs_at(node), url, 20)) == sorted(bodies)
        node.stop()
        assert found_in(tmp_path, secret.encode()) == []


def test_without_its_key_nothing_is_taken_or_given(tmp_path: Path) -> None:
    with Node(tmp_path / "data", options=["--keys", str(write_keys(tmp_path))]) as node:
        sqs = sqs_at(node)
        url = sqs.create_queue(QueueName="q", Attributes=SEALED)["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="sealed")
        node.stop()
        node.options = []
        node.start()
        sqs, url = sqs_at(node), f"http://{node.sqs}/000000000000/q"
        for ask in (
            lambda: sqs.send_message(QueueUrl=url, MessageBody="in clear"),
            lambda: sqs.receive_message(QueueUrl=url),
        ):
            with pytest.raises(ClientError, match="no master keys") as caught:
                ask()
            assert caught.value.response["Error"]["Code"] == "KMS.NotFoundException"
        with pytest.raises(AssertionError, match="authori"):
            produce(node, "q", b"in clear")
        assert found_in(node.data, b"in clear") == []


def test_a_queue_may_name_a_key_that_is_missing_but_takes_no_message_without_it(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:
        sqs = sqs_at(node)
        url = sqs.create_queue(QueueName="q", Attributes=SEALED)["QueueUrl"]
        assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["KmsMasterKeyId"])["Attributes"] == SEALED
        with pytest.raises(ClientError, match="no master keys") as caught:
            sqs.send_message(QueueUrl=url, MessageBody="in clear")
        assert caught.value.response["Error"]["Code"] == "KMS.NotFoundException"
        assert found_in(node.data, b"in clear") == []
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"SqsManagedSseEnabled": "true"})
        with pytest.raises(ClientError, match="no master keys"):
            sqs.send_message(QueueUrl=url, MessageBody="in clear")
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": "alias/other"})
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": ""})
        sqs.send_message(QueueUrl=url, MessageBody="in clear")
        sqs.set_queue_attributes(QueueUrl=url, Attributes=SEALED)
        node.stop()
        node.options = ["--keys", str(write_keys(tmp_path))]
        node.start()
        url = f"http://{node.sqs}/000000000000/q"
        sqs_at(node).send_message(QueueUrl=url, MessageBody="sealed")
        assert sorted(receive(sqs_at(node), url, 2)) == ["in clear", "sealed"]


@pytest.fixture
def transit(tmp_path: Path) -> Iterator[tuple[Node, TransitServer]]:
    """A node whose keys are in two services: one of them can hang."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    with TransitServer(["orders"]) as server:
        write_keys(tmp_path)
        with (tmp_path / "keys.toml").open("a") as file:
            file.write('"remote" = { provider = "vault", id = "orders" }\n')
            file.write(f'[providers.vault]\nkind = "vault-transit"\nendpoint = "{server.address}"\n')
            file.write(f'token_file = "{tmp_path / "token"}"\ntimeout_ms = 300\n')
        with Node(tmp_path / "data", options=["--keys", str(tmp_path / "keys.toml")]) as node:
            yield node, server


def test_a_key_service_that_hangs_costs_only_what_needs_it(transit: tuple[Node, TransitServer]) -> None:
    node, server = transit
    sqs = sqs_at(node)
    server.hangs.set()
    remote = sqs.create_queue(QueueName="remote", Attributes={"KmsMasterKeyId": "remote"})["QueueUrl"]
    local = sqs.create_queue(QueueName="local", Attributes=SEALED)["QueueUrl"]
    clear = sqs.create_queue(QueueName="clear")["QueueUrl"]
    over = threading.Event()

    def press() -> None:
        client = sqs_at(node)
        while not over.is_set():
            with pytest.raises(ClientError, match="answer"):
                client.send_message(QueueUrl=remote, MessageBody="x")

    threads = [threading.Thread(target=press) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(20):
        sqs.send_message(QueueUrl=local, MessageBody=str(number))
        sqs.send_message(QueueUrl=clear, MessageBody=str(number))
    assert len(receive(sqs, local, 20)) == len(receive(sqs, clear, 20)) == 20
    over.set()
    for thread in threads:
        thread.join()
    server.hangs.clear()
    for _ in range(60):
        with contextlib.suppress(sqs.exceptions.KmsThrottled):
            sqs.send_message(QueueUrl=remote, MessageBody="healed")
            break
        time.sleep(0.5)
    assert receive(sqs, remote) == ["healed"]


def test_dead_letters_stay_sealed_and_come_back(sealed_node: Node, sqs: Any) -> None:
    secret = secrets.token_hex(24)
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": 1})
    url = sqs.create_queue(QueueName="dying", Attributes={**SEALED, "RedrivePolicy": policy, "VisibilityTimeout": "0"})
    url = url["QueueUrl"]
    sent = sqs.send_message(QueueUrl=url, MessageBody=f"mortal {secret}")["MessageId"]
    assert sqs.receive_message(QueueUrl=url)["Messages"]
    found: list[Any] = []
    for _ in range(20):
        sqs.receive_message(QueueUrl=url)
        found = sqs.receive_message(QueueUrl=dead, VisibilityTimeout=0, WaitTimeSeconds=1).get("Messages", [])
        if found:
            break
    assert [message["Body"] for message in found] == [f"mortal {secret}"]
    assert http(sealed_node, "GET", "/api/v1/queues/dead/letters")["letters"][0]["body"] == f"mortal {secret}"
    edited = http(sealed_node, "PATCH", f"/api/v1/queues/dead/letters/{sent}", {"body": f"edited {secret}"})
    assert edited["body"] == f"edited {secret}"
    sqs.start_message_move_task(SourceArn="arn:aws:sqs:us-east-1:000000000000:dead")
    messages: list[Any] = []
    for _ in range(20):
        messages = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1).get("Messages", [])
        if messages:
            break
    assert [(message["MessageId"], message["Body"]) for message in messages] == [(sent, f"edited {secret}")]
    assert found_in(sealed_node.data, secret.encode()) == []


def test_content_is_compared_without_showing_it(sealed_node: Node, sqs: Any) -> None:
    body = secrets.token_hex(24)
    attributes = {**SEALED, "FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName="content.fifo", Attributes=attributes)["QueueUrl"]
    first = sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")["MessageId"]
    http(sealed_node, "POST", "/api/v1/keys/content.fifo/rotate")
    assert sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")["MessageId"] == first
    assert receive(sqs, url, 2) == [body]
    import hashlib

    assert found_in(sealed_node.data, body.encode(), hashlib.sha256(body.encode()).hexdigest().encode()) == []


def test_what_needs_clear_text_is_refused_with_the_reason(sealed_node: Node, sqs: Any) -> None:
    sqs.create_queue(QueueName="strict", Attributes=SEALED)
    for method, path, body in (
        ("POST", "/api/v1/queues/strict/search", {"text": "x"}),
        ("POST", "/api/v1/queues/strict/uploads", {}),
        ("PATCH", "/api/v1/queues/strict", {"settings": {"whole_bytes_max": 100_000_000}}),
    ):
        with pytest.raises(Exception, match=r"409|400") as caught:
            http(sealed_node, method, path, body)
        assert "ealed" in json.loads(caught.value.read())["message"]
