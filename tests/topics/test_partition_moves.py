"""The move record: the table of its module is walked, and the owner changes with the switch alone."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.topics import partition_moves
from longhall.topics.partition_moves import (
    EPOCHS_A_MOVE,
    MOVES_MAX,
    NO_MOVES,
    MovePhase,
    MoveRecord,
    decide_begin,
    decide_cancel,
    decide_fence,
    decide_finish,
    decide_lift,
    decide_switch,
    decode_record,
    encode_record,
    lanes_of,
    owners_of,
)

OWNERS = [0, 1, 2]
EVENTS: dict[str, Callable[[MoveRecord, list[int]], tuple[MoveRecord, list[int]]]] = {
    "begin": lambda record, owners: (decide_begin(record, owners, {0: (owners[0] + 1) % 3}), owners),
    "fence": lambda record, owners: (decide_fence(record, 0), owners),
    "lift": lambda record, owners: (decide_lift(record, 0), owners),
    "switch": lambda record, owners: decide_switch(record, owners, 0),
    "cancel": lambda record, owners: (decide_cancel(record, 0), owners),
    "finish": lambda record, owners: (decide_finish(record, 0), owners),
}
WAYS = {
    "(none)": [],
    "copying": ["begin"],
    "fenced": ["begin", "fence"],
    "switched": ["begin", "fence", "switch"],
    "cancelled": ["begin", "cancel"],
}


def _table() -> dict[tuple[str, str], str]:
    """The rows of the module's table: phase and event, and the next phase."""
    rows = re.findall(
        r"^    (\(none\)|\w+) +(begin|fence|lift|switch|cancel|finish) +(\(none\)|\w+)",
        partition_moves.__doc__ or "",
        re.MULTILINE,
    )
    return {(phase, event): after for phase, event, after in rows}


def _phase(record: MoveRecord) -> str:
    move = record.of(0)
    return move.phase.value if move is not None else "(none)"


def _walk(events: list[str]) -> tuple[MoveRecord, list[int]]:
    record, owners = NO_MOVES, OWNERS
    for event in events:
        record, owners = EVENTS[event](record, owners)
    return record, owners


def test_the_table_has_all_phases_and_events() -> None:
    table = _table()
    assert len(table) == 8
    assert {phase for phase, _ in table} == {"(none)", *(phase.value for phase in MovePhase)}
    assert {event for _, event in table} == set(EVENTS)


@pytest.mark.parametrize("phase", WAYS)
@pytest.mark.parametrize("event", EVENTS)
def test_every_pair_is_as_the_table_says(phase: str, event: str) -> None:
    record, owners = _walk(WAYS[phase])
    assert _phase(record) == phase
    wanted = _table().get((phase, event))
    if wanted is None:
        with pytest.raises(LonghallError) as refused:
            EVENTS[event](record, owners)
        assert refused.value.code is Code.INVALID_REQUEST
        return
    after, owners_after = EVENTS[event](record, owners)
    assert _phase(after) == wanted
    assert after.generation == record.generation + 1
    assert (owners_after != owners) == (event == "switch")
    assert decode_record(encode_record(after)) == after


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=40))
def test_generations_and_leader_epochs_only_rise_and_one_group_at_most_serves(events: list[str]) -> None:
    record, owners = NO_MOVES, OWNERS
    for event in events:
        try:
            after, owners_after = EVENTS[event](record, owners)
        except LonghallError:
            continue
        assert after.generation > record.generation
        assert after.epoch_base(0) - record.epoch_base(0) == (EPOCHS_A_MOVE if event == "switch" else 0)
        assert set(record.groups) <= set(after.groups)
        assert not (after.is_fenced(0) and after.takes_copy(0, owners_after[0]))
        if owners_after != owners:
            assert record.is_fenced(0), "the owner changes only while nobody serves"
        record, owners = after, owners_after


def test_a_step_is_not_mistaken_for_the_same_step_of_another_try() -> None:
    first, _ = _walk(["begin", "fence"])
    again, _ = _walk(["begin", "fence", "lift", "fence"])
    assert first.of(0) != again.of(0)


def test_what_cannot_begin_is_refused() -> None:
    tired = MoveRecord(counts={"0": MOVES_MAX})
    for record, moves in ((NO_MOVES, {3: 0}), (NO_MOVES, {0: 0}), (tired, {0: 1})):
        with pytest.raises(LonghallError):
            decide_begin(record, OWNERS, moves)


def test_owners_follow_from_the_wings() -> None:
    assert owners_of([], 2) == [0, 0]
    assert owners_of([1, 2], 3) == [1, 2, 1]
    assert [lanes_of(owners) for owners in ([1, 1], [0, 1, 0], [1, 2, 2])] == [[1], [0, 1], [1, 2, 2]]
    with pytest.raises(ValueError, match="move record"):
        decode_record("{")
