"""Jobs through the command line, on the session of the suite."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from longhall.cli.pipeline.passes import Pass
from longhall.records.batch import Record
from soak.node import Node
from tests.pipeline.conftest import Command, FreshName, MakeTopic, Produce, ReadTopic
from tests.pipeline.day import Day
from tests.pipeline.shop import Shop, open_shop

MINUTE_MS = 60_000
COMMITTED = {"kafka.isolation.level": "read_committed"}
WHOLE_DAY = ("--since", "2025-11-10T00:00Z", "--until", "2025-11-11T00:00Z")


@pytest.fixture
def shop(node: Node, fresh_name: FreshName) -> Shop:
    return open_shop(node, fresh_name("shop"))


def told(city: str, amount: int, minute: int) -> Record:
    """An order whose own time is in its value; the message's is another."""
    at = f"2026-01-01T00:{minute:02}:00Z"
    return Record(-1, 1000, city.encode(), json.dumps({"city": city, "amount": amount, "at": at}).encode())


def test_sql_from_two_topics_to_one_resumes(
    command: Command, make_topic: MakeTopic, produce: Produce, read_topic: ReadTopic, tmp_path: Path
) -> None:
    """One topic's columns are inferred, the other's given; what was there is told once, whatever is run again."""
    shops, web, target = make_topic(2), make_topic(), make_topic()
    produce(shops, 1, [told("Oslo", 5, 1), told("Rome", 50, 2)])
    produce(web, 0, [Record(-1, 1, b"Bern", b'{"town":"Bern","sum":70,"more":true}'), Record(-1, 1, None, b"no json")])
    query = (
        f"select _key, city, amount from `{shops}` where amount > 10 "
        f"union all select _key, town, sum from `{web}` where sum > 10"
    )
    words = ("sql", query, "--to", target, "--once", "--schema", f"{web}=town string, sum bigint", "-o", "json")
    ended = command(*words, "--checkpoint", str(tmp_path))
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)["messages_read"] == 4
    rows = {(row.key, row.value) for row in read_topic(target, **COMMITTED).collect()}
    assert rows == {(b"Rome", b'{"city":"Rome","amount":50}'), (b"Bern", b'{"city":"Bern","amount":70}')}
    produce(shops, 0, [told("Graz", 99, 3)])
    assert command(*words, "--checkpoint", str(tmp_path)).code == 0
    assert sorted(row.key for row in read_topic(target, **COMMITTED).collect()) == [b"Bern", b"Graz", b"Rome"]


def test_sql_with_windows_and_a_watermark_by_a_field_of_the_values(
    command: Command, make_topic: MakeTopic, produce: Produce, read_topic: ReadTopic
) -> None:
    """A window is told when the watermark has passed it, and what comes later than that changes nothing."""
    source, target = make_topic(), make_topic()
    produce(source, 0, [told("Oslo", 1, 1), told("Oslo", 2, 4), told("Rome", 7, 12), told("Oslo", 1, 40)])
    query = f"select window.start as at, sum(amount) as sum from `{source}` group by window(at, '10 minutes')"
    words = ("sql", query, "--to", target, "--once", "--watermark", f"{source}.at=1 minute")
    ended = command(*words)
    assert ended.code == 0, ended.err
    assert f"{source}: `amount` bigint, `at` string, `city` string" in ended.err
    assert [row.value for row in read_topic(target, **COMMITTED).collect()] == [
        b'{"at":"2026-01-01T00:00:00.000Z","sum":3}',
        b'{"at":"2026-01-01T00:10:00.000Z","sum":7}',
    ]
    produce(source, 0, [told("Late", 100, 2), told("Oslo", 1, 59)])
    assert command(*words).code == 0
    assert [json.loads(row.value)["sum"] for row in read_topic(target, **COMMITTED).collect()] == [3, 7, 1]


def test_sql_errors_are_one_line(command: Command, make_topic: MakeTopic) -> None:
    topic, target = make_topic(), make_topic()
    for words, line in (
        (("select * from nowhere", "--to", target), "there is no topic nowhere; `longhall topic list` shows"),
        ((f"select * from `{topic}`", "--to", target), f"the columns of {topic} cannot be inferred: it has no"),
        (("selec 1", "--to", target), "the query is not understood: "),
        (("select 1", "--to", target, "--watermark", "=5"), "the watermark '=5' must be DELAY"),
        (("select 1", "--to", target, "--mode", "often"), "the mode 'often' is none of append, update, complete"),
    ):
        ended = command("sql", *words, "--once", "-o", "json")
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith(f"longhall: {line}"), ended.err
        assert ended.err.count("\n") == 1


def test_reconcile_uses_the_state_of_a_running_queue(command: Command, shop: Shop, node: Node) -> None:
    """Settled, dead, leased and waiting: all accounted for, over periods before, with and behind them."""
    words = ("reconcile", "--queues", shop.name, "--http", node.http, "--state", "-o", "json")
    ended = command(*words, "--since", "1h ago", "--strict")
    assert (ended.code, ended.err) == (0, "")
    [balance] = json.loads(ended.out)
    fates = {name: balance[name] for name in ("sent", "settled", "died", "open", "lost", "delivered_twice")}
    assert fates == {"sent": 6, "settled": 1, "died": 2, "open": 3, "lost": 0, "delivered_twice": 0}
    [before] = json.loads(command(*words, "--since", "3h ago", "--until", "2h ago").out)
    assert (before["sent"], before["complete"]) == (0, True)


def test_an_interrupted_job_resumes_with_its_period(
    command: Command, day: tuple[str, Day], make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second queue of two has no audit; when it has one, the first is not looked at again."""
    queue, made = day
    second = make_topic()
    words = ("reconcile", "--queues", f"{queue},{second}", "--no-state", *WHOLE_DAY)
    ended = command(*words, "-o", "json")
    assert (ended.code, ended.out) == (1, "")
    assert f"queue {second} has no audit topic" in ended.err
    make_topic(name=f"{second}.deliveries")

    from longhall.pipeline import reconcile

    seen = []
    real = reconcile.reconcile

    def watched(name: str, *more: Any, **named: Any) -> Any:
        seen.append(name)
        return real(name, *more, **named)

    monkeypatch.setattr(reconcile, "reconcile", watched)
    again = command(*words)
    assert again.code == 1
    assert seen == [second]
    assert re.search(r"going on with what began at .*; 1 are done", again.err)
    assert f"{queue}: {len(made.planted.lost)} messages are lost, 0 offsets unaccounted for" in again.err
    assert f"{second}: all 0 messages are accounted for" in again.err
    assert listed(again.out, "lost") == made.planted.lost
    assert listed(again.out, "repeated") == made.planted.twice
    assert not list(Path(os.environ["XDG_STATE_HOME"]).rglob("*.json")), "what is complete leaves nothing behind"


def listed(text: str, word: str) -> set[tuple[int, int]]:
    """The places of the messages that are listed under a word."""
    found = re.findall(rf"^{word} .* at (\d+):(\d+), ", text, re.MULTILINE)
    assert len(found) == len(set(found))
    return {(int(partition), int(offset)) for partition, offset in found}


def test_a_pass_that_is_too_old_starts_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = Pass("report", {"a": 1}, "24h ago", "now")
    first.note("x", {"n": 1})
    again = Pass("report", {"a": 1}, "24h ago", "now")
    assert (again.period, again.known) == (first.period, {"x": {"n": 1}})
    assert Pass("report", {"a": 2}, "24h ago", "now").known == {}
    again.begun_ms -= 2 * 3_600_000
    again.note("y", {"n": 2})
    assert Pass("report", {"a": 1}, "24h ago", "now").known == {}
    [file] = tmp_path.rglob("*.json")
    file.write_text("{")
    assert Pass("report", {"a": 1}, "24h ago", "now").known == {}
    again.end()
    again.end()
    assert not list(tmp_path.rglob("*.json"))


def test_a_query_chooses_which_dead_letters_are_redriven(command: Command, shop: Shop, node: Node) -> None:
    words = ("redrive", shop.name, "--http", node.http, "-o", "json")
    wrong = command(*words[:-2], "select nothing from dead_letters")
    assert wrong.code == 1
    assert "longhall: the query about" in wrong.err
    ended = command(
        *words, "select message_id from dead_letters where body like 'Rome%' and attributes['city'] = 'Rome'"
    )
    assert json.loads(ended.out) == {"queue": shop.name, "moved": 1}
    assert [each["body"] for each in shop.letters()] == ["Oslo 2"]
    assert "Rome 1" in [each["body"] for each in shop.receive(3)]
