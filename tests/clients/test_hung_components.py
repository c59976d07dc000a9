"""An identity provider, an HTTP key service and a key command that hang at once: each door refuses only what needs one
of them, goes on with everything else, and everything heals.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
import urllib.error
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pika
import pytest
import stomp
from botocore.config import Config
from confluent_kafka import KafkaException, Producer

from soak.node import Node
from tests.clients.accounts import ROOT, ROOT_PASSWORD, Administrator
from tests.clients.conftest import eventually
from tests.clients.serving import served
from tests.clients.test_identity_provider import Provider, bearer
from tests.front.keys.transit_server import TOKEN, TransitServer
from tests.front.oidc.issuer import AUDIENCE, SigningKey

HUNG = ("remote", "stopped")  # Queues, and the names of their keys.
HEALTHY = ("local", "clear")
ROUNDS = 3
COMMAND = """
import base64, json, os, pathlib, secrets, signal, sys
asked = json.load(sys.stdin)
home = pathlib.Path(sys.argv[1])
if (home / "stop").exists():
    (home / f"stopped-{os.getpid()}").touch()
    os.kill(os.getpid(), signal.SIGSTOP)
clear = secrets.token_bytes(32) if asked["action"] == "generate" else base64.b64decode(asked["ciphertext"])
text = base64.b64encode(clear).decode()
json.dump({"plaintext": text, "ciphertext": text}, sys.stdout)
"""
KEYS = """
[providers.disk]
kind = "file"
path = "{home}/masters"

[providers.command]
kind = "command"
command = ["{python}", "-c", '''{command}''', "{home}"]
timeout_ms = 2000

[providers.vault]
kind = "vault-transit"
endpoint = "{vault}"
token_file = "{home}/token"
timeout_ms = 500

[keys]
local = {{ provider = "disk" }}
stopped = {{ provider = "command" }}
remote = {{ provider = "vault", id = "orders" }}
"""


class House(NamedTuple):
    """A node, and what it depends on."""

    node: Node
    administrator: Administrator
    home: Path
    vault: TransitServer
    provider: Provider


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    provider = Provider()
    with TransitServer(["orders"]) as vault:
        texts = {"masters": f"local = {secrets.token_hex(32)}\n", "token": TOKEN}
        texts["keys.toml"] = KEYS.format(home=tmp_path, python=sys.executable, command=COMMAND, vault=vault.address)
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o600)
        settings = {"issuer": provider.issuer, "audience": AUDIENCE, "refresh_ms": "1s"}
        options = [word for name, value in settings.items() for word in ("--set", f"oidc.{name}={value}")]
        with served(tmp_path / "data", options=[*options, "--keys", str(tmp_path / "keys.toml")]) as node:
            administrator = Administrator(node.http)
            administrator.add_user("alice")
            for name in (*HUNG, *HEALTHY):
                sealed = {} if name == "clear" else {"sealed": name}
                administrator.ask("POST", "queues", {"name": name, "settings": sealed})
            try:
                yield House(node, administrator, tmp_path, vault, provider)
            finally:
                provider.goes_on.set()
                provider.shutdown()
                provider.server_close()


# One message, by each door, with a log-in of its own. Refused is what raises.


def send_by_http(house: House, queue: str) -> None:
    sent = house.administrator.ask("POST", f"queues/{queue}/messages", {"messages": [{"body": "by http"}]})
    if "message_id" not in sent["messages"][0]:
        raise ConnectionError(str(sent))


def is_sent_by_http(house: House, queue: str) -> bool:
    with contextlib.suppress(urllib.error.HTTPError, ConnectionError):
        send_by_http(house, queue)
        return True
    return False


def send_by_sqs(house: House, queue: str) -> None:
    key = house.administrator.ask("POST", f"users/{ROOT}/access-keys", {})
    client = boto3.client(
        "sqs",
        endpoint_url=f"http://{house.node.sqs}",
        region_name="us-east-1",
        aws_access_key_id=key["access_key"],
        aws_secret_access_key=key["secret"],
        config=Config(retries={"total_max_attempts": 1}),
    )
    try:
        client.send_message(QueueUrl=f"http://{house.node.sqs}/000000000000/{queue}", MessageBody="by sqs")
    finally:
        house.administrator.ask("DELETE", f"access-keys/{key['access_key']}")


def send_by_amqp(house: House, queue: str) -> None:
    host, port = house.node.amqp.rsplit(":", 1)
    login = pika.PlainCredentials(ROOT, ROOT_PASSWORD)
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port), credentials=login)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"by amqp")


class _Receipt(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.answers: list[str] = []
        self.told = threading.Event()

    def on_receipt(self, frame: Any) -> None:
        self.answers.append("RECEIPT")
        self.told.set()

    def on_error(self, frame: Any) -> None:
        self.answers.append("ERROR")
        self.told.set()


def send_by_stomp(house: House, queue: str) -> None:
    host, port = house.node.stomp.rsplit(":", 1)
    connection, listener = stomp.Connection12([(host, int(port))], reconnect_attempts_max=1), _Receipt()
    connection.set_listener("", listener)
    connection.connect(ROOT, ROOT_PASSWORD, wait=True)
    try:
        connection.send(f"/amq/queue/{queue}", "by stomp", headers={"receipt": "one"})
        assert listener.told.wait(60)
    finally:
        connection.disconnect()
    if listener.answers[0] != "RECEIPT":
        raise ConnectionError("refused")


def send_by_kafka(house: House, queue: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": house.node.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ROOT,
            "sasl.password": ROOT_PASSWORD,
            "message.timeout.ms": 3_000 if queue in HUNG else 60_000,
            "log_level": 0,
        }
    )
    told: list[Any] = []
    producer.produce(queue, b"by kafka", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(90) == 0
    if told[0] is not None:
        raise KafkaException(told[0])


DOORS: dict[str, Callable[[House, str], None]] = {
    "http": send_by_http,
    "sqs": send_by_sqs,
    "amqp": send_by_amqp,
    "stomp": send_by_stomp,
    "kafka": send_by_kafka,
}


def bodies(house: House, queue: str) -> list[str]:
    """Receive and settle everything of a queue."""
    found: list[str] = []
    asked = {"count": 10, "wait_ms": 0}
    while received := house.administrator.ask("POST", f"queues/{queue}/receive", asked)["messages"]:
        found += [message["body"] for message in received]
        receipts = [message["receipt"] for message in received]
        house.administrator.ask("POST", f"queues/{queue}/settle", {"receipts": receipts})
    return sorted(found)


def test_what_hangs_costs_only_what_needs_it_at_every_door_and_heals(house: House) -> None:
    administrator, provider = house.administrator, house.provider
    known = provider.token("alice")
    eventually(lambda: administrator.status("GET", "queues", header=bearer(known)) == 200, "a known key")
    house.vault.hangs.set()
    (house.home / "stop").touch()
    provider.goes_on.clear()
    provider.keys.append(SigningKey("ES256", "new"))
    new = provider.token("alice")
    is_over = threading.Event()
    accepted: list[str] = []

    def press(door: str, queue: str) -> None:
        while not is_over.is_set():
            with contextlib.suppress(Exception):
                DOORS[door](house, queue)
                accepted.append(f"{door} to {queue}")

    pressers = [threading.Thread(target=press, args=(door, queue)) for door in DOORS for queue in HUNG]
    for presser in pressers:
        presser.start()
    try:
        for _ in range(ROUNDS):
            for door, send in DOORS.items():
                for queue in HEALTHY:
                    send(house, queue)
                assert administrator.status("GET", "queues", header=bearer(known)) == 200, door
                assert administrator.status("GET", "queues", header=bearer(new)) in (401, 503), door
    finally:
        is_over.set()
        for presser in pressers:
            presser.join()
    assert accepted == [], "nothing is sealed without its key"
    expected = sorted(f"by {door}" for door in DOORS for _ in range(ROUNDS))
    assert {queue: bodies(house, queue) for queue in HEALTHY} == dict.fromkeys(HEALTHY, expected)
    stopped = [mark.name.removeprefix("stopped-") for mark in house.home.glob("stopped-*")]
    assert stopped
    eventually(lambda: not any(os.path.exists(f"/proc/{one}") for one in stopped), "hung commands are killed")

    (house.home / "stop").unlink()
    house.vault.hangs.clear()
    provider.goes_on.set()
    for queue in HUNG:
        eventually(partial(is_sent_by_http, house, queue), "the keys are back")
        for send in DOORS.values():
            send(house, queue)
        assert bodies(house, queue) == sorted([*(f"by {door}" for door in DOORS), "by http"])
    eventually(lambda: administrator.status("GET", "queues", header=bearer(new)) == 200, "the provider is back")
