"""Looking at messages without taking them, giving them out again, large ones in parts, and single letters."""

from __future__ import annotations

import base64
import json

import pytest

from tests.console.api.asking import Asking

pytestmark = pytest.mark.clients

BYTES = {"Content-Type": "application/octet-stream"}


def made(ask: Asking, name: str, **settings: object) -> str:
    ask.good("POST", "queues", {"name": name, "settings": settings})
    return name


def sent(ask: Asking, queue: str, *bodies: str, **fields: object) -> None:
    ask.good("POST", f"queues/{queue}/messages", {"messages": [{"body": body, **fields} for body in bodies]})


def taken(ask: Asking, queue: str, count: int = 10) -> list[str]:
    messages = ask.good("POST", f"queues/{queue}/receive", {"count": count, "lease_ms": 60_000})["messages"]
    if messages:
        ask.good("POST", f"queues/{queue}/settle", {"receipts": [message["receipt"] for message in messages]})
    return [message["body"] for message in messages]


def test_peeking_takes_nothing(ask: Asking, name: str) -> None:
    made(ask, name)
    sent(ask, name, "a", "b", "c")
    ask.good("POST", f"queues/{name}/receive", {"lease_ms": 60_000})
    sent(ask, name, "later", delay_ms=600_000)
    page = ask.good("GET", f"queues/{name}/messages?count=2")
    assert [(row["message"]["body"], row["state"]) for row in page["messages"]] == [("a", "leased"), ("b", "waiting")]
    rest = ask.good("GET", f"queues/{name}/messages?count=10&after={page['next']}")
    assert [(row["message"]["body"], row["state"]) for row in rest["messages"]] == [
        ("c", "waiting"),
        ("later", "delayed"),
    ]
    assert taken(ask, name) == ["b", "c"]


def test_leases_are_what_somebody_has(ask: Asking, name: str) -> None:
    made(ask, name)
    sent(ask, name, "a", "b", "c")
    message = ask.good("POST", f"queues/{name}/receive", {"lease_ms": 60_000})["messages"][0]
    leases = ask.good("GET", f"queues/{name}/leases?count=10")["leases"]
    assert [(lease["message_id"], lease["offset"], lease["attempts"]) for lease in leases] == [
        (message["message_id"], 0, 1)
    ]
    assert leases[0]["until_ms"] > message["sent_ms"]
    assert ask("GET", "queues/no-such-queue/leases")[0] == 404


def test_searching_by_text_and_by_attributes(ask: Asking, name: str) -> None:
    made(ask, name)
    sent(ask, name, "red apple", "green apple", attributes={"kind": "fruit"})
    sent(ask, name, "red car", attributes={"kind": "thing"})
    found = ask.good("POST", f"queues/{name}/search", {"text": "red"})["messages"]
    assert [row["message"]["body"] for row in found] == ["red apple", "red car"]
    found = ask.good("POST", f"queues/{name}/search", {"text": "red", "filter": "kind = 'fruit'"})["messages"]
    assert [row["message"]["body"] for row in found] == ["red apple"]
    assert ask("POST", f"queues/{name}/search", {"filter": "kind = "})[0] == 400
    received = ask.good("POST", f"queues/{name}/receive", {"count": 10, "filter": "kind = 'thing'"})["messages"]
    assert [message["body"] for message in received] == ["red car"]


def test_what_is_kept_is_given_out_again(ask: Asking, name: str) -> None:
    made(ask, name, settled="keep")
    sent(ask, name, "a", "b")
    assert taken(ask, name) == ["a", "b"]
    assert ask.good("POST", f"queues/{name}/rewind", {})["depth"]["available"] == 2
    assert taken(ask, name) == ["a", "b"]
    ask.good("POST", f"queues/{name}/rewind", {"offsets": {"0": 1}})
    assert taken(ask, name) == ["b"]
    fork = ask.good("POST", f"queues/{name}/fork", {"name": name + "-fork", "settings": {"lease_ms": 7000}})
    assert (fork["settings"]["lease_ms"], fork["settings"]["settled"]) == (7000, "keep")
    assert taken(ask, name + "-fork") == ["a", "b"]
    assert taken(ask, name) == []
    assert ask("POST", f"queues/{name}/rewind", {"to_ms": 1, "offsets": {}})[0] == 400
    made(ask, name + "-free")
    assert ask("POST", f"queues/{name}-free/rewind", {})[1]["code"] == "not-kept"


def test_several_queues_by_weight(ask: Asking, name: str) -> None:
    for each in ("high", "low"):
        made(ask, f"{name}-{each}")
        sent(ask, f"{name}-{each}", each, each)
    wish = {"queues": {f"{name}-high": 3, f"{name}-low": 1}, "count": 4}
    received = ask.good("POST", "receive", wish)["messages"]
    assert sorted((message["queue"], message["body"]) for message in received) == [
        (f"{name}-high", "high"),
        (f"{name}-high", "high"),
        (f"{name}-low", "low"),
        (f"{name}-low", "low"),
    ]
    assert ask("POST", "receive", {"queues": {"nowhere": 1}})[1]["code"] == "unknown-queue"
    assert ask("POST", "receive", {"queues": {}})[0] == 400


def test_a_large_message_is_cut_and_joined_by_itself(ask: Asking, name: str) -> None:
    made(ask, name, whole_bytes_max=8 * 1024 * 1024)
    data = bytes(range(256)) * 4 * 1024 * 3
    status, answer = ask.raw("POST", f"queues/{name}/messages", data, BYTES)
    assert status == 200, answer
    got = ask.good("POST", f"queues/{name}/receive", {"count": 1})["messages"][0]
    assert base64.b64decode(got["body"]["base64"]) == data


def test_parts_come_and_go_one_by_one(ask: Asking, name: str) -> None:
    made(ask, name, whole_bytes_max=64 * 1024 * 1024)
    upload = ask.good("POST", f"queues/{name}/uploads")
    assert upload["part_bytes_max"] == 1024 * 1024
    path = f"queues/{name}/uploads/{upload['upload_id']}"
    parts = [bytes([number]) * 1024 * 1024 for number in range(17)]
    for number, part in enumerate(parts):
        assert ask.raw("PUT", f"{path}/parts/{number}", part, BYTES)[0] == 200
    assert ask.good("POST", f"queues/{name}/receive")["messages"] == []
    assert ask("POST", path, {"parts": 18})[0] == 400
    ask.good("POST", path, {"parts": 17, "attributes": {"kind": "film"}})
    got = ask.good("POST", f"queues/{name}/receive")["messages"][0]
    assert (got["parts"], got["whole_bytes"], got["attributes"]) == (17, 17 * 1024 * 1024, {"kind": "film"})
    for number, part in enumerate(parts):
        wish = json.dumps({"receipt": got["receipt"], "number": number}).encode()
        status, data = ask.raw("POST", f"queues/{name}/part", wish, {"Content-Type": "application/json"})
        assert (status, data) == (200, part)
    assert ask("POST", f"queues/{name}/part", {"receipt": got["receipt"], "number": 17})[0] == 400
    again = ask.good("POST", f"queues/{name}/uploads")["upload_id"]
    ask.good("DELETE", f"queues/{name}/uploads/{again}")
    assert ask("DELETE", f"queues/{name}/uploads/{again}")[0] == 400
    assert ask.raw("PUT", f"{path}/parts/x", b"", BYTES)[0] == 400


def test_dead_letters_are_looked_at_and_put_right(ask: Asking, name: str) -> None:
    made(ask, name + "-dead")
    made(ask, name, dead_letters={"queue": name + "-dead", "attempts_max": 1})
    sent(ask, name, "wrong", attributes={"kind": "order"})
    got = ask.good("POST", f"queues/{name}/receive", {"lease_ms": 60_000})["messages"][0]
    ask.good("POST", f"queues/{name}/leases", {"changes": [{"receipt": got["receipt"], "lease_ms": 0}]})
    ask.good("POST", f"queues/{name}/receive")
    while not ask.good("GET", f"queues/{name}-dead")["depth"]["available"]:
        pass  # It is there when it is durable.
    letters = ask.good("GET", f"queues/{name}-dead/letters")["letters"]
    assert [(letter["body"], letter["reason"], letter["source"]) for letter in letters] == [("wrong", "attempts", name)]
    path = f"queues/{name}-dead/letters/{letters[0]['message_id']}"
    assert ask.good("GET", path)["attributes"] == {"kind": "order"}
    assert ask("PATCH", path, {})[0] == 400
    edited = ask.good("PATCH", path, {"body": "right", "attributes": {"kind": "order", "by": "alice"}})
    assert (edited["body"], edited["reason"]) == ("right", "attempts")
    ask.good("POST", f"queues/{name}-dead/moves", {"rate_max": 100})
    back = ask.good("POST", f"queues/{name}/receive", {"wait_ms": 10_000})["messages"]
    assert [(message["body"], message["attributes"]["by"]) for message in back] == [("right", "alice")]
    assert ask("GET", path)[1]["code"] == "unknown-message"
