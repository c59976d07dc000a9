"""Words for durations and sizes go there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.node.quantities import parse_duration_ms, parse_size_bytes, show_duration, show_size


@given(st.integers(-1, 1 << 60))
def test_what_is_shown_is_understood_again(amount: int) -> None:
    assert parse_duration_ms(show_duration(amount)) == amount
    assert parse_size_bytes(show_size(amount)) == amount


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("10s", 10_000), ("2 weeks", 1_209_600_000), ("1.5 h", 5_400_000), ("7", 7), ("1 Day", 86_400_000), ("0", 0)],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    ("text", "expected_bytes"),
    [("256 MiB", 256 << 20), ("1k", 1024), ("1 KB", 1000), ("0.5 GiB", 1 << 29), ("12", 12), ("3 bytes", 3)],
)
def test_sizes(text: str, expected_bytes: int) -> None:
    assert parse_size_bytes(text) == expected_bytes


@pytest.mark.parametrize("text", ["", "s", "1 fortnight", "-3s", "1e3", "1 2", "0.5 ms", "٣s"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_duration_ms(text)
