"""The management API as RabbitMQ's tools use it: rabbitmqadmin itself, and the fields that others read."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from soak.node import Node
from tests.clients.amqp.conftest import Connect
from tests.clients.amqp.management import Management, fields_of
from tests.clients.serving import CLUSTER
from tests.left_out import leave_out

pytestmark = pytest.mark.clients

# What rabbitmqadmin-ng cannot do without: it fails on a missing field.
NODE = (
    "name uptime run_queue processors os_pid fd_total proc_total mem_limit mem_alarm disk_free_limit disk_free_alarm "
    "rates_mode enabled_plugins being_drained rabbitmq_version"
)
QUEUE = "name vhost type durable auto_delete exclusive arguments"
CONNECTION = "name node protocol user connected_at client_properties"
CHANNEL = (
    "number name connection_details.name connection_details.peer_host connection_details.peer_port vhost state "
    "consumer_count confirm prefetch_count messages_unacknowledged messages_unconfirmed"
)
CONSUMER = (
    "consumer_tag active ack_required prefetch_count exclusive arguments consumer_timeout queue.name queue.vhost "
    "channel_details.number channel_details.name channel_details.connection_name channel_details.node "
    "channel_details.peer_host channel_details.peer_port channel_details.user"
)
# What the exporter of kbudde reads.
OVERVIEW = (
    "node cluster_name rabbitmq_version erlang_version object_totals.queues object_totals.channels "
    "object_totals.connections object_totals.consumers object_totals.exchanges queue_totals.messages "
    "queue_totals.messages_ready queue_totals.messages_unacknowledged message_stats.publish_details.rate "
    "message_stats.deliver_get_details.rate message_stats.ack_details.rate"
)
EXPORTED_QUEUE = (
    "vhost name durable policy state node messages messages_ready messages_unacknowledged message_bytes "
    "message_bytes_ready message_bytes_unacknowledged consumers memory message_stats.publish message_stats.ack"
)
EXPORTED_NODE = "running uptime mem_used mem_limit disk_free disk_free_limit fd_used fd_total sockets_used partitions"


@pytest.fixture
def management(hall: Node | None) -> Management:
    if hall is None:
        leave_out("the management API of another server is at a port of its own")
    return Management(hall.management)


@pytest.fixture
def name() -> str:
    return f"managed-{uuid.uuid4().hex[:8]}"


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture(scope="session")
def admin_program() -> str:
    """The Python rabbitmqadmin that RabbitMQ's package has."""
    found = shutil.which("rabbitmqadmin")
    if found is None:
        leave_out("rabbitmqadmin comes with RabbitMQ's package (Debian: rabbitmq-server), which is not on this machine")
    return found


@pytest.fixture
def admin(hall: Node | None, admin_program: str, tmp_path: Path) -> Callable[..., str]:
    """Run rabbitmqadmin and return what it prints."""
    if hall is None:
        leave_out("the management API of another server is at a port of its own")
    host, _, port = hall.management.rpartition(":")

    def run(*words: str) -> str:
        command = [sys.executable, admin_program, "--host", host, "--port", port, "--format", "raw_json", *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env={**os.environ, "HOME": str(tmp_path)}, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_rabbitmqadmin_declares_publishes_gets_and_deletes(admin: Callable[..., str], name: str) -> None:
    def rows(*words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(admin(*words))
        return found

    admin("declare", "queue", f"name={name}", "durable=true", 'arguments={"x-max-length": 10}')
    admin("declare", "exchange", f"name={name}-x", "type=topic")
    admin("declare", "binding", f"source={name}-x", f"destination={name}", "routing_key=a.#")
    admin("publish", f"exchange={name}-x", "routing_key=a.b", "payload=hello")
    assert "NOT routed" in admin("publish", f"exchange={name}-x", "routing_key=b", "payload=lost")
    admin("publish", "exchange=amq.default", f"routing_key={name}", "payload=direct", 'properties={"priority": 3}')
    queue = next(row for row in rows("list", "queues") if row["name"] == name)
    assert (queue["messages"], queue["arguments"], queue["durable"]) == (2, {"x-max-length": 10}, True)
    looked = rows("get", f"queue={name}", "ackmode=ack_requeue_true", "count=5")
    assert [row["payload"] for row in looked] == ["hello", "direct"]
    assert [row["message_count"] for row in looked] == [1, 0]
    taken = rows("get", f"queue={name}", "ackmode=ack_requeue_false")[0]
    assert (taken["exchange"], taken["routing_key"], taken["redelivered"]) == (f"{name}-x", "a.b", False)
    bound = [row for row in rows("list", "bindings") if row["destination"] == name]
    assert [(row["source"], row["routing_key"], row["properties_key"]) for row in bound] == [
        ("", name, name),
        (f"{name}-x", "a.#", "a.%23"),
    ]
    admin("purge", "queue", f"name={name}")
    assert rows("list", "queues", "name", "messages").count({"name": name, "messages": 0}) == 1
    admin(
        "delete", "binding", f"source={name}-x", "destination_type=queue", f"destination={name}", "properties_key=a.%23"
    )
    admin("delete", "exchange", f"name={name}-x")
    admin("delete", "queue", f"name={name}")
    assert name not in [row["name"] for row in rows("list", "queues")]


def test_a_slash_at_the_end_of_an_address_is_ignored(management: Management) -> None:
    for what in ("connections", "queues", "exchanges", "nodes"):
        assert isinstance(management.get(what, ""), list), what


def test_rabbitmqadmin_shows_what_there_is(admin: Callable[..., str], channel: BlockingChannel) -> None:
    for what in ("connections", "channels", "users", "vhosts", "permissions", "nodes", "exchanges", "bindings"):
        assert isinstance(json.loads(admin("list", what)), list), what
    for nothing in ("parameters", "vhost_limits", "operator_policies"):
        assert isinstance(json.loads(admin("list", nothing)), list), nothing
    overview = json.loads(admin("show", "overview"))
    assert "rabbitmq_version" in (overview[0] if isinstance(overview, list) else overview)


def test_rabbitmqadmin_writes_definitions_and_reads_them_back(
    admin: Callable[..., str], management: Management, name: str, tmp_path: Path
) -> None:
    admin("declare", "vhost", f"name={name}")
    assert management.put("queues", name, "inbox", body={"durable": True, "arguments": {"x-message-ttl": 60000}}) == 201
    assert management.put("exchanges", name, "events", body={"type": "headers"}) == 201
    arguments = {"x-match": "any", "kind": "order", "urgent": True}
    path = ("bindings", name, "e", "events", "q", "inbox")
    assert management.ask("POST", *path, body={"arguments": arguments}).status == 201
    assert management.put("policies", name, "short", body={"pattern": "^in", "definition": {"max-length": 5}}) == 201
    file = tmp_path / "definitions.json"
    admin("export", str(file))
    assert management.delete("vhosts", name) == 204
    assert management.ask("GET", "vhosts", name).status == 404
    admin("import", str(file))
    binding = management.get(*path)[0]
    assert (binding["arguments"], binding["routing_key"]) == (arguments, "")
    assert binding["properties_key"].startswith("~")
    queue = management.get("queues", name, "inbox")
    assert (queue["policy"], queue["arguments"]) == ("short", {"x-message-ttl": 60000})
    sent = {"properties": {"headers": {"kind": "order"}}, "routing_key": "", "payload": "x"}
    assert management.ask("POST", "exchanges", name, "events", "publish", body=sent).value == {"routed": True}
    sent["properties"] = {"headers": {"kind": "invoice"}}
    assert management.ask("POST", "exchanges", name, "events", "publish", body=sent).value == {"routed": False}
    assert management.delete("vhosts", name) == 204


def test_a_definitions_file_of_rabbitmq_3_is_imported_and_its_users_are_named_as_ignored(
    management: Management, name: str
) -> None:
    file: dict[str, Any] = {
        "rabbit_version": "3.8.9",
        "users": [{"name": "app", "password_hash": "x", "hashing_algorithm": "", "tags": "administrator"}],
        "vhosts": [{"name": name}],
        "permissions": [{"user": "app", "vhost": name, "configure": ".*", "write": ".*", "read": ".*"}],
        "parameters": [],
        "policies": [
            {
                "vhost": name,
                "name": "ha",
                "pattern": "",
                "apply-to": "queues",
                "definition": {"ha-mode": "all", "ha-sync-mode": "automatic", "message-ttl": 60000},
                "priority": 0,
            }
        ],
        "queues": [{"name": "tasks", "vhost": name, "durable": True, "auto_delete": False, "arguments": {}}],
        "exchanges": [
            {
                "name": "work",
                "vhost": name,
                "type": "direct",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {},
            }
        ],
        "bindings": [
            {
                "source": "work",
                "vhost": name,
                "destination": "tasks",
                "destination_type": "queue",
                "routing_key": "t",
                "arguments": {},
            }
        ],
    }
    told = management.ask("POST", "definitions", body=file)
    assert (told.status, told.value["ignored"]) == (200, {"users": 1, "permissions": 1})
    assert management.get("queues", name, "tasks")["policy"] == "ha"
    assert [row["routing_key"] for row in management.get("bindings", name)] == ["tasks", "t"]

    broken = {**file, "queues": [*file["queues"], {"name": "bad", "vhost": name, "arguments": {"x-max-length": -1}}]}
    broken["exchanges"] = [{**file["exchanges"][0], "name": "never"}]
    told = management.ask("POST", "definitions", body=broken)
    assert told.status == 400
    assert "queue 'bad'" in told.value["reason"]
    assert management.ask("GET", "exchanges", name, "never").status == 404
    assert management.delete("vhosts", name) == 204


def test_a_policy_holds_for_queues_that_exist_and_for_new_ones_until_it_goes(
    management: Management, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name)
    assert management.put("policies", "/", name, body={"pattern": f"^{name}", "definition": {"max-length": 2}}) == 201
    for number in range(4):
        channel.basic_publish("", name, str(number).encode())
    until(lambda: management.get("queues", "/", name)["messages"] == 2, "the oldest are dropped")
    assert channel.basic_get(name, auto_ack=True)[2] == b"2"
    channel.queue_declare(f"{name}-new")
    assert management.get("queues", "/", f"{name}-new")["policy"] == name
    channel.queue_declare(name)  # A declaration is compared with arguments, not with policies.
    assert management.put("policies", "/", name, body={"pattern": f"^{name}", "definition": {"expires": 1}}) == 204
    until(lambda: management.ask("GET", "queues", "/", name).status == 404, "the queue expires")
    assert management.delete("policies", "/", name) == 204
    assert management.delete("policies", "/", name) == 404


@pytest.mark.parametrize(
    ("definition", "why"), [({"max-priority": 9}, "no effect"), ({"message-ttl": -1}, "from 0"), ({}, "empty")]
)
def test_a_policy_that_cannot_be_honoured_is_refused(
    management: Management, name: str, definition: dict[str, Any], why: str
) -> None:
    told = management.ask("PUT", "policies", "/", name, body={"pattern": "^x", "definition": definition})
    assert (told.status, told.value["error"]) == (400, "bad_request")
    assert why in told.value["reason"]


def test_dead_letters_by_policy_and_the_bound_of_an_operator(
    management: Management, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(f"{name}-dead")
    channel.queue_declare(name, arguments={"x-max-length": 50})
    said = {"dead-letter-exchange": "", "dead-letter-routing-key": f"{name}-dead"}
    assert management.put("policies", "/", name, body={"pattern": f"^{name}$", "definition": said}) == 201
    bound = {
        "pattern": f"^{name}$",
        "apply-to": "all",
        "definition": {"max-length": 1, "overflow": "reject-publish"},
    }
    assert management.put("operator-policies", "/", name, body=bound) == 201
    channel.confirm_delivery()
    channel.basic_publish("", name, b"first")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", name, b"second")
    method, _, _ = channel.basic_get(name)
    channel.basic_nack(method.delivery_tag, requeue=False)
    until(lambda: management.get("queues", "/", f"{name}-dead")["messages_ready"] == 1, "the dead letter")
    for kind in ("policies", "operator-policies"):
        assert management.delete(kind, "/", name) == 204


def test_connections_channels_and_consumers_are_listed_and_closed(
    management: Management, connect: Connect, name: str
) -> None:
    connection = connect(client_properties={"connection_name": name})
    channel = connection.channel()
    channel.queue_declare(name)
    channel.basic_qos(prefetch_count=7)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"held")
    channel.basic_consume(name, lambda *_: None, consumer_tag=f"{name}-tag", arguments={"x-priority": 4})
    connection.process_data_events(time_limit=1)

    def mine() -> list[dict[str, Any]]:
        return [row for row in management.get("connections") if row["user_provided_name"] == name]

    row = mine()[0]
    fields_of(row, CONNECTION)
    assert (row["user"], row["vhost"], row["channels"], row["state"]) == ("guest", "/", 1, "running")
    assert (row["client_properties"]["product"], row["protocol"]) == ("Pika Python Client Library", "AMQP 0-9-1")
    shown = next(one for one in management.get("channels") if one["connection_details"]["name"] == row["name"])
    fields_of(shown, CHANNEL)
    assert (shown["prefetch_count"], shown["confirm"], shown["consumer_count"]) == (7, True, 1)
    assert (shown["messages_unacknowledged"], shown["messages_unconfirmed"]) == (1, 0)
    consumer = next(one for one in management.get("consumers", "/") if one["consumer_tag"] == f"{name}-tag")
    fields_of(consumer, CONSUMER)
    assert (consumer["ack_required"], consumer["prefetch_count"], consumer["active"]) == (True, 7, True)
    assert (consumer["queue"], consumer["arguments"]) == ({"name": name, "vhost": "/"}, {"x-priority": 4})
    assert management.get("queues", "/", name)["consumer_details"][0]["consumer_tag"] == f"{name}-tag"

    assert management.delete("connections", row["name"], query="reason=enough") == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        for _ in range(100):
            connection.process_data_events(time_limit=0.1)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - enough")
    until(lambda: not mine(), "the connection is gone")
    assert management.delete("connections", "nobody") == 404


def test_one_of_two_consumers_is_active_on_a_queue_with_a_single_active_consumer(
    management: Management, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-single-active-consumer": True})
    for tag in ("first", "second"):
        channel.basic_consume(name, lambda *_: None, consumer_tag=f"{name}-{tag}")
    rows = {row["consumer_tag"]: row for row in management.get("queues", "/", name)["consumer_details"]}
    assert {tag: row["activity_status"] for tag, row in rows.items()} == {
        f"{name}-first": "single_active",
        f"{name}-second": "waiting",
    }


def test_every_field_that_tools_read_is_there(management: Management, channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    channel.basic_publish("", name, b"one")
    until(lambda: management.get("queues", "/", name)["messages"] == 1, "the message")
    overview = management.get("overview")
    fields_of(overview, OVERVIEW)
    assert overview["object_totals"]["queues"] >= 1
    queue = management.get("queues", "/", name)
    fields_of(queue, f"{QUEUE} {EXPORTED_QUEUE}")
    assert (queue["type"], queue["arguments"]) == ("quorum", {"x-queue-type": "quorum"})
    # KEDA
    page = management.get("queues", "/", query=f"page=1&use_regex=true&pagination=true&name=%5E{name}%24&page_size=100")
    fields_of(page, "filtered_count item_count page page_count page_size total_count")
    fields_of(page["items"][0], "messages messages_unacknowledged message_stats.publish_details.rate name")
    fields_of(queue, "message_stats.deliver_get_details.rate messages_ready")
    # Flower, and the exporter with its empty sort
    listed = {row["name"]: row for row in management.get("queues", "/", query="sort=")}
    assert (listed[name]["messages_ready"], listed[name]["messages_unacknowledged"]) == (1, 0)
    for node in management.get("nodes"):
        fields_of(node, f"{NODE} {EXPORTED_NODE}")
        assert management.get("nodes", node["name"])["name"] == node["name"]
        assert management.get("nodes", node["name"], "memory") == {"memory": "not_available"}
    assert management.get("queues", "/", name, query="columns=name,messages") == {"name": name, "messages": 1}
    for exchange in management.get("exchanges", "/"):
        fields_of(exchange, "name vhost type durable auto_delete internal arguments")
    default = next(row for row in management.get("exchanges", "/") if row["name"] == "")
    fields_of(default, "message_stats.publish_in message_stats.publish_out message_stats.confirm")
    fields_of(management.get("whoami"), "name tags")
    assert management.get("cluster-name")["name"]
    for path in ("feature-flags", "deprecated-features", "user-limits", "topic-permissions", "global-parameters"):
        assert isinstance(management.get(path), list)
    assert management.get("users", "guest")["tags"] == ["administrator"]
    assert management.get("permissions", "/", "guest")["read"] == ".*"
    assert [row["name"] for row in management.get("vhosts")].count("/") == 1


def test_health_checks_hold_and_fail(management: Management, hall: Node) -> None:
    for check in ("alarms", "local-alarms", "virtual-hosts", "is-in-service", "ready-to-serve-clients"):
        assert management.get("health", "checks", check) == {"status": "ok"}
    assert management.get("aliveness-test", "/") == {"status": "ok"}
    context = management.get("overview")["contexts"][0]
    fields_of(context, "node description path port")
    assert management.get("healthchecks", "node", context["node"]) == {"status": "ok"}
    assert management.ask("GET", "healthchecks", "node", "nobody").status in (400, 404)
    for protocol in ("amqp", "amqp091", "amqp0-9-1", "stomp", "stomp1.2", "http", "amqp,stomp"):
        assert management.get("health", "checks", "protocol-listener", protocol)["status"] == "ok"
    for protocol in ("amqp1.0", "mqtt", "amqp,mqtt", ""):
        assert management.ask("GET", "health", "checks", "protocol-listener", protocol).status in (404, 503)
    if not CLUSTER:
        port = hall.amqp.rpartition(":")[2]
        assert management.get("health", "checks", "port-listener", port)["status"] == "ok"
    missing = management.ask("GET", "health", "checks", "port-listener", "1")
    assert (missing.status, missing.value["missing"]) == (503, 1)
    fields_of(missing.value, "error reason")


def test_refusals_have_the_shapes_of_rabbitmq(management: Management, hall: Node, name: str) -> None:
    assert management.ask("GET", "queues", "/", "nowhere").value == {"error": "Object Not Found", "reason": "Not Found"}
    assert management.ask("GET", "queues", "nohost").status == 404
    unknown = Management(hall.management, "").ask("GET", "overview")
    assert (unknown.status, unknown.value["error"]) == (401, "not_authorized")
    assert management.put("queues", "/", name, body={"durable": "true", "auto_delete": "false"}) == 201
    assert management.put("queues", "/", name, body={"durable": True}) == 204
    other = management.ask("PUT", "queues", "/", name, body={"durable": False})
    assert other.status == 400
    assert "inequivalent arg 'durable'" in other.value["reason"]
    assert "reserved prefix" in management.ask("PUT", "queues", "/", "amq.mine", body={}).value["reason"]
    assert management.ask("PUT", "exchanges", "/", name, body={"type": "none"}).status == 400
    assert management.ask("DELETE", "exchanges", "/", "amq.topic").status == 400
    assert management.ask("PUT", "users", "bob", body={"password": "x"}).status == 400
    assert management.ask("GET", "parameters", "shovel", "/", "none").status == 404
    assert management.ask("GET", "queues", query="page=1&page_size=501").status == 400
    assert management.ask("POST", "queues", "/", name, "get", body={"count": 0}).status == 400
    assert management.delete("queues", "/", name, query="if-empty=true") == 204


def test_a_virtual_host_with_what_would_have_no_effect_is_refused(management: Management, name: str) -> None:
    for body, why in (
        ({"default_queue_type": "quorum"}, "would have no effect"),
        ({"default_queue_type": "none"}, "would have no effect"),
        ({"tracing": True}, "not traced"),
    ):
        told = management.ask("PUT", "vhosts", name, body=body)
        assert (told.status, why in told.value["reason"]) == (400, True)
    assert management.ask("GET", "vhosts", name).status == 404
    assert management.put("vhosts", name, body={"default_queue_type": "classic", "tracing": False}) == 201
    assert management.get("vhosts", name)["metadata"]["default_queue_type"] == "classic"
    assert management.get("vhosts", name, "topic-permissions") == []
    assert management.get("users", "guest", "topic-permissions") == []
    assert management.delete("vhosts", name) == 204


def test_a_binding_whose_key_is_null_has_the_empty_key(management: Management, name: str) -> None:
    assert management.put("queues", "/", name) == 201
    told = management.ask("POST", "bindings", "/", "e", "amq.direct", "q", name, body={"routing_key": None})
    assert told.status == 201
    found = management.get("bindings", "/", "e", "amq.direct", "q", name)
    assert [binding["routing_key"] for binding in found] == [""]
    assert name in [queue["name"] for queue in management.get("queues", "detailed")]
    assert management.delete("queues", "/", name) == 204


def test_messages_are_rejected_shown_in_base64_and_cut(
    management: Management, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(f"{name}-dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    channel.queue_declare(name, arguments=arguments)
    properties = pika.BasicProperties(content_type="text/plain", headers={"n": 1}, delivery_mode=2)
    channel.basic_publish("", name, b"\xff\x00binary", properties)
    channel.basic_publish("", name, "schön".encode())
    until(lambda: management.get("queues", "/", name)["messages"] == 2, "the messages")

    def get(mode: str, **more: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = management.ask(
            "POST", "queues", "/", name, "get", body={"count": 5, "ackmode": mode, "encoding": "auto", **more}
        ).value
        return found

    first, second = get("reject_requeue_true", truncate=4)
    assert (first["payload_encoding"], first["payload_bytes"]) == ("base64", 8)
    assert first["properties"] == {"content_type": "text/plain", "delivery_mode": 2, "headers": {"n": 1}}
    assert (second["payload_encoding"], second["payload_bytes"]) == ("base64", 6)  # The cut is inside a character.
    assert len(get("reject_requeue_false")) == 2
    assert get("ack_requeue_false") == []
    until(lambda: management.get("queues", "/", f"{name}-dead")["messages"] == 2, "the dead letters")


def test_metrics_have_the_names_of_rabbitmq(hall: Node | None, channel: BlockingChannel, name: str) -> None:
    if hall is None:
        leave_out("the metrics of another server are at a port of its own")
    channel.queue_declare(name)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"x" * 150)
    channel.basic_get(name, auto_ack=True)
    text = Scrape(hall.prometheus).get("/metrics")
    for family in FAMILIES.split():
        assert f"\n# TYPE {family} " in text, family
        assert any(line.startswith((f"{family}{{", f"{family} ", f"{family}_bucket")) for line in text.splitlines())
    assert 'rabbitmq_endpoint="aggregated"' in text
    assert 'rabbitmq_message_size_bytes_bucket{protocol="amqp091",le="1000"}' in text
    if CLUSTER:
        return  # Another node may have been asked.
    assert f'rabbitmq_queue_messages_ready{{vhost="/",queue="{name}"}} 0' in Scrape(hall.prometheus).get(
        "/metrics/per-object"
    )
    detailed = Scrape(hall.prometheus).get("/metrics/detailed?family=queue_coarse_metrics&vhost=%2F")
    assert f'rabbitmq_detailed_queue_messages{{vhost="/",queue="{name}"}} 0' in detailed
    assert name not in Scrape(hall.prometheus).get("/metrics/detailed?family=queue_coarse_metrics&vhost=other")
    assert "no family" in Scrape(hall.prometheus).get("/metrics/detailed?family=nothing", 400)


FAMILIES = (
    "rabbitmq_identity_info rabbitmq_build_info rabbitmq_connections rabbitmq_channels rabbitmq_queues "
    "rabbitmq_consumers rabbitmq_queue_messages_ready rabbitmq_queue_messages_unacked rabbitmq_global_publishers "
    "rabbitmq_global_consumers rabbitmq_connections_opened_total rabbitmq_connections_closed_total "
    "rabbitmq_channels_opened_total rabbitmq_channels_closed_total rabbitmq_queues_declared_total "
    "rabbitmq_queues_created_total rabbitmq_queues_deleted_total rabbitmq_process_resident_memory_bytes "
    "rabbitmq_resident_memory_limit_bytes rabbitmq_disk_space_available_bytes "
    "rabbitmq_disk_space_available_limit_bytes rabbitmq_process_open_fds rabbitmq_process_max_fds "
    "rabbitmq_process_open_tcp_sockets rabbitmq_process_max_tcp_sockets rabbitmq_erlang_uptime_seconds "
    "rabbitmq_message_size_bytes rabbitmq_global_messages_received_total "
    "rabbitmq_global_messages_received_confirm_total rabbitmq_global_messages_confirmed_total "
    "rabbitmq_global_messages_routed_total rabbitmq_global_messages_unroutable_dropped_total "
    "rabbitmq_global_messages_unroutable_returned_total rabbitmq_global_messages_delivered_total "
    "rabbitmq_global_messages_delivered_consume_auto_ack_total "
    "rabbitmq_global_messages_delivered_consume_manual_ack_total "
    "rabbitmq_global_messages_delivered_get_auto_ack_total rabbitmq_global_messages_delivered_get_manual_ack_total "
    "rabbitmq_global_messages_get_empty_total rabbitmq_global_messages_redelivered_total "
    "rabbitmq_global_messages_acknowledged_total"
)


class Scrape:
    """A scraper of metrics."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str, status: int = 200) -> str:
        connection = http.client.HTTPConnection(self._address, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == status
            return answer.read().decode()
        finally:
            connection.close()


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Node]:
    """A node of its own."""
    with Node(tmp_path / "data") as node:
        yield node


def test_a_policy_survives_a_crash(killed: Node) -> None:
    management = Management(killed.management)
    assert management.put("queues", "/", "orders", body={"arguments": {"x-max-length": 9}}) == 201
    assert management.put("policies", "/", "p", body={"pattern": "^o", "definition": {"max-length": 1}}) == 201
    killed.kill()
    killed.start()
    management = Management(killed.management)
    assert [row["name"] for row in management.get("policies")] == ["p"]
    sent = {"properties": {}, "routing_key": "orders", "payload": "x"}
    for _ in range(3):
        assert management.ask("POST", "exchanges", "/", "amq.default", "publish", body=sent).value == {"routed": True}
    until(lambda: management.get("queues", "/", "orders")["messages"] == 1, "the policy holds")
