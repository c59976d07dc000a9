"""Timestamps and start positions."""

from __future__ import annotations

import pytest

from longhall.cli.exits import CommandError, Exit
from longhall.cli.start_position import Anchor, StartPosition, parse_start_position
from longhall.cli.timestamps import parse_timestamp_ms, show_timestamp

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", StartPosition(Anchor.BEGINNING)),
        ("Earliest", StartPosition(Anchor.BEGINNING)),
        ("end", StartPosition(Anchor.END)),
        ("committed", StartPosition(Anchor.COMMITTED)),
        ("42", StartPosition(Anchor.OFFSET, 42)),
        ("-10", StartPosition(Anchor.BEFORE_END, 10)),
        ("2h ago", StartPosition(Anchor.TIME, NOW_MS - 7_200_000)),
        ("@5", StartPosition(Anchor.TIME, 5)),
        ("2020-01-01T00:00:00Z", StartPosition(Anchor.TIME, 1_577_836_800_000)),
        ("2020-01-01 01:00+01:00", StartPosition(Anchor.TIME, 1_577_836_800_000)),
    ],
)
def test_start_positions(text: str, place: StartPosition) -> None:
    assert parse_start_position(text, NOW_MS) == place


@pytest.mark.parametrize("text", ["", "yesterday", "--5", "2020-13-01", "@x", "1.5", "some ago"])
def test_a_wrong_position_is_refused_with_examples(text: str) -> None:
    with pytest.raises(CommandError, match="ago") as caught:
        parse_start_position(text, NOW_MS)
    assert caught.value.exit_code is Exit.USAGE


def test_a_shown_timestamp_parses_to_the_same_time() -> None:
    shown = show_timestamp(NOW_MS + 7)
    assert shown == "2023-11-14T22:13:20.007Z"
    assert parse_timestamp_ms(shown, 0) == NOW_MS + 7
    assert show_timestamp(-1) is None
    assert show_timestamp(1 << 62) == f"@{1 << 62}"
