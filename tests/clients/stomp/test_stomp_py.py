"""stomp.py on each version: sending, subscribing, acknowledging, transactions, durable subscriptions and replies."""

from __future__ import annotations

import time

import pytest
from stomp.exception import ConnectFailedException

from tests.clients.conftest import FreshName
from tests.clients.stomp.conftest import Client, Connect


def test_a_message_keeps_body_and_headers(client: Client, fresh_name: FreshName) -> None:
    destination = f"/queue/{fresh_name('plain')}"
    client.subscribe(destination)
    path = "a:b" if client.version == "1.0" else "a:b\\c"  # stomp.py unescapes what it reads on 1.0 as well.
    headers = {"color": "red", "path": path, "content-type": "text/plain", "persistent": "true"}
    client.send(destination, "häl\0lo", **headers)
    message = client.take()
    assert message.body == "häl\0lo"
    assert {name: message.headers[name] for name in headers} == headers
    assert message.headers["destination"] == destination
    assert message.headers["subscription"] == "1"
    assert message.headers["content-length"] == "7"
    assert ("ack" in message.headers) is False


def test_the_login_says_what_was_agreed(connect: Connect) -> None:
    for version in ("1.0", "1.1", "1.2"):
        client = connect(version)
        # stomp.py offers 1.0 by naming no version.
        assert client.connected["version"] == version
        assert client.connected["session"].startswith("session-")
        assert client.connected["heart-beat"] == "0,0"


def test_acknowledged_messages_are_gone_and_others_come_again(
    client: Client, connect: Connect, fresh_name: FreshName
) -> None:
    destination = f"/queue/{fresh_name('acks')}"
    for number in range(4):
        client.send(destination, str(number))
    client.subscribe(destination, ack="client-individual")
    messages = [client.take() for _ in range(4)]
    assert {message.headers["redelivered"] for message in messages} == {"false"}
    client.ack(messages[1])
    client.nack(messages[2])
    again = client.take()
    assert (again.body, again.headers["redelivered"]) == ("2", "true")
    client.ack(again)
    client.connection.disconnect(receipt="bye")
    client.wait_receipt("bye")
    other = connect("1.2")
    other.subscribe(destination)
    found = [other.take() for _ in range(2)]
    assert [(one.body, one.headers["redelivered"]) for one in found] == [("0", "true"), ("3", "true")]
    assert other.has_nothing()


def test_mode_client_acknowledges_everything_before(client: Client, connect: Connect, fresh_name: FreshName) -> None:
    first, second = (f"/queue/{fresh_name(name)}" for name in ("one", "two"))
    client.subscribe(first, id="a", ack="client")
    client.subscribe(second, id="b", ack="client")
    client.send(first, "1")
    client.take()
    client.send(second, "2")
    last = client.take()
    client.send(first, "3")
    client.take()
    client.ack(last)
    client.connection.disconnect(receipt="bye")
    client.wait_receipt("bye")
    other = connect()
    other.subscribe(first, id="a")
    other.subscribe(second, id="b")
    assert other.take().body == "3"
    assert other.has_nothing()


def test_a_rejected_message_goes_to_the_dead_letters(client: Client, fresh_name: FreshName) -> None:
    name = fresh_name("rejects")
    client.subscribe(f"/queue/{name}.dead", id="dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.dead"}
    client.subscribe(f"/queue/{name}", id="live", ack="client-individual", **arguments)
    client.send(f"/queue/{name}", "unwanted", **arguments)
    client.nack(client.take(), requeue="false")
    letter = client.take()
    assert (letter.body, letter.headers["subscription"]) == ("unwanted", "dead")
    assert letter.headers["x-first-death-reason"] == "rejected"


def test_prefetch_count_bounds_what_the_client_holds(client: Client, fresh_name: FreshName) -> None:
    destination = f"/queue/{fresh_name('prefetch')}"
    for number in range(3):
        client.send(destination, str(number))
    client.subscribe(destination, ack="client-individual", prefetch_count="1")
    for number in range(3):
        message = client.take()
        assert message.body == str(number)
        assert client.has_nothing()
        client.ack(message)


def test_a_transaction_is_all_or_nothing(client: Client, fresh_name: FreshName) -> None:
    source, target = (f"/queue/{fresh_name(name)}" for name in ("source", "target"))
    client.send(source, "work")
    client.subscribe(source, id="in", ack="client-individual")
    client.subscribe(target, id="out")
    message = client.take()
    key = {"id": message.headers["ack"]} if client.version == "1.2" else {"message_id": message.headers["message-id"]}

    client.frame("BEGIN", transaction="t1")
    client.connection.send(target, "dropped", headers={"transaction": "t1"})
    client.connection.send_frame(
        "ACK", {name.replace("_", "-"): value for name, value in key.items()} | {"transaction": "t1"}
    )
    client.frame("ABORT", transaction="t1")
    assert client.has_nothing()

    client.frame("BEGIN", transaction="t2")
    for text in ("one", "two"):
        client.connection.send(target, text, headers={"transaction": "t2", "receipt": f"sent {text}"})
    client.connection.send_frame(
        "ACK", {name.replace("_", "-"): value for name, value in key.items()} | {"transaction": "t2"}
    )
    assert client.has_nothing()
    assert client.receipts.empty()
    client.connection.send_frame("COMMIT", {"transaction": "t2", "receipt": "committed"})
    assert [client.receipts.get(timeout=20) for _ in range(3)] == ["sent one", "sent two", "committed"]
    assert client.bodies(2) == ["one", "two"]
    client.unsubscribe("in")
    client.subscribe(source, id="again")
    assert client.has_nothing()


def test_acknowledgements_in_a_transaction_have_their_receipts_before_it_ends(
    client: Client, fresh_name: FreshName
) -> None:
    source = f"/queue/{fresh_name('source')}"
    client.subscribe(source, ack="client")
    client.send(source, "one")
    client.send(source, "two")
    first, second = client.take(), client.take()
    client.unsubscribe()
    client.frame("BEGIN", transaction="t1")
    client.ack(second, transaction="t1")  # It ends the first one, too, also after UNSUBSCRIBE.
    client.ack(first, transaction="t1")
    client.frame("COMMIT", transaction="t1")
    client.subscribe(source, id="again")
    assert client.has_nothing()


def test_a_delivery_keeps_the_mode_of_its_subscription(client: Client, connect: Connect, fresh_name: FreshName) -> None:
    one, other = (f"/queue/{fresh_name(name)}" for name in ("one", "other"))
    client.subscribe(one, id="a", ack="client-individual")
    client.subscribe(other, id="b", ack="client-individual")
    client.send(one, "1")
    kept = client.take()
    client.send(other, "2")
    last = client.take()
    client.unsubscribe("b")
    client.subscribe(other, id="b", ack="client")
    client.ack(last)
    client.ack(kept, "NACK")
    assert client.take().body == "1"


def test_unsubscribe_deletes_the_queue_of_its_subscription_alone(client: Client, fresh_name: FreshName) -> None:
    topic, other = fresh_name("topic"), fresh_name("other")
    client.send(f"/queue/{other}", "kept")
    durable = {"durable": "true", "auto-delete": "false"}
    client.subscribe(f"/topic/{topic}", id="d", **durable)
    client.unsubscribe("d", **durable, **{"x-queue-name": other})
    client.send(f"/topic/{topic}", "for nobody")
    client.subscribe(f"/amq/queue/{other}", id="o")
    assert client.take().body == "kept"
    client.subscribe(f"/topic/{topic}", id="d", **durable)
    assert client.has_nothing()
    client.unsubscribe("d", **durable)


def test_topics_go_to_all_who_listen(client: Client, connect: Connect, fresh_name: FreshName) -> None:
    topic = fresh_name("topic")
    other = connect("1.2")
    client.subscribe(f"/topic/{topic}.*")
    other.subscribe(f"/topic/{topic}.#")
    client.send(f"/topic/{topic}.a", "one")
    client.send(f"/topic/{topic}.a.b", "two")
    assert client.take().headers["destination"] == f"/topic/{topic}.a"
    assert client.has_nothing()
    assert other.bodies(2) == ["one", "two"]
    client.unsubscribe()
    client.send(f"/topic/{topic}.a", "three")
    assert client.has_nothing()


def test_a_durable_subscription_waits_for_its_client(client: Client, connect: Connect, fresh_name: FreshName) -> None:
    topic, id = f"/topic/{fresh_name('durable')}", fresh_name("id")
    durable = {"durable": "true", "auto-delete": "false"}
    client.subscribe(topic, id=id, **durable)
    client.connection.disconnect(receipt="bye")
    client.wait_receipt("bye")
    other = connect("1.2")
    other.send(topic, "while you were away")
    other.subscribe(topic, id=id, **durable)
    assert other.bodies(1) == ["while you were away"]
    other.unsubscribe(id, **durable)  # Deletes the queue.
    other.send(topic, "nobody listens")
    other.subscribe(topic, id=id, **durable)
    assert other.has_nothing()
    other.unsubscribe(id, **durable)


def test_exchanges_and_named_subscription_queues(client: Client, fresh_name: FreshName) -> None:
    name = fresh_name("named")
    client.subscribe("/exchange/amq.direct/" + name, id="a", **{"x-queue-name": name})
    client.send("/exchange/amq.direct/" + name, "direct")
    message = client.take()
    assert (message.body, message.headers["destination"]) == ("direct", f"/exchange/amq.direct/{name}")
    client.send(f"/amq/queue/{name}", "by the name of the queue")
    assert client.bodies(1) == ["by the name of the queue"]
    client.subscribe("/exchange/amq.fanout", id="b")
    client.send("/exchange/amq.fanout", "to all")
    assert client.take().headers["destination"] == "/exchange/amq.fanout"


def test_a_request_is_answered_through_a_temporary_queue(
    client: Client, connect: Connect, fresh_name: FreshName
) -> None:
    requests = f"/queue/{fresh_name('requests')}"
    server = connect("1.2")
    server.subscribe(requests)
    client.send(requests, "question", reply_to="/temp-queue/answers", correlation_id="c1")
    question = server.take()
    assert question.headers["reply-to"].startswith("/reply-queue/")
    server.send(question.headers["reply-to"], "answer", correlation_id=question.headers["correlation-id"])
    answer = client.take()
    assert (answer.body, answer.headers["subscription"]) == ("answer", "/temp-queue/answers")
    assert answer.headers["correlation-id"] == "c1"
    client.send(requests, "again", reply_to="/temp-queue/answers")
    assert server.take().headers["reply-to"] == question.headers["reply-to"]


def test_selectors_share_a_queue_and_drop_what_a_topic_does_not_want(client: Client, fresh_name: FreshName) -> None:
    destination, topic = f"/queue/{fresh_name('selected')}", f"/topic/{fresh_name('selected')}"
    client.subscribe(destination, id="red", selector="color = 'red' AND size BETWEEN 1 AND 5")
    client.subscribe(destination, id="other", selector="color <> 'red' OR size NOT IN ('1', '2', '3', '4', '5')")
    for color, size in (("red", "3"), ("blue", "3"), ("red", "9")):
        client.send(destination, color + size, color=color, size=size)
    found = [client.take() for _ in range(3)]
    assert {(one.body, one.headers["subscription"]) for one in found} == {
        ("red3", "red"),
        ("blue3", "other"),
        ("red9", "other"),
    }
    client.subscribe(topic, id="topic", ack="client", selector="color LIKE 'r%'", prefetch_count="1")
    for color in ("blue", "green", "red"):
        client.send(topic, color, color=color)
    assert client.bodies(1) == ["red"]


def test_priorities_delays_and_time_to_live(client: Client, fresh_name: FreshName) -> None:
    destination = f"/queue/{fresh_name('prior')}"
    arguments = {"x-max-priority": "5"}
    client.send(destination, "low", priority="0", **arguments)
    client.send(destination, "high", priority="5", **arguments)
    client.send(destination, "expired", expiration="1", **arguments)
    client.send(destination, "late", **arguments, **{"x-delay": "400"})
    time.sleep(0.05)
    client.subscribe(destination, **arguments)
    assert client.bodies(3) == ["high", "low", "late"]


def test_a_queue_that_refuses_tells_the_sender_who_asked(client: Client, fresh_name: FreshName) -> None:
    destination = f"/queue/{fresh_name('full')}"
    arguments = {"x-max-length": "1", "x-overflow": "reject-publish"}
    client.send(destination, "fits", **arguments)
    client.connection.send(destination, "too much", headers={"receipt": "r", **arguments})
    error = client.error()
    assert (error.headers["message"], error.headers["receipt-id"]) == ("Message refused", "r")
    client.subscribe(destination, **arguments)
    assert client.bodies(1) == ["fits"]


def test_a_deleted_queue_ends_its_subscriptions(client: Client, connect: Connect, fresh_name: FreshName) -> None:
    topic, id = f"/topic/{fresh_name('ended')}", fresh_name("id")
    other = connect("1.2")
    other.subscribe(topic, id=id, durable="true")
    client.subscribe(topic, id=id, durable="true")
    other.unsubscribe(id, durable="true")
    error = client.error()
    assert error.headers["message"] == "Server cancelled subscription"
    assert error.headers["subscription"] == id
    assert error.body == (
        f"The server has canceled a subscription.\nNo more messages will be delivered for \"id='{id}'\".\n"
    )
    assert client.has_nothing()  # The connection goes on.


def test_heart_beats_keep_a_silent_connection(connect: Connect, fresh_name: FreshName) -> None:
    client = connect("1.2", heartbeats=(1000, 1000))
    assert client.connected["heart-beat"] == "1000,1000"
    time.sleep(2.8)
    assert client.ends.empty()
    client.subscribe(f"/queue/{fresh_name('beats')}")


def test_a_virtual_host_that_is_none(connect: Connect) -> None:
    client = connect("1.2", login=False, vhost="//")
    with pytest.raises(ConnectFailedException):
        client.connect()
    error = client.error()
    assert (error.headers["message"], error.body) == ("Bad CONNECT", "Virtual host '//' access denied")
    assert client.ends.get(timeout=20)
