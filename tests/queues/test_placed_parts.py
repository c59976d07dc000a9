"""The parts of a queue in several groups: the largest number wins, one full group makes all grow, all must be calm."""

from __future__ import annotations

import zlib

import pytest

from longhall.errors import Code, LonghallError
from longhall.queues.placed_parts import (
    PartCounts,
    PartsReport,
    are_calm,
    check_lanes,
    decide_open,
    raised,
)
from longhall.queues.settings import QueueSettings

# What one of three groups has of a queue of 1,200 messages.
SHARE = QueueSettings(partitions=3, parts_max=12, messages_max=400, shrink_after_ms=5_000)


def report(messages: int = 0, open: int = 3, shown: int = 3) -> PartsReport:
    return PartsReport(open=open, shown=shown, messages=messages, bytes=0)


@pytest.mark.parametrize(
    ("hall", "groups", "most"),
    [
        ((3, 3), [(3, 3), (3, 3)], (3, 3)),
        ((6, 6), [(3, 3), (6, 6)], (6, 6)),  # A group has not heard of a growth.
        ((3, 3), [(3, 3), (6, 6)], (6, 6)),  # A Kafka producer has opened parts again there.
        ((6, 6), [(3, 6), (6, 6)], (6, 6)),  # A leader died while it closed parts.
        ((3, 6), [(3, 3), (3, 6)], (3, 6)),  # A leader died while it hid parts.
    ],
)
def test_the_largest_number_wins(hall: tuple[int, int], groups: list[tuple[int, int]], most: tuple[int, int]) -> None:
    reports = [report(open=open, shown=shown) for open, shown in groups]
    assert raised(PartCounts(*hall), reports) == PartCounts(*most)


def test_one_full_group_makes_all_grow() -> None:
    assert decide_open(SHARE, 3, [report(79), report(79)], -1) == 3
    assert decide_open(SHARE, 3, [report(0), report(80)], -1) == 6, "80 % of a quarter of 400"
    assert decide_open(SHARE, 12, [report(400)], -1) == 12


def test_all_groups_must_be_calm_to_shrink() -> None:
    assert not are_calm(SHARE, 6, [report(0), report(40)])
    assert are_calm(SHARE, 6, [report(0), report(39)])
    assert decide_open(SHARE, 6, [report(0), report(0)], 5_000) == 3
    assert decide_open(SHARE, 6, [report(0), report(0)], 4_999) == 6
    assert decide_open(SHARE, 3, [report(0), report(0)], 60_000) == 3, "not below what it was made with"


def test_a_fifo_group_stays_in_its_lane_whatever_the_number_of_parts() -> None:
    for lanes, partitions in ((1, 1), (2, 2), (3, 3), (2, 4), (3, 6)):
        for group in range(200):
            number = zlib.crc32(b"%d" % group)
            assert {number % (partitions * times) % lanes for times in (1, 2, 4, 8)} == {number % partitions % lanes}


@pytest.mark.parametrize("partitions", [4, 5])
def test_lanes_divide_the_partitions_of_a_queue_that_grows(partitions: int) -> None:
    settings = QueueSettings(partitions=partitions, parts_max=partitions * 2, messages_max=10, wings=(1, 2, 3))
    with pytest.raises(LonghallError, match="a multiple of 3 partitions") as caught:
        check_lanes(settings)
    assert caught.value.code is Code.INVALID_CONFIGURATION
    check_lanes(QueueSettings(partitions=partitions, wings=(1, 2, 3)))
    check_lanes(QueueSettings(partitions=6, parts_max=12, messages_max=10, wings=(1, 2, 3)))
