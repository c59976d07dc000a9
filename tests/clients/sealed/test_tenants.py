"""A tenant whose queues and topics are sealed without further word, by every door that creates them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pika
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from soak.node import Node
from tests.clients.accounts import PASSWORD, Administrator
from tests.clients.sealed.conftest import found_in, write_keys
from tests.clients.sqs.conftest import REGION

SECRET = "what nobody may find in a file"


class Halls(NamedTuple):
    """A node, its administrator, and a user of the sealed tenant."""

    node: Node
    administrator: Administrator
    header: str

    def sealed(self, queue: str) -> str:
        return str(self.administrator.ask("GET", f"queues/{queue}")["settings"].get("sealed", ""))


@pytest.fixture(scope="module")
def halls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Halls]:
    home = tmp_path_factory.mktemp("tenants")
    with Node(home / "data", options=["--keys", str(write_keys(home))]) as node:
        administrator = Administrator(node.http)
        administrator.ask("POST", "tenants", {"name": "acme"})
        administrator.ask("PATCH", "tenants/acme", {"sealed": "house"})
        administrator.add_user("ann", tenant="acme")
        administrator.add_user("bob")
        token = administrator.ask("POST", "users/ann/tokens", {})["token"]
        yield Halls(node, administrator, f"Bearer {token}")


def kafka(halls: Halls, user: str = "ann") -> dict[str, Any]:
    return {
        "bootstrap.servers": halls.node.bootstrap,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }


def sealed_topic(halls: Halls, topic: str) -> str:
    admin = AdminClient(kafka(halls))
    (described,) = admin.describe_configs([ConfigResource("topic", topic)]).values()
    return str(described.result(10)["longhall.sealed"].value)


def test_queues_of_every_door_are_sealed(halls: Halls, tmp_path: Path) -> None:
    halls.administrator.ask("POST", "queues", {"name": "by-http"}, halls.header)
    assert halls.sealed("by-http") == "house"
    key = halls.administrator.ask("POST", "users/ann/access-keys", {})
    sqs = boto3.client(
        "sqs",
        endpoint_url=f"http://{halls.node.sqs}",
        region_name=REGION,
        aws_access_key_id=key["access_key"],
        aws_secret_access_key=key["secret"],
    )
    for _ in range(2):  # The second time it exists.
        url = sqs.create_queue(QueueName="by-sqs")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=SECRET)
    assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"][0]["Body"] == SECRET
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert shown["KmsMasterKeyId"] == "house"
    host, _, port = halls.node.amqp.partition(":")
    login = pika.PlainCredentials("ann", PASSWORD)
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port), credentials=login)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(2):
            channel.queue_declare("by-amqp", durable=True)
        channel.basic_publish("", "by-amqp", SECRET.encode())
        assert channel.basic_get("by-amqp", auto_ack=True)[2] == SECRET.encode()
    assert halls.sealed("by-amqp") == "house"
    assert not found_in(halls.node.data, SECRET.encode())


def test_topics_are_sealed_when_they_are_created_and_on_first_use(halls: Halls) -> None:
    admin = AdminClient(kafka(halls))
    topics = [NewTopic("created", 1), NewTopic("in-clear", 1, config={"longhall.sealed": ""})]
    for future in admin.create_topics(topics).values():
        future.result(10)
    producer = Producer(kafka(halls))
    producer.produce("on-first-use", SECRET.encode())
    assert producer.flush(20) == 0
    assert [sealed_topic(halls, name) for name in ("created", "on-first-use", "in-clear")] == ["house", "house", ""]
    assert not found_in(halls.node.data, SECRET.encode())
    (refused,) = admin.create_topics([NewTopic("table", 1, config={"cleanup.policy": "compact"})]).values()
    with pytest.raises(Exception, match="cannot be compacted"):
        refused.result(10)


def test_other_tenants_and_existing_queues_stay_as_they_are(halls: Halls) -> None:
    halls.administrator.ask("POST", "queues", {"name": "of-root"})
    assert halls.sealed("of-root") == ""
    admin = AdminClient(kafka(halls, "bob"))
    for future in admin.create_topics([NewTopic("of-bob", 1)]).values():
        future.result(10)
    assert sealed_topic(halls, "of-bob") == ""
    listed = {one["name"]: one["sealed"] for one in halls.administrator.ask("GET", "tenants")}
    assert listed == {"acme": "house", "default": ""}


def test_a_key_that_nobody_has_is_refused(halls: Halls) -> None:
    assert halls.administrator.status("PATCH", "tenants/acme", {"sealed": "no-such-key"}) == 403
    assert halls.administrator.status("PATCH", "tenants/acme", {}) == 400
    assert halls.administrator.status("PATCH", "tenants/nobody", {"sealed": "house"}) == 404
    assert halls.administrator.status("PATCH", "tenants/acme", {"sealed": ""}) == 200
    halls.administrator.ask("POST", "queues", {"name": "after-all"}, halls.header)
    assert halls.sealed("after-all") == ""
