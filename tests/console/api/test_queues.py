"""Queues over the API of a running node, from their making to their end."""

from __future__ import annotations

import pytest

from longhall.console.api.settings import shown_settings
from longhall.queues.settings import QueueSettings
from tests.console.api.asking import Asking

pytestmark = pytest.mark.clients


def test_a_queue_from_its_making_to_its_end(ask: Asking, name: str) -> None:
    status, made = ask("POST", "queues", {"name": name, "settings": {"lease_ms": 5000, "tags": {"team": "blue"}}})
    assert status == 201
    assert made["settings"]["lease_ms"] == 5000
    nothing = {"available": 0, "in_flight": 0, "delayed": 0, "bytes": 0, "oldest_age_ms": 0}
    assert made["depth"] == {**nothing, "parts": 1, "parts_going": 0, "generation": 0}
    changed = ask.good("PATCH", f"queues/{name}", {"settings": {"delay_ms": 10, "lease_ms": None}})
    assert changed["settings"]["delay_ms"] == 10
    assert changed["settings"]["lease_ms"] == 30_000
    assert changed["settings"]["tags"] == {"team": "blue"}
    assert ask.good("GET", f"queues/{name}") == changed
    assert [row["name"] for row in ask.good("GET", f"queues?prefix={name}")["queues"]] == [name]
    assert ask("POST", "queues", {"name": name})[1]["code"] == "queue-exists"
    ask.good("DELETE", f"queues/{name}")
    status, refusal = ask("GET", f"queues/{name}")
    assert (status, refusal["code"]) == (404, "unknown-queue")


def test_every_setting_can_be_said_and_is_shown(ask: Asking, name: str) -> None:
    ask.good("POST", "queues", {"name": name + "-dead"})
    settings = {
        **shown_settings(QueueSettings(placement="hall")),
        "dead_letters": {"queue": name + "-dead", "attempts_max": 3, "on_delete": False, "after_delete": False},
        "retry": {"first_ms": 100, "lapsed": True, "sends": False, "factor": 3.0, "longest_ms": 5000},
        "hours": {
            "from_minute": 0,
            "to_minute": 1440,
            "also": [{"from_minute": 60, "to_minute": 120}],
            "zone": "Asia/Tokyo",
        },
        "when_full": "drop-oldest",
        "messages_max": 10,
        "settled": "keep",
    }
    made = ask.good("POST", "queues", {"name": name, "settings": settings})
    assert made["settings"] == settings
    assert ask.good("GET", f"queues/{name}-dead")["dead_letters_of"] == [name]


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"leas_ms": 5}, "lease_ms"),
        ({"lease_ms": -1}, "lease_ms"),
        ({"lease_ms": "5"}, "lease_ms"),
        ({"when_full": "explode"}, "when_full"),
        ({"dead_letters": {"queue": "nowhere"}}, "create it first"),
        ({"dead_letters": {"queue": "a", "attempts": 3}}, "dead_letters.attempts_max"),
        ({"door": {}}, "no setting"),
    ],
)
def test_a_wrong_setting_is_named_and_nothing_is_made(ask: Asking, name: str, settings: object, hint: str) -> None:
    status, refusal = ask("POST", "queues", {"name": name, "settings": settings})
    assert (status, refusal["code"]) == (400, "invalid-configuration")
    assert hint in refusal["message"]
    assert ask("GET", f"queues/{name}")[0] == 404


def test_what_is_decided_at_the_beginning_stays(ask: Asking, name: str) -> None:
    ask.good("POST", "queues", {"name": name})
    for settings in ({"fifo": True}, {"partitions": 3}):
        assert ask("PATCH", f"queues/{name}", {"settings": settings})[0] == 400


def test_lists_come_in_pages(ask: Asking, name: str) -> None:
    names = [f"{name}-{letter}" for letter in "abcde"]
    for each in names:
        ask.good("POST", "queues", {"name": each})
    found: list[str] = []
    after = ""
    while True:
        page = ask.good("GET", f"queues?prefix={name}-&limit=2&after={after}")
        found += [row["name"] for row in page["queues"]]
        after = page.get("next", "")
        if not after:
            break
    assert found == names


def test_a_topic_becomes_a_queue(ask: Asking, name: str) -> None:
    ask.good("POST", "queues", {"name": name})
    ask.good("POST", f"queues/{name}/messages", {"messages": [{"body": "a"}, {"body": "b"}]})
    ask.good("POST", "queues", {"name": name + "-again", "topic": name})
    received = ask.good("POST", f"queues/{name}-again/receive", {"count": 10})
    assert [message["body"] for message in received["messages"]] == ["a", "b"]
    assert ask("POST", "queues", {"name": name + "-no", "topic": "nowhere"})[1]["code"] == "unknown-topic"


def test_paused_nothing_is_given_out_and_purged_nothing_is_left(ask: Asking, name: str) -> None:
    ask.good("POST", "queues", {"name": name})
    ask.good("POST", f"queues/{name}/messages", {"messages": [{"body": "a"}, {"body": "b", "delay_ms": 600_000}]})
    assert ask.good("POST", f"queues/{name}/pause")["paused"]
    assert ask.good("POST", f"queues/{name}/receive")["messages"] == []
    assert not ask.good("POST", f"queues/{name}/resume")["paused"]
    depth = ask.good("GET", f"queues/{name}")["depth"]
    assert (depth["available"], depth["delayed"]) == (1, 1)
    depth = ask.good("POST", f"queues/{name}/purge")["depth"]
    assert (depth["available"], depth["delayed"]) == (0, 0)
    assert ask("POST", f"queues/{name}/purge")[1]["code"] == "purge-running"
