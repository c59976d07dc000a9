"""Jobs that run until they are interrupted, and jobs that are interrupted before their end.

The signals come from within the work, so that they arrive where the test wants them.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from longhall.cli.pipeline.spark_job import ProgressDisplay
from longhall.pipeline import reconcile
from longhall.pipeline.archive.job import Archiver
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.replay import job as replay_job
from longhall.pipeline.report import job as report_job
from longhall.records.batch import Record
from soak.node import Node
from tests.pipeline.conftest import Command, FreshName, MakeTopic, Produce
from tests.pipeline.replay.test_job import content
from tests.pipeline.shop import open_shop

STOPPED = "stopped; the same command goes on where it was"


def words_of(first: int, count: int) -> list[Record]:
    return [Record(-1, 1_700_000_000_000 + each, b"k", b"%d" % each) for each in range(first, first + count)]


def interrupt(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def watch(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, seen: Callable[[int], None]) -> None:
    """Have a function of a module tell how often it was called, before it does what it does."""
    real = getattr(place, name)
    calls = 0

    def watched(*words: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        seen(calls)
        return real(*words, **named)

    monkeypatch.setattr(place, name, watched)


def documents(text: str) -> list[Any]:
    decoder, found = json.JSONDecoder(), []
    while text := text.strip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


def test_an_archiver_is_stopped_by_its_service_manager(
    command: Command, make_topic: MakeTopic, produce: Produce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    produce(topic, 0, words_of(0, 5))
    real = Archiver._tell

    def tell(archiver: Archiver, *words: Any) -> None:
        real(archiver, *words)
        if archiver.done.messages == 5:
            produce(topic, 0, words_of(5, 3))
        elif archiver.done.messages == 8:
            interrupt(signal.SIGTERM)

    monkeypatch.setattr(Archiver, "_tell", tell)
    words = ("archive", "--topics", topic, "--to", str(tmp_path / "archive"))
    ended = command(*words, "--continuous", "--interval", "0.1")
    assert (ended.code, ended.err.splitlines()[-1]) == (0, STOPPED)
    assert ("messages", "8") in {tuple(line.split()) for line in ended.out.splitlines()}
    assert json.loads(command(*words, "--once", "-o", "json").out)["messages"] == 0


def test_a_replay_that_is_interrupted_goes_on_and_sends_nothing_twice(
    command: Command,
    make_topic: MakeTopic,
    produce: Produce,
    blocking_client: BlockingClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First in the middle of its sending; then it is one that goes on, and waits for more."""
    source, target = make_topic(), make_topic()
    produce(source, 0, words_of(0, 30))
    words = ("replay", "--topics", source, "--to", target)
    signals = [signal.SIGINT]

    def show(steps: ProgressDisplay, what: str, done: int, *more: Any) -> None:
        if done and signals:
            interrupt(signals.pop())

    with monkeypatch.context() as patch:
        patch.setattr(replay_job, "LOOK_S", 0.1)
        patch.setattr(ProgressDisplay, "show", show)
        ended = command(*words, "--rate", "0.001")
    assert ended.code == 130
    assert ended.err.splitlines()[-1] == "longhall: interrupted; the same command goes on where it was"
    sent = len(content(blocking_client, target))
    assert 0 < sent < 30

    def runs(number: int) -> None:
        if number == 2:
            produce(source, 0, words_of(30, 2))
        elif number == 3:
            interrupt(signal.SIGINT)

    monkeypatch.setattr(import_module("longhall.cli.pipeline.replay"), "INTERVAL_S", 0.1)
    watch(monkeypatch, replay_job, "replay", runs)
    ended = command(*words, "--continuous", "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)["messages"] == 32 - sent
    assert content(blocking_client, target) == content(blocking_client, source)


def test_a_reconciliation_looks_again_until_it_is_interrupted(
    command: Command, node: Node, fresh_name: FreshName, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = open_shop(node, fresh_name("shop"))

    def looks(number: int) -> None:
        if number == 2:
            shop.settle(*(each["receipt"] for each in shop.receive(2)))
        elif number == 3:
            interrupt(signal.SIGINT)

    watch(monkeypatch, reconcile, "reconcile", looks)
    words = ("reconcile", "--queues", shop.name, "--http", node.http, "--since", "1h ago", "-o", "json")
    ended = command(*words, "--continuous", "--interval", "1")
    assert (ended.code, ended.err) == (0, "")
    first, second, *_ = documents(ended.out)
    assert [(each["settled"], each["open"]) for [each] in (first, second)] == [(1, 3), (3, 1)]


def test_a_report_is_written_again_until_it_is_stopped(
    command: Command, make_topic: MakeTopic, produce: Produce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, page = make_topic(), tmp_path / "report.html"
    produce(topic, 0, words_of(0, 5))

    def reports(number: int) -> None:
        if number == 2:
            assert page.exists()
            produce(topic, 0, words_of(5, 2))
        elif number == 3:
            interrupt(signal.SIGTERM)

    watch(monkeypatch, report_job, "make_report", reports)
    period = ("--since", "2023-11-14T00:00Z", "--until", "2023-11-15T00:00Z")
    words = ("report", "--topics", topic, "--no-state", *period, "--to", str(page))
    ended = command(*words, "--continuous", "--interval", "1", "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    [facts] = json.loads(ended.out)
    assert facts["messages"] == 7
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
