"""pika: exchanges, queues with their arguments, confirms, consumers, dead letters and every error of a channel."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    ProbableAccessDeniedError,
    UnroutableError,
)

from tests.clients.amqp.conftest import Connect
from tests.clients.conftest import FreshName, eventually

Message = tuple[Any, pika.BasicProperties, bytes]


def queue(channel: BlockingChannel, name: str, **options: Any) -> str:
    return str(channel.queue_declare(name, **options).method.queue)


def get(channel: BlockingChannel, name: str, auto_ack: bool = True) -> Message | None:
    """The next message, waiting for it a little: TTLs and dead letters take their time."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        method, properties, body = channel.basic_get(name, auto_ack=auto_ack)
        if method is not None:
            return method, properties, body
        time.sleep(0.02)
    return None


def is_ready(channel: BlockingChannel, name: str, count: int) -> bool:
    return bool(channel.queue_declare(name, passive=True).method.message_count == count)


def bodies(channel: BlockingChannel, name: str, count: int) -> list[bytes]:
    found = [get(channel, name) for _ in range(count)]
    assert channel.basic_get(name)[0] is None
    return [one[2] for one in found if one is not None]


def consumed(channel: BlockingChannel, name: str, count: int, **options: Any) -> list[Message]:
    found: list[Message] = []
    for method, properties, body in channel.consume(name, inactivity_timeout=10, **options):
        if method is None:
            break
        found.append((method, properties, body))
        if len(found) == count:
            break
    return found


def refused(connect: Connect, code: int, text: str, act: Any) -> None:
    """An act on a channel of its own that closes the channel with this code, and leaves the connection open."""
    connection = connect()
    channel = connection.channel()
    with pytest.raises(ChannelClosedByBroker) as caught:
        act(channel)
    assert caught.value.reply_code == code, caught.value.reply_text
    assert text in caught.value.reply_text
    connection.channel().close()


def test_a_message_comes_back_with_all_its_properties(channel: BlockingChannel, fresh_name: FreshName) -> None:
    name = queue(channel, fresh_name("properties"))
    properties = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"text": "x", "number": -7, "large": 1 << 40, "flag": True, "list": [1, "two"], "table": {"a": None}},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
    )
    channel.basic_publish("", name, b"body", properties)
    received = get(channel, name)
    assert received is not None
    assert received[2] == b"body"
    assert vars(received[1]) == vars(properties)
    assert received[0].exchange == ""
    assert received[0].routing_key == name
    assert not received[0].redelivered


def test_bodies_of_every_size(channel: BlockingChannel, fresh_name: FreshName) -> None:
    name = queue(channel, fresh_name("sizes"))
    sizes = [0, 1, 131_064, 131_065, 500_000, 5_000_000]
    for size in sizes:
        channel.basic_publish("", name, bytes(size))
    assert [len(body) for body in bodies(channel, name, len(sizes))] == sizes


@pytest.mark.parametrize(
    ("kind", "bindings", "key", "hits"),
    [
        ("direct", ["a", "b"], "a", [True, False]),
        ("fanout", ["", "other"], "anything", [True, True]),
        ("topic", ["a.*", "#.c", "a.#.c"], "a.b.c", [False, True, True]),
    ],
)
def test_exchanges_route(
    channel: BlockingChannel, fresh_name: FreshName, kind: str, bindings: list[str], key: str, hits: list[bool]
) -> None:
    exchange = fresh_name(kind)
    channel.exchange_declare(exchange, kind)
    names = [queue(channel, fresh_name("routed")) for _ in bindings]
    for name, pattern in zip(names, bindings, strict=True):
        channel.queue_bind(name, exchange, pattern)
    channel.basic_publish(exchange, key, b"x")
    for name, hit in zip(names, hits, strict=True):
        assert bodies(channel, name, hit) == [b"x"] * hit
    channel.queue_unbind(names[1], exchange, bindings[1])
    channel.basic_publish(exchange, key, b"y")
    assert channel.basic_get(names[1])[0] is None
    channel.exchange_delete(exchange)


def test_headers_exchanges_and_bindings_between_exchanges(channel: BlockingChannel, fresh_name: FreshName) -> None:
    source, target, name = fresh_name("source"), fresh_name("headers"), queue(channel, fresh_name("bound"))
    channel.exchange_declare(source, "fanout")
    channel.exchange_declare(target, "headers")
    channel.exchange_bind(target, source)
    channel.queue_bind(name, target, arguments={"x-match": "any", "kind": "a", "size": 2})
    for headers in ({"kind": "a"}, {"size": 2, "kind": "b"}, {"kind": "b"}, {}):
        channel.basic_publish(source, "", str(headers).encode(), pika.BasicProperties(headers=headers))
    assert bodies(channel, name, 2) == [b"{'kind': 'a'}", b"{'size': 2, 'kind': 'b'}"]


def test_cc_bcc_and_the_alternate_exchange(channel: BlockingChannel, fresh_name: FreshName) -> None:
    names = [queue(channel, fresh_name("copy")) for _ in range(3)]
    headers = {"CC": [names[1]], "BCC": [names[2]]}
    channel.basic_publish("", names[0], b"x", pika.BasicProperties(headers=headers))
    for name in names:
        received = get(channel, name)
        assert received is not None
        assert received[1].headers == {"CC": [names[1]]}
    exchange, other = fresh_name("main"), fresh_name("other")
    channel.exchange_declare(other, "fanout")
    channel.exchange_declare(exchange, "direct", arguments={"alternate-exchange": other})
    channel.queue_bind(names[0], other)
    channel.confirm_delivery()
    channel.basic_publish(exchange, "nobody", b"rest", mandatory=True)
    assert bodies(channel, names[0], 1) == [b"rest"]


@pytest.mark.parametrize("argument", ["x-max-length", "x-max-length-bytes"])
def test_a_queue_without_room_refuses_every_message(
    channel: BlockingChannel, fresh_name: FreshName, argument: str
) -> None:
    name = queue(channel, fresh_name("none"), arguments={argument: 0, "x-overflow": "reject-publish"})
    queue(channel, name, arguments={argument: 0, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    for body in (b"", b"x"):
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", name, body)
    assert channel.basic_get(name)[0] is None


def test_confirms_returns_and_refusals_of_a_full_queue(channel: BlockingChannel, fresh_name: FreshName) -> None:
    name = queue(channel, fresh_name("full"), arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    for body in (b"1", b"2"):
        channel.basic_publish("", name, body, mandatory=True)
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"3")
    with pytest.raises(UnroutableError):
        channel.basic_publish("", fresh_name("nobody"), b"x", mandatory=True)
    channel.basic_publish("", fresh_name("nobody"), b"x")
    assert bodies(channel, name, 2) == [b"1", b"2"]


def test_the_oldest_messages_give_way(channel: BlockingChannel, fresh_name: FreshName) -> None:
    name = queue(channel, fresh_name("head"), arguments={"x-max-length": 2})
    channel.confirm_delivery()
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", name, body)
    assert bodies(channel, name, 2) == [b"2", b"3"]


def test_messages_that_are_given_back_to_a_full_queue_push_the_oldest_out(
    channel: BlockingChannel, fresh_name: FreshName
) -> None:
    name = queue(channel, fresh_name("again"), arguments={"x-max-length": 2})
    for body in (b"1", b"2"):
        channel.basic_publish("", name, body)
    held = [get(channel, name, auto_ack=False) for _ in range(2)]
    for body in (b"3", b"4"):
        channel.basic_publish("", name, body)
    assert held[-1] is not None
    channel.basic_nack(held[-1][0].delivery_tag, multiple=True)
    first = get(channel, name)
    assert first is not None
    assert (first[2], first[0].message_count) == (b"3", 1)


def test_every_number_of_priorities_has_its_levels(channel: BlockingChannel, fresh_name: FreshName) -> None:
    name = queue(channel, fresh_name("levels"), arguments={"x-max-priority": 255})
    for priority in (253, 254, 255, 0, 1):
        channel.basic_publish("", name, str(priority).encode(), pika.BasicProperties(priority=priority))
    assert bodies(channel, name, 5) == [b"255", b"254", b"253", b"1", b"0"]
    level = queue(channel, fresh_name("level"), arguments={"x-max-priority": 0})
    for priority in (1, 2):
        channel.basic_publish("", level, str(priority).encode(), pika.BasicProperties(priority=priority))
    assert bodies(channel, level, 2) == [b"1", b"2"]


def test_acknowledging_giving_back_and_rejecting(connect: Connect, fresh_name: FreshName) -> None:
    channel = connect().channel()
    letters = queue(channel, fresh_name("letters"))
    name = queue(
        channel,
        fresh_name("work"),
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters},
    )
    for number in range(6):
        channel.basic_publish("", name, str(number).encode())
    first = consumed(channel, name, 6)
    assert [one[2] for one in first] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    tags = [one[0].delivery_tag for one in first]
    channel.basic_ack(tags[1], multiple=True)
    channel.basic_nack(tags[2], requeue=True)
    channel.basic_reject(tags[3], requeue=False)
    channel.cancel()
    again = get(channel, name, auto_ack=False)
    assert again is not None
    assert again[2] == b"2"
    assert again[0].redelivered
    letter = get(channel, letters)
    assert letter is not None
    assert letter[2] == b"3"
    death = letter[1].headers["x-death"][0]
    assert (death["queue"], death["reason"], death["count"], death["routing-keys"]) == (name, "rejected", 1, [name])
    assert letter[1].headers["x-first-death-queue"] == name
    channel.connection.close()
    other = connect().channel()
    assert sorted(bodies(other, name, 3)) == [b"2", b"4", b"5"]


def test_prefetch_bounds_what_a_consumer_holds(channel: BlockingChannel, fresh_name: FreshName) -> None:
    name = queue(channel, fresh_name("prefetch"))
    for number in range(10):
        channel.basic_publish("", name, str(number).encode())
    channel.basic_qos(prefetch_count=3)
    held: list[int] = []
    channel.basic_consume(name, lambda _, method, __, body: held.append(method.delivery_tag))
    eventually(lambda: bool(channel.connection.process_data_events(0.05)) or len(held) == 3, "three messages came")
    channel.connection.process_data_events(0.3)
    assert len(held) == 3
    channel.basic_ack(held[1], multiple=True)
    eventually(lambda: bool(channel.connection.process_data_events(0.05)) or len(held) == 5, "two more came")


def test_what_is_given_back_comes_before_what_waits_behind_it(channel: BlockingChannel, fresh_name: FreshName) -> None:
    queue = channel.queue_declare(fresh_name("again"), durable=True).method.queue
    for body in (b"first", b"second", b"third"):
        channel.basic_publish("", queue, body)
    channel.basic_qos(prefetch_count=1)
    seen: list[tuple[bytes, bool]] = []
    for method, _, body in channel.consume(queue, inactivity_timeout=10):
        assert method is not None, seen
        seen.append((body, method.redelivered))
        if len(seen) == 30:
            break
        channel.basic_nack(method.delivery_tag, requeue=True)
    assert seen == [(b"first", False)] + [(b"first", True)] * 29


def test_messages_come_in_order_and_none_stays_behind_with_a_consumer_that_leaves(
    connect: Connect, fresh_name: FreshName
) -> None:
    channel = connect().channel()
    name = queue(channel, fresh_name("leaving"))
    channel.confirm_delivery()
    count = 600
    for number in range(count):
        channel.basic_publish("", name, str(number).encode())
    done: list[int] = []
    for leaving_after in (1, 40, 90, 150, count):
        visitor = connect().channel()
        visitor.basic_qos(prefetch_count=100)
        seen: list[int] = []
        for method, _, body in visitor.consume(name, inactivity_timeout=10):
            assert method is not None, (len(done), seen)
            seen.append(int(body))
            if len(seen) % 10 == 0 or len(done) + len(seen) == count:
                visitor.basic_ack(method.delivery_tag, multiple=True)
            if len(seen) == leaving_after or len(done) + len(seen) == count:
                break
        assert seen == list(range(len(done), len(done) + len(seen)))
        acknowledged = len(seen) if len(done) + len(seen) == count else len(seen) // 10 * 10
        done += seen[:acknowledged]
        visitor.connection.close()
        left = count - len(done)
        eventually(partial(is_ready, channel, name, left), "what was not acknowledged is back")
    assert done == list(range(count))


def test_a_limit_of_the_channel_is_changed_while_it_consumes(channel: BlockingChannel, fresh_name: FreshName) -> None:
    names = [queue(channel, fresh_name("shared")) for _ in range(2)]
    for name in names:
        for number in range(10):
            channel.basic_publish("", name, str(number).encode())
    channel.basic_qos(prefetch_count=2, global_qos=True)
    held: list[int] = []
    for name in names:
        channel.basic_consume(name, lambda _, method, __, body: held.append(method.delivery_tag))
    eventually(lambda: bool(channel.connection.process_data_events(0.05)) or len(held) >= 2, "two came")
    channel.connection.process_data_events(0.3)
    assert len(held) == 2
    channel.basic_qos(prefetch_count=6, global_qos=True)
    eventually(lambda: bool(channel.connection.process_data_events(0.05)) or len(held) >= 6, "four more came")
    channel.connection.process_data_events(0.3)
    assert len(held) == 6


def test_messages_expire_and_die_into_another_queue(channel: BlockingChannel, fresh_name: FreshName) -> None:
    letters = queue(channel, fresh_name("expired"))
    arguments = {"x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
    name = queue(channel, fresh_name("ttl"), arguments=arguments)
    channel.basic_publish("", name, b"x", pika.BasicProperties(expiration="50", headers={"mine": 1}))
    letter = get(channel, letters)
    assert letter is not None
    assert letter[1].expiration is None
    death = letter[1].headers["x-death"][0]
    assert (death["reason"], death["original-expiration"]) == ("expired", "50")
    assert letter[1].headers["mine"] == 1
    assert channel.basic_get(name)[0] is None


def test_priorities_and_delays(channel: BlockingChannel, fresh_name: FreshName) -> None:
    channel.confirm_delivery()  # All of them are there before the first is delivered.
    name = queue(channel, fresh_name("priority"), arguments={"x-max-priority": 5})
    for priority in (1, 5, 3):
        channel.basic_publish("", name, str(priority).encode(), pika.BasicProperties(priority=priority))
    assert bodies(channel, name, 3) == [b"5", b"3", b"1"]
    channel.basic_publish("", name, b"late", pika.BasicProperties(headers={"x-delay": 300}))
    channel.basic_publish("", name, b"early")
    found = [get(channel, name), get(channel, name)]
    assert [one[2] for one in found if one is not None] == [b"early", b"late"]
    assert found[1] is not None
    assert found[1][1].headers["x-delay"] == -300


def test_a_quorum_queue_counts_deliveries_and_gives_up(channel: BlockingChannel, fresh_name: FreshName) -> None:
    letters = queue(channel, fresh_name("limit"))
    name = queue(
        channel,
        fresh_name("quorum"),
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-delivery-limit": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": letters,
        },
    )
    channel.basic_publish("", name, b"x")
    for count in (None, 1):
        received = get(channel, name, auto_ack=False)
        assert received is not None
        assert (received[1].headers or {}).get("x-delivery-count") == count
        channel.basic_nack(received[0].delivery_tag)
    eventually(lambda: channel.basic_get(name)[0] is None, "it is not delivered again")
    letter = get(channel, letters)
    assert letter is not None
    assert letter[1].headers["x-death"][0]["reason"] == "delivery_limit"


def test_transactions(connect: Connect, fresh_name: FreshName) -> None:
    channel, other = connect().channel(), connect().channel()
    name = queue(channel, fresh_name("tx"))
    channel.tx_select()
    channel.basic_publish("", name, b"kept")
    assert other.basic_get(name)[0] is None
    channel.tx_commit()
    channel.basic_publish("", name, b"dropped")
    channel.tx_rollback()
    received = get(channel, name, auto_ack=False)
    assert received is not None
    assert received[2] == b"kept"
    channel.basic_ack(received[0].delivery_tag)
    channel.tx_rollback()
    channel.basic_ack(received[0].delivery_tag)
    channel.tx_commit()
    channel.close()
    assert other.basic_get(name)[0] is None


def test_exclusive_and_automatic_queues_end_with_their_users(connect: Connect, fresh_name: FreshName) -> None:
    channel, other = connect().channel(), connect().channel()
    exclusive, automatic = fresh_name("exclusive"), fresh_name("automatic")
    generated = queue(channel, "", exclusive=True)
    assert generated.startswith("amq.gen-")
    queue(channel, exclusive, exclusive=True)
    refused(connect, 405, "RESOURCE_LOCKED", lambda one: one.queue_declare(exclusive, passive=True))
    queue(channel, automatic, auto_delete=True)
    tag = channel.basic_consume(automatic, lambda *_: None)
    assert other.queue_declare(automatic, passive=True).method.consumer_count == 1
    channel.basic_cancel(tag)
    refused(connect, 404, "NOT_FOUND", lambda one: one.queue_declare(automatic, passive=True))
    channel.connection.close()
    queue(other, exclusive, exclusive=True)
    queue(other, fresh_name("short"), arguments={"x-expires": 200})


def test_a_queue_without_use_expires(channel: BlockingChannel, connect: Connect, fresh_name: FreshName) -> None:
    name = queue(channel, fresh_name("unused"), arguments={"x-expires": 300})
    time.sleep(1.0)
    refused(connect, 404, "NOT_FOUND", lambda one: one.queue_declare(name, passive=True))


def test_a_deleted_queue_cancels_its_consumers(connect: Connect, fresh_name: FreshName) -> None:
    channel, other = connect().channel(), connect().channel()
    name = queue(channel, fresh_name("deleted"))
    cancelled: list[Any] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume(name, lambda *_: None)
    assert other.queue_delete(name).method.message_count == 0
    eventually(lambda: bool(channel.connection.process_data_events(0.05)) or len(cancelled) == 1, "the consumer ended")


def test_consumers_exclusive_by_priority_and_single_active(connect: Connect, fresh_name: FreshName) -> None:
    channel = connect().channel()
    name = queue(channel, fresh_name("alone"))
    channel.basic_consume(name, lambda *_: None, exclusive=True)
    refused(connect, 403, "in exclusive use", lambda one: one.basic_consume(name, lambda *_: None))
    name = queue(channel, fresh_name("ranked"))
    got: list[str] = []
    low, high = connect().channel(), connect().channel()
    low.basic_consume(name, lambda *_: got.append("low"), auto_ack=True, arguments={"x-priority": -1})
    high.basic_consume(name, lambda *_: got.append("high"), auto_ack=True, arguments={"x-priority": 5})
    for _ in range(5):
        channel.basic_publish("", name, b"x")
    eventually(lambda: bool(high.connection.process_data_events(0.05)) or len(got) == 5, "the higher one gets all")
    low.connection.process_data_events(0.1)
    assert got == ["high"] * 5
    name = queue(channel, fresh_name("single"), arguments={"x-single-active-consumer": True})
    first, second = connect().channel(), connect().channel()
    got.clear()
    first.basic_consume(name, lambda *_: got.append("first"), auto_ack=True)
    second.basic_consume(name, lambda *_: got.append("second"), auto_ack=True)
    channel.basic_publish("", name, b"x")
    eventually(lambda: bool(first.connection.process_data_events(0.05)) or len(got) == 1, "the first is active")
    first.connection.close()
    channel.basic_publish("", name, b"x")
    eventually(lambda: bool(second.connection.process_data_events(0.05)) or len(got) == 2, "the second took over")
    assert got == ["first", "second"]


def test_direct_replies(connect: Connect, fresh_name: FreshName) -> None:
    client, server = connect().channel(), connect().channel()
    name = queue(server, fresh_name("requests"))
    replies: list[bytes] = []
    declared = client.queue_declare("amq.rabbitmq.reply-to", passive=True).method
    assert (declared.message_count, declared.consumer_count) == (0, 1), "the address exists before its consumer"
    client.basic_consume("amq.rabbitmq.reply-to", lambda *one: replies.append(one[3]), auto_ack=True)
    client.basic_publish("", name, b"question", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    request = get(server, name)
    assert request is not None
    assert request[1].reply_to.startswith("amq.rabbitmq.reply-to.")
    server.basic_publish("", request[1].reply_to, b"answer")
    eventually(lambda: bool(client.connection.process_data_events(0.05)) or replies == [b"answer"], "the reply came")
    refused(
        connect,
        406,
        "fast reply consumer does not exist",
        lambda one: (
            one.basic_publish("", name, b"x", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")),
            one.queue_declare(name, passive=True),
        ),
    )


def test_purge_and_conditional_deletion(channel: BlockingChannel, connect: Connect, fresh_name: FreshName) -> None:
    name = queue(channel, fresh_name("purged"))
    for _ in range(3):
        channel.basic_publish("", name, b"x")
    held = get(channel, name, auto_ack=False)
    assert held is not None
    assert channel.queue_purge(name).method.message_count == 2
    channel.basic_nack(held[0].delivery_tag)
    refused(connect, 406, "not empty", lambda one: one.queue_delete(name, if_empty=True))
    consumer = connect().channel()
    consumer.basic_consume(name, lambda *_: None)
    refused(connect, 406, "in use", lambda one: one.queue_delete(name, if_unused=True))
    assert channel.queue_delete(name).method.message_count in (0, 1)


def test_errors_of_channels(connect: Connect, fresh_name: FreshName) -> None:
    name, exchange = fresh_name("plain"), fresh_name("exchange")
    setup = connect().channel()
    queue(setup, name, durable=True, arguments={"x-message-ttl": 1000})
    setup.exchange_declare(exchange, "direct")
    internal = fresh_name("internal")
    setup.exchange_declare(internal, "fanout", internal=True)
    declared = {"durable": True, "arguments": {"x-message-ttl": 1000}}
    for code, text, act in (
        (404, "no queue 'nope' in vhost '/'", lambda one: one.queue_declare("nope", passive=True)),
        (404, "no exchange 'nope' in vhost '/'", lambda one: one.exchange_declare("nope", passive=True)),
        (404, "no exchange 'nope'", lambda one: one.queue_bind(name, "nope")),
        (404, "no queue 'nope'", lambda one: one.basic_get("nope")),
        (404, "no queue 'nope'", lambda one: one.basic_consume("nope", lambda *_: None)),
        (
            404,
            "no exchange 'nope'",
            lambda one: (one.basic_publish("nope", "", b""), one.queue_declare(name, passive=True)),
        ),
        (406, "inequivalent arg 'x-message-ttl'", lambda one: one.queue_declare(name, durable=True)),
        (406, "inequivalent arg 'durable'", lambda one: one.queue_declare(name, **{**declared, "durable": False})),
        (406, "inequivalent arg 'type'", lambda one: one.exchange_declare(exchange, "fanout")),
        (406, "unknown exchange type", lambda one: one.exchange_declare(fresh_name("odd"), "odd")),
        (406, "unknown delivery tag 7", lambda one: (one.basic_ack(7), one.queue_declare(name, passive=True))),
        (406, "invalid arg 'x-message-ttl'", lambda one: one.queue_declare("x", arguments={"x-message-ttl": "1"})),
        (406, "would have no effect", lambda one: one.queue_declare("x", arguments={"x-unheard-of": 1})),
        (403, "reserved prefix", lambda one: one.queue_declare("amq.mine")),
        (403, "default exchange", lambda one: one.queue_bind(name, "")),
        (403, "default exchange", lambda one: one.exchange_declare("", passive=True)),
        (403, "not allowed", lambda one: one.exchange_delete("amq.direct")),
        (403, "internal", lambda one: (one.basic_publish(internal, "", b""), one.queue_declare(name, passive=True))),
        (406, "user_id", lambda one: _publish_as(one, name, "somebody")),
    ):
        refused(connect, code, text, act)
    setup.queue_declare(name, **declared)


def _publish_as(channel: BlockingChannel, name: str, user: str) -> None:
    channel.basic_publish("", name, b"", pika.BasicProperties(user_id=user))
    channel.queue_declare(name, passive=True)


def test_errors_of_connections(connect: Connect) -> None:
    for code, act in (
        (540, lambda channel: channel.basic_qos(prefetch_size=1)),
        (540, lambda channel: channel.basic_recover(requeue=False)),
    ):
        connection = connect()
        with pytest.raises(ConnectionClosedByBroker) as caught:
            act(connection.channel())
        assert caught.value.reply_code == code
    with pytest.raises(ProbableAccessDeniedError, match="530"):
        connect(virtual_host="nowhere")
