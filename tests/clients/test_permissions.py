"""Clients of every door are allowed, refused in their own dialect, and refused when rules change under them."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import boto3
import pika
import pytest
import stomp
from botocore.config import Config
from botocore.exceptions import ClientError
from confluent_kafka import Consumer, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import ACLFilter, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePatternFilter
from kafka.admin import ResourceType as KafkaPythonResource
from kafka.errors import ClusterAuthorizationFailedError, TopicAuthorizationFailedError

from soak.node import Node
from tests.clients.accounts import PASSWORD, ROOT, ROOT_PASSWORD, Administrator
from tests.clients.conftest import eventually
from tests.clients.serving import served
from tests.clients.stomp.conftest import Client as StompClient
from tests.clients.test_kafka_logins import admin_of, create, produced, producer_of, sasl

_kept: list[Any] = []


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Administrator]]:
    with served(tmp_path_factory.mktemp("permissions") / "data") as node:
        yield node, Administrator(node.http)


def allow(root: Administrator, subject: str, action: str, kind: str, name: str, **fields: Any) -> str:
    rule = {"subject": subject, "action": action, "kind": kind, "name": name, **fields}
    return str(root.ask("POST", "access/rules", {"rules": [rule]})["ids"][0])


def revoke(root: Administrator, rule_id: str) -> None:
    root.ask("DELETE", f"access/rules/{rule_id}")


def as_root(node: Node) -> dict[str, Any]:
    return sasl(node, ROOT, ROOT_PASSWORD)


def basic(user: str, password: str = PASSWORD) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


# Kafka

EVERY_ACL = ACLFilter(
    principal=None,
    host=None,
    operation=ACLOperation.ANY,
    permission_type=ACLPermissionType.ANY,
    resource_pattern=ResourcePatternFilter(KafkaPythonResource.ANY, None, ACLResourcePatternType.ANY),
)


def python_admin(node: Node, user: str) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=node.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username=user,
        sasl_plain_password=PASSWORD,
    )


def test_a_kafka_producer_writes_where_it_may_until_it_may_not(secured: tuple[Node, Administrator]) -> None:
    node, root = secured
    create(admin_of(as_root(node)), "kp-mine")
    create(admin_of(as_root(node)), "kp-other")
    root.add_user("kp", administrator=False)
    rule = allow(root, "user:kp", "write", "topic", "kp-mine")
    producer = producer_of({**sasl(node, "kp"), "enable.idempotence": True})
    assert produced(producer, "kp-mine", b"1")
    seen = admin_of(sasl(node, "kp")).list_topics(timeout=10).topics
    assert set(seen) == {"kp-mine"}, "names that one may not see do not exist for one"
    errors: list[Any] = []
    plain = producer_of(sasl(node, "kp"))
    plain.produce("kp-other", b"x", on_delivery=lambda error, _: errors.append(error))
    plain.flush(10)
    assert errors[0].name() == "TOPIC_AUTHORIZATION_FAILED"
    revoke(root, rule)
    errors.clear()
    plain = producer_of({**sasl(node, "kp"), "message.timeout.ms": 5000})
    plain.produce("kp-mine", b"2", on_delivery=lambda error, _: errors.append(error))
    plain.flush(10)
    assert errors[0] is not None
    assert not produced(producer, "kp-mine", b"3"), "an open connection is refused too"


def test_a_kafka_consumer_needs_its_group_and_its_topic(secured: tuple[Node, Administrator]) -> None:
    node, root = secured
    create(admin_of(as_root(node)), "kc")
    assert produced(producer_of(as_root(node)), "kc", b"1")
    root.add_user("kc", administrator=False)
    settings = {**sasl(node, "kc"), "group.id": "kc-group", "auto.offset.reset": "earliest"}

    def error_of() -> str:
        consumer = Consumer(settings)
        _kept.append(consumer)
        consumer.subscribe(["kc"])
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None:
                consumer.close()
                return str(message.error().name()) if message.error() else "none"
        consumer.close()
        return "nothing"

    topic = allow(root, "user:kc", "read", "topic", "kc")
    assert error_of() == "GROUP_AUTHORIZATION_FAILED"
    group = allow(root, "user:kc", "read", "group", "kc-", pattern="prefix")
    assert error_of() == "none"
    consumer = Consumer({**settings, "group.id": "kc-2"})
    _kept.append(consumer)
    consumer.subscribe(["kc"])
    eventually(lambda: (consumer.poll(0.2) or consumer).__class__.__name__ == "Message", "the first message")
    revoke(root, topic)
    assert produced(producer_of(as_root(node)), "kc", b"2")
    found: list[str] = []
    deadline = time.monotonic() + 20
    while not found and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            found.append(str(message.error().name()) if message.error() else message.value().decode())
    consumer.close()
    assert found == ["TOPIC_AUTHORIZATION_FAILED"], "a session of fetches is refused when the rule is gone"
    revoke(root, group)


def test_kafkas_own_administration_of_acls(secured: tuple[Node, Administrator]) -> None:
    node, root = secured
    admin = admin_of(as_root(node))
    create(admin, "acl-t")
    root.add_user("aclu", administrator=False)
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            "acl-",
            ResourcePatternType.PREFIXED,
            "User:aclu",
            "*",
            AclOperation.WRITE,
            AclPermissionType.ALLOW,
        ),
        AclBinding(
            ResourceType.GROUP,
            "g",
            ResourcePatternType.LITERAL,
            "User:*",
            "127.0.0.1",
            AclOperation.READ,
            AclPermissionType.DENY,
        ),
    ]
    for future in admin.create_acls(bindings).values():
        future.result(10)
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    listed = admin.describe_acls(everything).result(10)
    assert set(bindings) <= set(listed)
    matching = AclBindingFilter(
        ResourceType.TOPIC,
        "acl-t",
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert admin.describe_acls(matching).result(10) == [bindings[0]]
    assert produced(producer_of(sasl(node, "aclu")), "acl-t", b"1")
    refused = admin_of(sasl(node, "aclu"))
    assert refused.describe_acls(everything).result(10) == [], "librdkafka does not look at the error"
    python = python_admin(node, "aclu")
    try:
        with pytest.raises(ClusterAuthorizationFailedError):
            python.describe_acls(EVERY_ACL)
    finally:
        python.close()
    for future in refused.create_acls(bindings[:1]).values():
        with pytest.raises(KafkaException):
            future.result(10)
    (deleted,) = admin.delete_acls([matching]).values()
    assert deleted.result(10) == [bindings[0]]
    assert not produced(producer_of({**sasl(node, "aclu"), "message.timeout.ms": 4000}), "acl-t", b"2")
    wrong = AclBinding(
        ResourceType.BROKER,
        "other",
        ResourcePatternType.LITERAL,
        "User:x",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    (future,) = admin.create_acls([wrong]).values()
    with pytest.raises(KafkaException, match="cluster"):
        future.result(10)


def test_kafka_administrators_of_less_get_a_part_of_what_they_ask(secured: tuple[Node, Administrator]) -> None:
    node, root = secured
    admin = admin_of(as_root(node))
    create(admin, "part-a")
    create(admin, "part-b")
    root.add_user("part", administrator=False)
    allow(root, "user:part", "create", "topic", "part-new")
    allow(root, "user:part", "alter-configs", "topic", "part-a")
    allow(root, "user:part", "delete", "topic", "part-a")
    mine = admin_of(sasl(node, "part"))
    made = mine.create_topics([NewTopic("part-new", 1), NewTopic("part-not", 1)])
    made["part-new"].result(10)
    with pytest.raises(KafkaException) as refused:
        made["part-not"].result(10)
    assert refused.value.args[0].name() == "TOPIC_AUTHORIZATION_FAILED"
    described = mine.describe_topics(TopicCollection(["part-a"]), include_authorized_operations=True)
    operations = {operation.name for operation in described["part-a"].result(10).authorized_operations}
    assert operations == {"DELETE", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS"}
    gone = mine.delete_topics(["part-a", "part-b"])
    gone["part-a"].result(10)
    with pytest.raises(KafkaException):
        gone["part-b"].result(10)
    assert "part-b" in admin.list_topics(timeout=10).topics
    python = python_admin(node, "part")
    try:
        assert python.list_groups() == []
        with pytest.raises(TopicAuthorizationFailedError):
            python.delete_topics(["part-b"])
    finally:
        python.close()


# SQS


def sqs_of(node: Node, root: Administrator, user: str) -> Any:
    key = root.ask("POST", f"users/{user}/access-keys", {})
    return boto3.client(
        "sqs",
        endpoint_url=f"http://{node.sqs}",
        region_name="us-east-1",
        aws_access_key_id=key["access_key"],
        aws_secret_access_key=key["secret"],
        config=Config(retries={"max_attempts": 1}),
    )


def sqs_error(work: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        work()
    return refused.value.response["Error"]["Code"], refused.value.response["Error"]["Message"]


def test_sqs_denies_as_aws_does(secured: tuple[Node, Administrator]) -> None:
    node, root = secured
    root.add_user("sender", administrator=False)
    root.ask("PUT", "access/roles/sender", {"roles": []})
    boss = sqs_of(node, root, ROOT)
    url = boss.create_queue(QueueName="sqs-orders")["QueueUrl"]
    boss.create_queue(QueueName="sqs-hidden")
    sender = sqs_of(node, root, "sender")
    rule = allow(root, "user:sender", "write", "queue", "sqs-orders")
    sender.send_message(QueueUrl=url, MessageBody="1")
    code, message = sqs_error(lambda: sender.receive_message(QueueUrl=url))
    assert code == "AccessDenied"
    assert "user/sender is not authorized to perform: sqs:receivemessage on resource: arn:aws:sqs:" in message
    batch = [{"Id": "a", "ReceiptHandle": "x"}]
    assert sqs_error(lambda: sender.delete_message_batch(QueueUrl=url, Entries=batch))[0] == "AccessDenied"
    hidden = url.replace("sqs-orders", "sqs-hidden")
    nowhere = url.replace("sqs-orders", "sqs-nowhere")
    unknown = "AWS.SimpleQueueService.NonExistentQueue"
    assert sqs_error(lambda: sender.send_message(QueueUrl=hidden, MessageBody="1"))[0] == unknown
    assert sqs_error(lambda: sender.send_message(QueueUrl=nowhere, MessageBody="1"))[0] == unknown
    assert sqs_error(lambda: sender.get_queue_url(QueueName="sqs-hidden"))[0] == unknown
    assert sender.list_queues()["QueueUrls"] == [url]
    assert sqs_error(lambda: sender.create_queue(QueueName="sqs-new"))[0] == "AccessDenied"
    revoke(root, rule)
    assert sqs_error(lambda: sender.send_message(QueueUrl=url, MessageBody="2"))[0] == unknown
    assert boss.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "1"


def test_the_policy_of_a_queue_holds_at_every_door(secured: tuple[Node, Administrator]) -> None:
    node, root = secured
    root.add_user("guest-sender", administrator=False)
    boss = sqs_of(node, root, ROOT)
    url = boss.create_queue(QueueName="sqs-policy")["QueueUrl"]
    arn = boss.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sender = sqs_of(node, root, "guest-sender")
    assert sqs_error(lambda: sender.send_message(QueueUrl=url, MessageBody="1"))[0].endswith("NonExistentQueue")
    boss.add_permission(QueueUrl=url, Label="all", AWSAccountIds=["000000000000"], Actions=["SendMessage"])
    sender.send_message_batch(QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "1"}])
    assert sqs_error(lambda: sender.receive_message(QueueUrl=url))[0] == "AccessDenied"
    message = {"messages": [{"body": "2"}]}
    assert root.status("POST", "queues/sqs-policy/messages", message, basic("guest-sender")) == 200
    boss.remove_permission(QueueUrl=url, Label="all")
    assert sqs_error(lambda: sender.send_message(QueueUrl=url, MessageBody="3"))[0].endswith("NonExistentQueue")
    allow(root, "user:guest-sender", "write", "queue", "sqs-policy")
    sender.send_message(QueueUrl=url, MessageBody="4")
    deny = {
        "Effect": "Deny",
        "Principal": {"AWS": "arn:aws:iam::000000000000:user/guest-sender"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}, "IpAddress": {"aws:SourceIp": "127.0.0.0/8"}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [deny]})
    boss.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    assert sqs_error(lambda: sender.send_message(QueueUrl=url, MessageBody="5"))[0] == "AccessDenied"
    assert root.status("POST", "queues/sqs-policy/messages", message, basic("guest-sender")) == 403
    errors: list[Any] = []
    producer = producer_of(sasl(node, "guest-sender"))
    producer.produce("sqs-policy", b"6", on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    assert errors[0].name() == "TOPIC_AUTHORIZATION_FAILED"
    boss.send_message(QueueUrl=url, MessageBody="administrators are not denied")


# AMQP


def managed(node: Node, method: str, path: str, body: object = None, user: str = ROOT) -> tuple[int, Any]:
    """A request to the management API: its status and its JSON."""
    request = urllib.request.Request(
        f"http://{node.management}/api/{path}",
        data=None if body is None else json.dumps(body).encode(),
        method=method,
        headers={"Authorization": basic(user, ROOT_PASSWORD if user == ROOT else PASSWORD)},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.loads(response.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def amqp_of(node: Node, user: str, host: str = "/") -> pika.BlockingConnection:
    address, _, port = node.amqp.rpartition(":")
    credentials = pika.PlainCredentials(user, PASSWORD)
    connection = pika.BlockingConnection(pika.ConnectionParameters(address, int(port), host, credentials))
    _kept.append(connection)
    return connection


def test_amqp_refuses_as_rabbitmq_does(secured: tuple[Node, Administrator]) -> None:
    node, root = secured
    root.add_user("rabbit", administrator=False)
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
        amqp_of(node, "rabbit")
    patterns = dict.fromkeys(("configure", "write", "read"), r"^rb-|^amq\.default$")
    assert managed(node, "PUT", "permissions/%2F/rabbit", patterns) == (201, None)
    shown = {"user": "rabbit", "vhost": "/", **patterns}
    assert managed(node, "GET", "permissions/%2F/rabbit") == (200, shown)
    assert managed(node, "GET", "users/rabbit/permissions", user="rabbit")[0] == 403
    connection = amqp_of(node, "rabbit")
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("rb-q", durable=True)
    channel.basic_publish("", "rb-q", b"1")
    assert channel.basic_get("rb-q", auto_ack=True)[2] == b"1"

    def refused(work: Any) -> str:
        other = connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            work(other)
        assert closed.value.reply_code == 403
        return str(closed.value.reply_text)

    text = refused(lambda one: one.queue_declare("x-q", durable=True))
    assert text == "ACCESS_REFUSED - configure access to queue 'x-q' in vhost '/' refused for user 'rabbit'"
    assert "read access to queue 'nowhere' in vhost '/'" in refused(lambda one: one.basic_get("nowhere"))
    assert "exchange 'amq.topic'" in refused(lambda one: one.queue_bind("rb-q", "amq.topic", "k"))

    def publish(one: Any) -> None:
        one.confirm_delivery()
        one.basic_publish("", "rb-q", b"before")
        one.basic_publish("amq.fanout", "k", b"x")

    assert "write access to exchange 'amq.fanout' in vhost '/'" in refused(publish)
    assert channel.basic_get("rb-q", auto_ack=True)[2] == b"before"
    assert managed(node, "PUT", "permissions/%2F/rabbit", {**patterns, "write": ""}) == (204, None)

    def publish_again(one: Any) -> None:
        one.confirm_delivery()
        one.basic_publish("", "rb-q", b"2")

    assert "write access to exchange 'amq.default'" in refused(publish_again)
    assert managed(node, "PUT", "permissions/%2F/nobody", patterns)[0] == 404
    assert managed(node, "PUT", "permissions/%2F/rabbit", {**patterns, "read": "("})[0] == 400
    assert managed(node, "DELETE", "permissions/%2F/rabbit") == (204, None)
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
        amqp_of(node, "rabbit")


def test_users_of_the_management_api(secured: tuple[Node, Administrator]) -> None:
    node, _ = secured
    assert managed(node, "PUT", "users/hare", {"password": PASSWORD, "tags": "monitoring"}) == (201, None)
    assert managed(node, "GET", "users/hare")[1]["tags"] == ["monitoring"]
    assert managed(node, "GET", "queues", user="hare")[0] == 200
    assert managed(node, "PUT", "users/hare", {"password": PASSWORD, "tags": "management"}) == (204, None)
    assert managed(node, "GET", "queues", user="hare") == (200, [])
    assert managed(node, "PUT", "users/hare", {"password": PASSWORD, "tags": "policymaker"})[0] == 400
    assert managed(node, "PUT", "users/rat", {"password": PASSWORD, "tags": ""}, user="hare")[0] == 403
    assert managed(node, "DELETE", "users/hare") == (204, None)
    assert managed(node, "GET", "users/hare")[0] == 404


def test_an_amqp_consumer_is_closed_when_its_permission_ends(secured: tuple[Node, Administrator]) -> None:
    node, root = secured
    root.add_user("watcher", administrator=False)
    allow(root, "user:watcher", "configure", "queue", "watched")
    rule = allow(root, "user:watcher", "read", "queue", "watched")
    connection = amqp_of(node, "watcher")
    channel = connection.channel()
    channel.queue_declare("watched", durable=True)
    channel.basic_consume("watched", lambda *_: None, auto_ack=True)
    connection.process_data_events(0.5)
    revoke(root, rule)

    def is_closed() -> bool:
        connection.process_data_events(0.1)
        return bool(channel.is_closed)

    eventually(is_closed, "the channel to be closed")
    with pytest.raises(pika.exceptions.ChannelWrongStateError):
        channel.queue_declare("watched", durable=True)


# STOMP


def test_stomp_sends_an_error(secured: tuple[Node, Administrator]) -> None:
    node, root = secured
    root.add_user("stomper", administrator=False)
    allow(root, "user:stomper", "write", "queue", "st-q")
    allow(root, "user:stomper", "create", "queue", "st-q")
    address, _, port = node.stomp.rpartition(":")

    def client() -> StompClient:
        made = StompClient(stomp.Connection12([(address, int(port))]), "1.2")
        made.connect("stomper", PASSWORD)
        return made

    sending = client()
    sending.send("/queue/st-q", "1")
    sending.connection.subscribe("/queue/st-q", id="1")
    error = sending.errors.get(timeout=20)
    assert error.headers["message"] == "access_refused"
    assert "read access to queue 'st-q' in vhost '/' refused for user 'stomper'" in error.body
    other = client()
    other.connection.send("/queue/st-other", "1")
    assert other.errors.get(timeout=20).headers["message"] == "access_refused"


# HTTP


def test_http_says_403_and_hides_what_one_may_not_see(secured: tuple[Node, Administrator]) -> None:
    _, root = secured
    root.add_user("web", administrator=False)
    root.ask("POST", "queues", {"name": "web-q"})
    root.ask("POST", "queues", {"name": "web-hidden"})
    rule = allow(root, "user:web", "read", "queue", "web-q")
    header = basic("web")
    assert root.status("POST", "queues/web-q/receive", {}, header) == 200
    assert root.status("POST", "queues/web-q/messages", {"messages": [{"body": "1"}]}, header) == 403
    assert root.status("GET", "queues/web-hidden", header=header) == 404
    for name in ("web-hidden", "web-new"):
        assert root.status("POST", "queues", {"name": name}, header=header) == 403, "whether it exists or not"
    assert [one["name"] for one in root.ask("GET", "queues", header=header)["queues"]] == ["web-q"]
    assert root.status("GET", "users", header=header) == 403
    assert root.status("POST", "access/rules", {"rules": []}, header) in (400, 403)
    assert root.status("PUT", "access/roles/web", {"roles": ["administrator"]}, header) == 403
    with pytest.raises(urllib.error.HTTPError) as refused:
        root.ask("DELETE", "queues/web-q", header=header)
    assert json.loads(refused.value.read())["code"] == "access-refused"
    with urllib.request.urlopen(f"http://{root.http}/metrics", timeout=30) as metrics:
        assert b'longhall_access_refused_total{action="delete",kind="queue"} ' in metrics.read()
    revoke(root, rule)
    assert root.status("POST", "queues/web-q/receive", {}, header) == 404
    root.ask("PUT", "access/roles/web", {"roles": ["consumer"]})
    assert root.status("POST", "queues/web-q/receive", {}, header) == 200
    explained = root.ask("GET", "access/explain?user=web&action=write&kind=queue&name=web-q")
    assert (explained["allowed"], explained["reason"], explained["roles"]) == (False, "no rule allows it", ["consumer"])


def test_an_operator_cannot_make_itself_an_administrator(secured: tuple[Node, Administrator]) -> None:
    node, root = secured
    root.add_user("ops", administrator=False)
    root.ask("PUT", "access/roles/ops", {"roles": ["operator"]})
    header = basic("ops")
    assert root.status("POST", "queues", {"name": "ops-q"}, header) == 200
    assert root.status("PUT", "access/roles/ops", {"roles": ["administrator"]}, header) == 403
    assert root.status("POST", "users", {"name": "o2", "password": PASSWORD, "administrator": True}, header) == 403
    assert root.status("POST", f"users/{ROOT}/tokens", {}, header) == 403
    rule = {"subject": "user:ops", "action": "all", "kind": "topic", "name": "*"}
    assert root.status("POST", "access/rules", {"rules": [rule]}, header) == 403
    assert root.status("POST", "queues/ops-q/receive", {}, header) == 403
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    (future,) = admin_of(sasl(node, "ops")).delete_acls([everything]).values()
    with pytest.raises(KafkaException):
        future.result(10)
