"""In how many parts a queue should stand, and who knows of how many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import LonghallError
from longhall.queues.parts import SENDERS_MAX, Senders, check_parts, decide_parts, filled_percent, is_calm
from longhall.queues.settings import QueueSettings

GROWING = QueueSettings(partitions=2, parts_max=8, messages_max=800, bytes_max=8000, shrink_after_ms=100)


def test_the_fill_level_is_that_of_the_nearer_bound() -> None:
    assert filled_percent(GROWING, 2, 100, 0) == 50
    assert filled_percent(GROWING, 2, 100, 1500) == 75
    assert filled_percent(GROWING, 8, 100, 1500) == 18.75


def test_parts_double_and_halve_within_the_bounds() -> None:
    assert decide_parts(GROWING, 2, 159, 0, 0) == 2
    assert decide_parts(GROWING, 2, 160, 0, 0) == 4
    assert decide_parts(GROWING, 8, 800, 0, 0) == 8
    assert is_calm(GROWING, 4, 79, 0)
    assert not is_calm(GROWING, 4, 80, 0)
    assert decide_parts(GROWING, 4, 79, 0, 99) == 4
    assert decide_parts(GROWING, 4, 79, 0, 100) == 2
    assert decide_parts(GROWING, 2, 0, 0, 1000) == 2


@given(st.integers(0, 3), st.integers(0, 4), st.integers(0, 2000), st.integers(1, 100), st.integers(0, 99))
def test_a_shrunk_queue_does_not_grow_at_once(least: int, doublings: int, messages: int, high: int, low: int) -> None:
    most = (least + 1) << doublings
    settings = QueueSettings(
        partitions=least + 1, parts_max=most, messages_max=2000, grow_at=high, shrink_at=low, shrink_after_ms=0
    )
    try:
        check_parts(settings)
    except LonghallError:
        return
    for exponent in range(doublings + 1):
        parts = (least + 1) << exponent
        calm = is_calm(settings, parts, messages, 0)
        wanted = decide_parts(settings, parts, messages, 0, 0 if calm else -1)
        assert settings.partitions <= wanted <= max(most, parts)
        if wanted < parts:
            assert decide_parts(settings, wanted, messages, 0, -1) == wanted


def test_a_send_shows_that_the_sender_knows_the_part() -> None:
    senders = Senders(2)
    assert not senders.notices_growth(1, 0)
    assert not senders.notices_growth(1, 1)
    assert senders.notices_growth(1, 3)
    assert not senders.notices_growth(1, 2)
    assert senders.notices_growth(1, 4)
    assert not senders.notices_growth(1, 7)
    assert senders.notices_growth(2, 7)
    senders.forget()
    assert senders.notices_growth(1, 2)


def test_the_number_of_known_senders_is_bounded() -> None:
    senders = Senders(1)
    for sender in range(SENDERS_MAX):
        assert senders.notices_growth(sender, 1)
    assert not senders.notices_growth(0, 1)
    assert senders.notices_growth(SENDERS_MAX, 1)
    assert senders.notices_growth(SENDERS_MAX, 1)  # Once too often does no harm.


@pytest.mark.parametrize("parts_max", [3, 5, 7, 12])
def test_parts_max_must_be_a_doubling(parts_max: int) -> None:
    with pytest.raises(LonghallError):
        check_parts(QueueSettings(partitions=2, parts_max=parts_max, messages_max=10))
