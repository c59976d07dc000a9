"""amqplib: one run of the program under amqplib/, judged case by case."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from tests.clients.presence import need_command
from tests.clients.programs import Saw, fetched, run_cases

HERE = Path(__file__).parent / "amqplib"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def saw(module_url: str) -> Saw:
    interpreter, npm = need_command("node", "amqplib"), need_command("npm", "amqplib")
    manifest = [HERE / "package.json", HERE / "package-lock.json"]
    libraries = fetched("amqplib", manifest, [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"])
    # Node finds libraries beside the program, so the program is put beside the libraries.
    (libraries / "cases.js").write_bytes((HERE / "cases.js").read_bytes())
    return run_cases([interpreter, os.fspath(libraries / "cases.js"), module_url, uuid.uuid4().hex[:8]])


def test_a_message_keeps_all_its_properties(saw: Saw) -> None:
    found = saw("roundTrip")
    assert (found["content"], found["left"], found["key"]) == ("välue", 0, True)
    properties = found["properties"]
    assert properties.pop("headers") == {
        "n": 1,
        "deep": {"list": [1, "two", True, None]},
        "when": {"!": "timestamp", "value": 1700000000},
    }
    assert properties == {
        "contentType": "text/plain",
        "contentEncoding": "utf-8",
        "deliveryMode": 2,
        "priority": 3,
        "correlationId": "c",
        "replyTo": "r",
        "expiration": "60000",
        "messageId": "m",
        "timestamp": 1700000000,
        "type": "t",
        "userId": "guest",
        "appId": "a",
    }


def test_consumers(saw: Saw) -> None:
    assert saw("consumers") == {"bounded": 2, "again": ["1"], "messageCount": 2, "named": True}


def test_exchanges_of_every_type(saw: Saw) -> None:
    assert saw("exchanges") == {
        "direct": ["a"],
        "fanout": ["a", "b"],
        "topic": ["a.b.c", "x", "x.y.z"],
        "headers": ["in"],
        "through": "through",
    }


def test_returns_and_confirms(saw: Saw) -> None:
    found = saw("returnsAndConfirms")
    assert (found["returned"], found["outcomes"]) == ([["x", 312]], ["ack", "nack"])


def test_dead_letters(saw: Saw) -> None:
    assert saw("deadLetters") == {"reason": "rejected", "count": 1, "queue": True}


def test_direct_replies(saw: Saw) -> None:
    assert saw("directReply") == {"answer": "re: question"}


def test_streams(saw: Saw) -> None:
    assert saw("streams") == {"offsets": [2, 3, 4]}


def test_a_deleted_queue_cancels_its_consumer(saw: Saw) -> None:
    assert saw("cancelNotice") == {"notice": None}


def test_small_frames_and_heartbeats(saw: Saw) -> None:
    assert saw("tune") == {"size": 100000, "messageCount": 0}


@pytest.mark.parametrize(
    ("case", "code", "text"),
    [
        ("unknownQueue", 404, "NOT_FOUND - no queue"),
        ("unknownExchange", 404, "NOT_FOUND - no exchange"),
        ("otherArguments", 406, "PRECONDITION_FAILED - inequivalent arg 'durable'"),
        ("exclusive", 405, "RESOURCE_LOCKED - cannot obtain exclusive access"),
        ("reserved", 403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix"),
        ("defaultExchange", 403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        ("deliveryTag", 406, "PRECONDITION_FAILED - unknown delivery tag 7"),
        ("exchangeType", 406, "PRECONDITION_FAILED - unknown exchange type 'odd'"),
        ("notEmpty", 406, "not empty"),
    ],
)
def test_errors_close_the_channel(saw: Saw, case: str, code: int, text: str) -> None:
    found = saw("errors")[case]
    assert found["code"] == code
    assert text in found["text"]
