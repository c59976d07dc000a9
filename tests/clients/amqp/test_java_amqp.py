"""The RabbitMQ Java client: one run of the program under java/, judged case by case."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.clients.java_program import HERE as SHARED
from tests.clients.java_program import java_command
from tests.clients.programs import Saw, run_cases

HERE = Path(__file__).parent / "java"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


@pytest.fixture(scope="module")
def saw(module_url: str) -> Saw:
    command = java_command(HERE, [SHARED / "Json.java"])
    return run_cases([*command, "AmqpCases", module_url, uuid.uuid4().hex[:8]])


def test_a_message_keeps_all_its_properties(saw: Saw) -> None:
    assert saw("properties") == {
        "body": "body",
        "same": True,
        "headers": "välue",
        "long": True,
        "date": True,
        "list": "[1, two, true]",
        "table": "{deep=2.5}",
    }


def test_consumers(saw: Saw) -> None:
    found = saw("consumers")
    assert (found["bounded"], found["again"], found["left"]) == (True, 3, 0)
    assert found["bodies"][:3] == ["0", "1", "2"]
    assert sorted(found["bodies"][3:]) == ["0", "1", "2", "3", "4", "5"]


def test_exchanges(saw: Saw) -> None:
    assert saw("exchanges") == {"in": "in", "out": "out"}


def test_confirms_and_returns(saw: Saw) -> None:
    assert saw("confirms") == {"returned": [312], "count": 500}


def test_transactions(saw: Saw) -> None:
    assert saw("transactions") == {"rolled": 0, "target": 1, "source": 0}


def test_dead_letters(saw: Saw) -> None:
    assert saw("deadLetters") == {"count": True, "reason": "expired", "time": True}


def test_direct_replies(saw: Saw) -> None:
    assert saw("directReply") == {"answer": "re: q"}


def test_streams(saw: Saw) -> None:
    assert saw("streams") == {"offsets": [0, 1, 2, 3, 4]}


def test_errors_close_the_channel(saw: Saw) -> None:
    assert saw("errors") == {
        "unknown": 404,
        "other": 406,
        "argument": 406,
        "quorum": 406,
        "internal": 403,
        "tag": 406,
        "unused": 406,
        "exclusive": 403,
    }
