"""The output of commands: whole lines for pipes, JSON for programs, and no control characters."""

from __future__ import annotations

import json

import pytest

from longhall.cli.output import Column, Format, show_facts, show_rows

COLUMNS = (Column("name", "topic"), Column("count", "messages", right=True), Column("names", "names"))
ROWS: list[dict[str, object]] = [
    {"name": "orders", "count": 12, "names": ["a", "b"], "hidden": 1},
    {"name": "x" * 200, "count": None, "names": []},
]


def test_plain_columns_are_aligned_and_never_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(ROWS, COLUMNS, Format.TABLE, "none")
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["TOPIC", "MESSAGES", "NAMES"]
    assert first.split() == ["orders", "12", "a,b"]
    assert second.split() == ["x" * 200, "-", "-"]
    assert first.index("12") + 2 == second.index("-  -") + 1


def test_json_has_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(ROWS, COLUMNS, Format.JSON, "none")
    assert json.loads(capsys.readouterr().out)[0] == ROWS[0]
    show_rows([], COLUMNS, Format.JSON, "none")
    assert json.loads(capsys.readouterr().out) == []


def test_the_note_for_no_rows_is_for_people_only(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([], COLUMNS, Format.TABLE, "no topics yet")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "no topics yet\n")


def test_control_characters_in_names_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([{"name": "\x1b[2J\nx"}], COLUMNS, Format.TABLE, "")
    show_facts({"group_id": "\x1b[2J\nx", "ready": True}, Format.TABLE)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.count("\n") == 4
    assert "group id" in out
