"""Users of the directory at every door but Kafka's, with unmodified clients: in, refused, rotated, disabled."""

from __future__ import annotations

import threading
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pika
import pytest
import stomp
from botocore.config import Config
from botocore.exceptions import ClientError
from confluent_kafka.admin import AdminClient

from longhall.front.failed_logins import FREE_FAILURES_OF_ADDRESS
from soak.node import Node
from tests.clients.accounts import PASSWORD, ROOT_PASSWORD, Administrator
from tests.clients.conftest import eventually
from tests.clients.serving import Served, served

Secured = tuple[Node, Administrator]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with served(tmp_path_factory.mktemp("logins") / "data") as node:
        yield node, Administrator(node.http)


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def sqs(node: Node, access_key: str, secret: str) -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=f"http://{node.sqs}",
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}),
    )


def amqp(node: Node, user: str, password: str) -> pika.BlockingConnection:
    host, _, port = node.amqp.rpartition(":")
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(pika.ConnectionParameters(host, int(port), credentials=credentials))


class Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """What a STOMP client hears."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.gone = threading.Event()

    def on_error(self, frame: Any) -> None:
        self.errors.append(frame.headers["message"])

    def on_disconnected(self) -> None:
        self.gone.set()


def stomp_login(node: Node, user: str, password: str) -> tuple[stomp.Connection12, Listener]:
    host, _, port = node.stomp.rpartition(":")
    connection, listener = stomp.Connection12([(host, int(port))], reconnect_attempts_max=1), Listener()
    connection.set_listener("", listener)
    connection.connect(user, password, wait=True)
    return connection, listener


def test_http_takes_passwords_and_tokens(secured: Secured) -> None:
    _, administrator = secured
    administrator.add_user("web")
    assert administrator.status("GET", "queues", header="") == 401
    assert administrator.status("GET", "queues", header=basic("web", "wrong password")) == 401
    assert administrator.status("GET", "queues", header=basic("nobody", PASSWORD)) == 401
    assert administrator.status("GET", "queues", header=basic("web", PASSWORD)) == 200
    made = administrator.ask("POST", "users/web/tokens", {"label": "ci"})
    bearer = f"Bearer {made['token']}"
    assert administrator.status("GET", "queues", header=bearer) == 200
    assert administrator.status("GET", "queues", header=basic("web", made["token"])) == 200
    (row,) = [user for user in administrator.ask("GET", "users") if user["name"] == "web"]
    assert [token["label"] for token in row["tokens"]] == ["ci"]
    assert made["token"] not in str(row)
    administrator.ask("PATCH", "users/web", {"enabled": False})
    assert administrator.status("GET", "queues", header=bearer) == 401
    administrator.ask("PATCH", "users/web", {"enabled": True})
    administrator.ask("DELETE", f"tokens/{made['token_id']}")
    assert administrator.status("GET", "queues", header=bearer) == 401
    for body in ({"name": "x", "pass": "y"}, {"name": "x", "password": "short"}, {"name": "a:b"}):
        assert administrator.status("POST", "users", body) == 400
    assert administrator.status("POST", "users", {"name": "web", "password": PASSWORD}) == 409
    assert administrator.status("DELETE", "users/nobody") == 404


def test_sqs_requests_are_signed_by_users(secured: Secured) -> None:
    node, administrator = secured
    administrator.add_user("signer")
    first = administrator.ask("POST", "users/signer/access-keys", {})
    client = sqs(node, first["access_key"], first["secret"])
    url = client.create_queue(QueueName="signed")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody="hello")
    (message,) = client.receive_message(QueueUrl=url, AttributeNames=["All"])["Messages"]
    assert message["Attributes"]["SenderId"] == "signer"
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        sqs(node, first["access_key"], "wrong").list_queues()
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        sqs(node, "NOBODY", "wrong").list_queues()
    second = administrator.ask("POST", "users/signer/access-keys", {"overlap_ms": 3_600_000})
    for key in (first, second):  # Both are valid for the overlap.
        assert "QueueUrls" in sqs(node, key["access_key"], key["secret"]).list_queues()
    administrator.ask("DELETE", f"access-keys/{first['access_key']}")
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        client.list_queues()
    administrator.ask("PATCH", "users/signer", {"enabled": False})
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        sqs(node, second["access_key"], second["secret"]).list_queues()


def test_amqp_logins_end_with_their_user(secured: Secured) -> None:
    node, administrator = secured
    administrator.add_user("rabbit")
    for user, password in (("rabbit", "wrong password"), ("guest", "guest")):
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            amqp(node, user, password)
    connection = amqp(node, "rabbit", PASSWORD)
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"hello")
    assert channel.basic_get("q", auto_ack=True)[2] == b"hello"
    administrator.rotate("rabbit", "a second password", overlap_ms=0)
    connection.process_data_events(0)  # Who is logged in stays so.
    amqp(node, "rabbit", "a second password").close()
    administrator.ask("PATCH", "users/rabbit", {"enabled": False})
    with pytest.raises(pika.exceptions.AMQPConnectionError, match="credentials have changed"):
        connection.process_data_events(10)
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        amqp(node, "rabbit", "a second password")


def test_stomp_logins_end_with_their_user(secured: Secured) -> None:
    node, administrator = secured
    administrator.add_user("stomper")
    with pytest.raises(stomp.exception.ConnectFailedException):
        stomp_login(node, "stomper", "wrong password")
    connection, listener = stomp_login(node, "stomper", PASSWORD)
    connection.send("/queue/stomped", "hello", receipt="1")
    administrator.ask("PATCH", "users/stomper", {"enabled": False})
    assert listener.gone.wait(10)
    assert listener.errors == ["Access refused"]
    with pytest.raises(stomp.exception.ConnectFailedException):
        stomp_login(node, "stomper", PASSWORD)


def test_the_first_user_ends_anonymous_connections(tmp_path: Path) -> None:
    with Served(tmp_path / "data", workers=2) as node:
        before = amqp(node, "guest", "guest")
        kafka = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        assert kafka.list_topics(timeout=10)
        administrator = Administrator(node.http)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            before.process_data_events(10)
        administrator.add_user("alice")  # At any worker, and known to both.
        settings = {
            "bootstrap.servers": node.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
        }
        eventually(lambda: bool(AdminClient(settings).list_topics(timeout=10)), "a worker without data knows alice")
        eventually(
            lambda: all(administrator.status("GET", "queues", header="") == 401 for _ in range(8)),
            "both workers ask for a login",
        )
        assert all(administrator.status("GET", "queues", header=basic("alice", PASSWORD)) == 200 for _ in range(8))


def test_users_are_there_after_a_crash(tmp_path: Path) -> None:
    node = Served(tmp_path / "data", workers=1)
    with node:
        Administrator(node.http).add_user("alice")
        node.kill()
        node.start()
        administrator = Administrator(node.http)
        assert administrator.status("GET", "queues", header="") == 401
        assert administrator.status("GET", "queues", header=basic("alice", PASSWORD)) == 200
        data = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
        assert PASSWORD.encode() not in data
        assert ROOT_PASSWORD.encode() not in data + node.log_file.read_bytes()


def test_wrong_signatures_are_counted_and_shut_no_right_one_out(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:  # One process counts.
        administrator = Administrator(node.http)
        administrator.add_user("signer")
        key = administrator.ask("POST", "users/signer/access-keys", {})
        guessing, right = sqs(node, key["access_key"], "wrong"), sqs(node, key["access_key"], key["secret"])
        for _ in range(FREE_FAILURES_OF_ADDRESS + 20):
            with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
                guessing.list_queues()
        assert "QueueUrls" not in right.list_queues()
        with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=30) as response:
            lines = response.read().decode().splitlines()
        counts = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in lines if "logins_total{" in line}
        refused = counts['longhall_logins_total{door="sqs",outcome="refused"}']
        shut_out = counts['longhall_logins_total{door="sqs",outcome="shut-out"}']
        assert refused >= FREE_FAILURES_OF_ADDRESS
        assert shut_out > 0
        assert refused + shut_out == FREE_FAILURES_OF_ADDRESS + 20
