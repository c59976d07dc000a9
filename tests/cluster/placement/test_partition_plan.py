"""Plans of moves: as few as possible, and none after the plan was carried out."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from longhall.cluster.placement.partition_plan import PlacedPartition, plan_balance, plan_targets

groups = st.sets(st.integers(1, 6), min_size=1, max_size=6)
placed = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(0, 6)),
    max_size=40,
    unique_by=lambda one: one[:2],
)


def _carried_out(found: list[PlacedPartition], moves: list[PlacedPartition]) -> list[PlacedPartition]:
    targets = {(move.topic, move.partition): move.group for move in moves}
    return [one._replace(group=targets.get((one.topic, one.partition), one.group)) for one in found]


@given(placed, groups)
def test_groups_have_equal_shares_after_as_few_moves_as_possible(
    rows: list[tuple[str, int, int]], able: set[int]
) -> None:
    found = [PlacedPartition(*row) for row in rows]
    moves = plan_balance(found, able)
    after = _carried_out(found, moves)
    counts = dict.fromkeys(able, 0) | Counter(one.group for one in after)
    assert set(counts) <= able
    assert max(counts.values()) - min(counts.values()) <= 1
    assert plan_balance(after, able) == []
    share, more = divmod(len(found), len(able))
    before = sorted((sum(one.group == group for one in found) for group in able), reverse=True)
    kept = sum(min(count, share + (at < more)) for at, count in enumerate(before))
    assert len(moves) == len(found) - kept


def test_of_a_host_that_joins_only_its_share_moves() -> None:
    found = [PlacedPartition(topic, number, 1 + number % 3) for topic in "abcd" for number in range(3)]
    moves = plan_balance(found, {1, 2, 3, 4})
    assert len(moves) == 3
    assert {move.group for move in moves} == {4}
    assert len({move.topic for move in moves}) == 3, "the partitions of a topic stay apart"


def test_the_share_of_a_host_that_leaves_goes_to_the_others() -> None:
    found = [PlacedPartition("a", number, 1 + number % 4) for number in range(8)]
    moves = plan_balance(found, {1, 2, 3})
    assert sorted(move.partition for move in moves) == [3, 7]


def test_a_topic_goes_to_the_groups_of_a_placement() -> None:
    assert plan_targets([0, 0, 0], [0]) == {}
    assert plan_targets([0, 0], [1]) == {0: 1, 1: 1}
    assert set(plan_targets([0, 0, 0], [1, 2, 3]).values()) == {1, 2, 3}
    assert plan_targets([1, 2, 1, 2], [1, 2]) == {}


def test_what_a_group_has_besides_counts() -> None:
    found = [PlacedPartition("a", number, 1) for number in range(4)]
    assert plan_balance(found, {1, 2}, {2: 4}) == []
