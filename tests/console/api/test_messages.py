"""Messages over the API of a running node."""

from __future__ import annotations

import threading

import pytest

from soak.node import Node
from tests.console.api.asking import Asking

pytestmark = pytest.mark.clients


@pytest.fixture
def queue(ask: Asking, name: str) -> str:
    ask.good("POST", "queues", {"name": name})
    return name


def test_a_message_from_sending_to_settling(ask: Asking, queue: str) -> None:
    message = {
        "body": "grüße",
        "attributes": {"kind": "greeting", "size": {"type": "Number", "value": "5"}, "raw": {"base64": "AAE="}},
        "key": "k",
        "group": "g",
        "reply_to": "answers",
        "correlation_id": "c-1",
    }
    sent = ask.good("POST", f"queues/{queue}/messages", {"messages": [message]})["messages"]
    got = ask.good("POST", f"queues/{queue}/receive", {"lease_ms": 60_000})["messages"][0]
    assert {name: got[name] for name in message} == message
    assert got["message_id"] == sent[0]["message_id"]
    assert got["attempts"] == 1
    assert ask.good("POST", f"queues/{queue}/receive")["messages"] == []
    ask.good("POST", f"queues/{queue}/leases", {"changes": [{"receipt": got["receipt"], "lease_ms": 0}]})
    again = ask.good("POST", f"queues/{queue}/receive", {"lease_ms": 60_000})["messages"][0]
    assert again["attempts"] == 2
    status, refusal = ask("POST", f"queues/{queue}/settle", {"receipts": [got["receipt"]]})
    assert (status, refusal["code"]) == (409, "receipt-superseded")
    both = ask.good("POST", f"queues/{queue}/settle", {"receipts": [again["receipt"], "nonsense"]})["results"]
    assert both[0] == {}
    assert both[1]["code"] == "invalid-receipt"
    depth = ask.good("GET", f"queues/{queue}")["depth"]
    assert (depth["available"], depth["in_flight"]) == (0, 0)


def test_the_body_of_a_request_can_be_the_message(ask: Asking, queue: str) -> None:
    data = bytes(range(256)) * 100
    kind = {"Content-Type": "application/octet-stream"}
    path = f"queues/{queue}/messages?group=g&attribute.origin=file%20one&time_to_live_ms=600000"
    status, answer = ask.raw("POST", path, data, kind)
    assert status == 200, answer
    got = ask.good("POST", f"queues/{queue}/receive")["messages"][0]
    assert got["group"] == "g"
    assert got["attributes"] == {"origin": "file one"}
    assert set(got["body"]) == {"base64"}
    assert ask.raw("POST", f"queues/{queue}/messages?prio=1", b"x", kind)[0] == 400
    status, refusal = ask.raw("POST", f"queues/{queue}/messages", b"x=1", {"Content-Type": "text/plain"})
    assert (status, refusal["code"]) == (415, "unsupported-media-type")


def test_each_of_many_has_its_own_answer(ask: Asking, queue: str) -> None:
    large = "x" * (256 * 1024 + 1)
    answers = ask.good("POST", f"queues/{queue}/messages", {"messages": [{"body": "a"}, {"body": large}]})["messages"]
    assert "message_id" in answers[0]
    assert answers[1]["code"] == "message-too-large"
    assert ask("POST", f"queues/{queue}/messages", {"messages": [{"body": large}]})[0] == 413


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"messages": []},
        {"messages": [{}]},
        {"messages": [{"body": 5}]},
        {"messages": [{"body": {"base64": "!"}}]},
        {"messages": [{"body": "x", "delay_ms": -2}]},
        {"messages": [{"body": "x", "delay": 2}]},
        {"messages": [{"body": "x", "priority": 300}]},
        {"messages": [{"body": "x", "priority": 1}]},
        {"messages": [{"body": "x", "attributes": {"longhall.id": "x"}}]},
        {"messages": [{"body": "x"}] * 1001},
    ],
)
def test_what_is_no_message_is_refused_and_nothing_sent(ask: Asking, queue: str, value: object) -> None:
    status, refusal = ask("POST", f"queues/{queue}/messages", value)
    assert (status, refusal["code"]) == (400, "invalid-request")
    assert refusal["message"]
    assert ask.good("GET", f"queues/{queue}")["depth"]["available"] == 0


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'"\xff"', b"null", b'{"a": ' * 5000, b'{"messages":[{"body":"\\ud800"}]}']
)
def test_what_is_no_json_is_refused(ask: Asking, queue: str, body: bytes) -> None:
    status, refusal = ask.raw("POST", f"queues/{queue}/messages", body, {"Content-Type": "application/json"})
    assert (status, refusal["code"]) == (400, "invalid-request")


def test_a_lease_of_a_client_is_shorter_than_those_of_sessions(ask: Asking, queue: str) -> None:
    year_ms = 365 * 24 * 3_600_000
    ask.good("POST", f"queues/{queue}/messages", {"messages": [{"body": "x"}]})
    status, refusal = ask("POST", f"queues/{queue}/receive", {"lease_ms": year_ms})
    assert (status, refusal["code"], refusal["message"]) == (400, "invalid-request", "a lease lasts less than 365 days")
    (got,) = ask.good("POST", f"queues/{queue}/receive", {"lease_ms": year_ms - 1})["messages"]
    assert len(got["receipt"]) == 56  # A receipt with a MAC: that of a session has the pass of the queue.
    longer = {"changes": [{"receipt": got["receipt"], "lease_ms": year_ms}]}
    assert ask("POST", f"queues/{queue}/leases", longer)[0] == 400


def test_a_receiver_that_waits_is_woken_by_a_send(ask: Asking, node: Node, queue: str) -> None:
    got: list[object] = []

    def wait() -> None:
        receiver = Asking(node.http)
        got.extend(receiver.good("POST", f"queues/{queue}/receive", {"wait_ms": 20_000})["messages"])
        receiver.close()

    waiting = threading.Thread(target=wait)
    waiting.start()
    ask.good("POST", f"queues/{queue}/messages", {"messages": [{"body": "wake up"}]})
    waiting.join(20)
    assert len(got) == 1


def test_a_receiver_that_goes_away_takes_nothing_along(ask: Asking, node: Node, queue: str) -> None:
    gone = Asking(node.http)
    gone._connection.request(
        "POST", f"/api/v1/queues/{queue}/receive", b'{"wait_ms": 20000}', {"Content-Type": "application/json"}
    )
    gone.close()
    ask.good("GET", f"queues/{queue}")
    ask.good("POST", f"queues/{queue}/messages", {"messages": [{"body": "x"}]})
    got = ask.good("POST", f"queues/{queue}/receive", {"wait_ms": 5000})["messages"]
    assert [message["attempts"] for message in got] == [1]


def test_dead_letters_go_back_to_work(ask: Asking, name: str) -> None:
    ask.good("POST", "queues", {"name": name + "-dead"})
    letters = {"queue": name + "-dead", "attempts_max": 1}
    ask.good("POST", "queues", {"name": name, "settings": {"dead_letters": letters}})
    ask.good("POST", f"queues/{name}/messages", {"messages": [{"body": "x"}]})
    got = ask.good("POST", f"queues/{name}/receive", {"lease_ms": 60_000})["messages"][0]
    ask.good("POST", f"queues/{name}/leases", {"changes": [{"receipt": got["receipt"], "lease_ms": 0}]})
    assert ask.good("POST", f"queues/{name}/receive")["messages"] == []
    assert ask.good("GET", f"queues/{name}")["counts"]["deaths"] == {"attempts": 1}
    while not ask.good("GET", f"queues/{name}-dead")["depth"]["available"]:
        pass  # It is there when it is durable.
    move = ask.good("POST", f"queues/{name}-dead/moves", {})
    assert move["to_move"] == 1
    back = ask.good("POST", f"queues/{name}/receive", {"wait_ms": 10_000})["messages"]
    assert [message["body"] for message in back] == ["x"]
    moves = ask.good("GET", f"queues/{name}-dead/moves")["moves"]
    assert moves[0]["task_id"] == move["task_id"]
    assert ask("DELETE", "moves/nothing")[1]["code"] == "move-unknown"


def test_what_arrives_for_a_deleted_queue_is_a_dead_letter(ask: Asking, name: str) -> None:
    ask.good("POST", "queues", {"name": name + "-dead"})
    letters = {"queue": name + "-dead", "attempts_max": 1, "after_delete": True}
    ask.good("POST", "queues", {"name": name, "settings": {"dead_letters": letters}})
    ask.good("DELETE", f"queues/{name}")
    ask.good("POST", f"queues/{name}/messages", {"messages": [{"body": "too late"}]})
    [late] = ask.good("POST", f"queues/{name}-dead/receive", {"wait_ms": 10_000})["messages"]
    assert (late["body"], late["dead_letter_source"]) == ("too late", name)
    assert ask("POST", f"queues/{name}-never/messages", {"messages": [{"body": "x"}]})[1]["code"] == "unknown-queue"


def test_a_move_waits_for_room_in_its_target(ask: Asking, name: str) -> None:
    """The target never has more than its bound; the rest of the move comes as messages are settled."""
    ask.good("POST", "queues", {"name": name})
    ask.good("POST", "queues", {"name": name + "-to", "settings": {"messages_max": 2}})
    bodies = [f"m{number}" for number in range(6)]
    ask.good("POST", f"queues/{name}/messages", {"messages": [{"body": body} for body in bodies]})
    ask.good("POST", f"queues/{name}/moves", {"target": name + "-to"})
    moved: list[str] = []
    while len(moved) < len(bodies):
        depth = ask.good("GET", f"queues/{name}-to")["depth"]
        assert depth["available"] + depth["in_flight"] <= 2
        got = ask.good("POST", f"queues/{name}-to/receive", {"count": 10, "wait_ms": 10_000})["messages"]
        assert 0 < len(got) <= 2
        moved += [message["body"] for message in got]
        ask.good("POST", f"queues/{name}-to/settle", {"receipts": [message["receipt"] for message in got]})
    assert moved == bodies


def test_an_answer_goes_to_the_reply_queue_and_settles(ask: Asking, queue: str) -> None:
    ask.good("POST", "queues", {"name": queue + "-answers"})
    question = {"body": "2 + 2", "reply_to": queue + "-answers", "correlation_id": "c-1"}
    ask.good("POST", f"queues/{queue}/messages", {"messages": [question]})
    got = ask.good("POST", f"queues/{queue}/receive")["messages"][0]
    ask.good("POST", f"queues/{queue}/answer", {"receipt": got["receipt"], "message": {"body": "4"}})
    answer = ask.good("POST", f"queues/{queue}-answers/receive", {"wait_ms": 10_000})["messages"][0]
    assert (answer["body"], answer["correlation_id"]) == ("4", "c-1")
    assert ask.good("GET", f"queues/{queue}")["depth"]["in_flight"] == 0
    status, refusal = ask("POST", f"queues/{queue}/answer", {"receipt": "x", "message": {"body": "5"}})
    assert (status, refusal["code"]) == (400, "invalid-receipt")


def test_the_fate_of_a_message_is_told(ask: Asking, queue: str) -> None:
    ask.good("POST", "queues", {"name": queue + "-fates"})
    asked = {"body": "x", "reply_to": queue + "-fates", "correlation_id": "c-2", "report_fate": True}
    ask.good("POST", f"queues/{queue}/messages", {"messages": [asked]})
    got = ask.good("POST", f"queues/{queue}/receive")["messages"][0]
    ask.good("POST", f"queues/{queue}/settle", {"receipts": [got["receipt"]]})
    fate = ask.good("POST", f"queues/{queue}-fates/receive", {"wait_ms": 10_000})["messages"][0]
    assert (fate["fate"], fate["correlation_id"]) == ("settled", "c-2")
