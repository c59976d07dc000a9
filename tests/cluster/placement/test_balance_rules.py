"""Which groups move when hosts join, leave or are busy, and how many."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from longhall.cluster.placement.balance_rules import LedGroup, plan_balance
from longhall.cluster.placement.group_loads import HALF_S, GroupLoads
from longhall.cluster.placement.placement_rules import LITTLE_LOAD
from longhall.cluster.placement.topic_operations import GroupTraffic

HALL = LedGroup("hall", 1, 0.0, 0, movable=False)

groups = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 10_000_000), st.integers(0, 50), st.booleans()), max_size=12
).map(
    lambda rows: [
        LedGroup(f"g{number}", host, float(load), placed, movable)
        for number, (host, load, placed, movable) in enumerate(rows)
    ]
)


def carried_out(found: list[LedGroup], hosts: set[int]) -> list[LedGroup]:
    targets = {move.group: move.target for move in plan_balance(found, hosts)}
    return [one._replace(host=targets.get(one.name, one.host)) for one in found]


def heaviest(found: list[LedGroup]) -> float:
    load, number = max(sum(one.load for one in found), LITTLE_LOAD), sum(one.placed for one in found) or 1
    weights: Counter[int] = Counter()
    for one in found:
        weights[one.host] += one.load / load + one.placed / number  # type: ignore[assignment]
    return max(weights.values(), default=0)


@given(groups, st.sets(st.integers(1, 6)))
def test_a_plan_ends_makes_no_host_heavier_and_is_followed_by_none(found: list[LedGroup], hosts: set[int]) -> None:
    after = carried_out(found, hosts)
    assert heaviest(after) <= heaviest(found) + 1e-9
    assert plan_balance(after, hosts) == []
    kept = [one for one in found if not one.movable]
    assert [one for one in after if not one.movable] == kept
    assert all(move.target in hosts for move in plan_balance(found, hosts))


def test_a_host_that_joins_takes_its_share_and_no_more() -> None:
    before = [LedGroup(f"host-{number}", 1 + number % 3, 1e6, 10, movable=True) for number in range(12)]
    assert plan_balance(before, {1, 2, 3}) == []
    moves = plan_balance(before, {1, 2, 3, 4})
    assert len(moves) == 3
    assert {move.target for move in moves} == {4}
    assert Counter(one.host for one in carried_out(before, {1, 2, 3, 4})) == {1: 3, 2: 3, 3: 3, 4: 3}


def test_the_host_that_leads_the_hall_gives_its_group_to_a_host_that_joins() -> None:
    busy = HALL._replace(load=3e6, placed=10)
    before = [busy, *(LedGroup(f"host-{host}", host, 1e6, 4, movable=True) for host in (1, 2, 3))]
    moves = plan_balance(before, {1, 2, 3, 4})
    assert [(move.group, move.source, move.target) for move in moves] == [("host-1", 1, 4)]


def test_nothing_moves_for_little() -> None:
    quiet = [HALL._replace(load=5000.0), *(LedGroup(f"host-{host}", host, 10.0, 1, movable=True) for host in (1, 2))]
    assert plan_balance(quiet, {1, 2}) == []
    nearly = [LedGroup(f"host-{host}", host, load, 10, movable=True) for host, load in ((1, 1.0e6), (2, 1.1e6))]
    assert plan_balance(nearly, {1, 2}) == []
    assert plan_balance([HALL], {1, 2}) == []
    assert plan_balance([LedGroup("host-1", 1, 5e6, 5, movable=True)], {1, 2}) == []  # It would be there alone too.
    assert plan_balance(nearly, set()) == []


def test_a_load_is_that_of_the_last_minutes() -> None:
    loads = GroupLoads()
    assert loads.load(1) == 0.0
    loads.note(1, 1, GroupTraffic(5000, 0), 0.0)
    assert loads.load(1) == 0.0  # One count says nothing.
    loads.note(1, 1, GroupTraffic(5000 + 6_000_000, 0), HALF_S)
    assert loads.load(1) == 50_000
    loads.note(1, 2, GroupTraffic(10, 0), 2 * HALF_S)  # Another leader counts from its own start.
    assert loads.load(1) == 50_000
    loads.note(1, 2, GroupTraffic(10, 0), 3 * HALF_S)
    assert loads.load(1) == 25_000
    loads.note(1, 2, GroupTraffic(10, 600), 4 * HALF_S)
    assert loads.load(1) == 12_500 + 600 * 1024 / HALF_S / 2
    loads.note(1, 2, GroupTraffic(3, 0), 5 * HALF_S)  # It was restarted.
    assert loads.load(1) == 12_500 + 600 * 1024 / HALF_S / 2
