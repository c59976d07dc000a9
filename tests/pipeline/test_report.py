"""The report tells what was planted, and its page stands on its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.pipeline.fates import Period
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.report import svg
from longhall.pipeline.report.forecast import DAY_MS as FORECAST_DAY_MS
from longhall.pipeline.report.forecast import look_ahead
from longhall.pipeline.report.job import lags, write_whole
from longhall.pipeline.report.measures import STEPS_MAX, step_of
from longhall.pipeline.report.page import findings
from tests.pipeline.conftest import Command
from tests.pipeline.day import BEGIN_MS, DAY_MS, HOT, Day


def test_a_day_is_told_as_it_was(command: Command, day: tuple[str, Day], tmp_path: Path) -> None:
    queue, made = day
    planted = made.planted
    page = tmp_path / "report.html"
    words = ("--no-state", "--since", "2025-11-10T00:00Z", "--until", "2025-11-11T00:00Z")
    ended = command("report", "--topics", queue, *words, "--to", str(page), "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    [facts] = json.loads(ended.out)
    assert (BEGIN_MS, facts["step_ms"] * len(facts["sent"])) == (facts["begin_ms"], DAY_MS)
    assert facts["messages"] == sum(facts["sent"]) == planted.messages
    assert facts["size_bytes"] == sum(
        len(record.value or b"") + len(record.key or b"") for records in made.sent for record in records
    )
    assert facts["dead_by_reason"] == planted.died
    assert [(each["key"], each["messages"]) for each in facts["keys"] if each["hot"]] == [(HOT, planted.hot)]
    assert [each["messages"] for each in facts["partitions"]] == [len(records) for records in made.sent]
    assert facts["attempts"]["2"] == 7
    assert facts["attempts"]["3"] == planted.died["attempts"]
    assert facts["backlog"][-1] == planted.open + len(planted.lost)
    assert facts["balance"]["lost"] == len(planted.lost)
    assert places(facts["balance"]["lost_messages"]) == planted.lost
    assert places(facts["balance"]["delivered_twice_messages"]) == planted.twice
    assert facts["latency_whole_ms"]["p50"] < facts["latency_whole_ms"]["p99"] <= facts["latency_whole_ms"]["max"]
    told = " ".join(findings(facts))
    assert "5 messages were lost" in told
    assert "14 messages were delivered more than once" in told
    assert f"The key {HOT} is hot: {planted.hot:,} messages" in told
    assert "6 messages died: attempts" in told
    html = page.read_text()
    stands_alone(html)
    assert f"The key {HOT} is hot" in re.sub("<[^>]*>", "", html)
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def places(rows: list[dict[str, Any]]) -> set[tuple[int, int]]:
    return {(row["partition"], row["offset"]) for row in rows}


def stands_alone(html: str) -> None:
    """It loads nothing and runs nothing, and its pictures are well-formed with both axes named."""
    assert not re.search(r"<script|<link|src=|url\(|@import|https?:", html)
    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(pictures) >= 8
    for picture in pictures:
        tree = ElementTree.fromstring(picture)
        assert [each for each in tree.iter("text") if each.get("class") == "axis"]


def test_lag_of_groups_is_of_the_topics_that_are_told(bootstrap: str) -> None:
    assert lags(bootstrap, ["no-such-topic"]) == []


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be written: No such file or directory"):
        write_whole(tmp_path / "missing" / "report.html", "x")


@given(st.floats(min_value=0, max_value=1e15))
def test_marks_reach_the_highest_value(top: float) -> None:
    marks = svg.ticks(top)
    assert marks[0] == 0
    assert marks[-1] >= top * 0.999999
    assert 2 <= len(marks) <= 7


@given(st.integers(0, 10**12))
def test_marks_of_counts_are_whole(top: int) -> None:
    marks = svg.marks_to(top, svg.count_words)
    assert all(mark == int(mark) for mark in marks)
    assert marks[-1] >= max(top, 1)
    assert 2 <= len(marks) <= 7
    assert svg.marks_to(3 * 1024 * 1024, svg.byte_words)[1] == 1024 * 1024


@given(st.integers(0, 2 * 10**12), st.integers(1, 10 * 366 * 86_400_000))
def test_a_period_has_a_bounded_number_of_steps_and_marks(begin_ms: int, span_ms: int) -> None:
    assert -(-span_ms // step_of(Period(begin_ms, begin_ms + span_ms))) <= STEPS_MAX
    assert len(svg.time_ticks(begin_ms, begin_ms + span_ms)) <= 9


def test_names_in_a_plot_are_text() -> None:
    picture = svg.bars_by_name([("<script>&", 3, "3")], "messages")
    assert [each.text for each in ElementTree.fromstring(picture).iter("text") if each.get("class") == "name"] == [
        "<script>&"
    ]


def test_a_line_is_broken_where_nothing_is_known() -> None:
    picture = svg.lines_over_time(0, 60_000, {"p50": [1, 2, None, 4]}, "ms")
    assert picture.count("<polyline") == 2
    assert picture.count("<circle") == 1


def test_a_trend_needs_days_and_space_ends_when_it_is_used() -> None:
    hour_ms = 3_600_000
    flat = look_ahead(0, hour_ms, [10.0] * 24, [100.0] * 24, disk_free_bytes=24_000)
    assert (flat.has_trend, flat.messages_a_day, flat.bytes_a_day, flat.full_in_days) == (False, 240, 2400, 10)
    assert flat.ahead[0] == (7, 1680, 16_800)
    growing = look_ahead(0, FORECAST_DAY_MS, [1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0])
    assert growing.has_trend
    assert growing.ahead[0][2] > 7 * 45
    assert growing.full_in_days is None
    assert look_ahead(0, hour_ms, [], []).bytes_a_day == 0
