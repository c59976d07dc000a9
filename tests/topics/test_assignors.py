"""The assignors: every partition to one subscriber, balanced, and with few moves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.topics.assignment import Places
from longhall.topics.assignors import AssignorMember, assign_range, assign_uniform

TOPICS = [bytes([number]) * 16 for number in range(4)]
PARTITIONS = st.fixed_dictionaries({topic: st.integers(1, 9) for topic in TOPICS})
SUBSCRIPTIONS = st.lists(st.frozensets(st.sampled_from(TOPICS)), max_size=6)


def members_of(
    subscriptions: list[frozenset[bytes]], previous: dict[str, Places] | None = None
) -> dict[str, AssignorMember]:
    return {
        f"m{number}": AssignorMember(None, topics, (previous or {}).get(f"m{number}", frozenset()))
        for number, topics in enumerate(subscriptions)
    }


@given(subscriptions=SUBSCRIPTIONS, partitions=PARTITIONS, later=SUBSCRIPTIONS)
def test_every_partition_has_one_subscriber(
    subscriptions: list[frozenset[bytes]], partitions: dict[bytes, int], later: list[frozenset[bytes]]
) -> None:
    for assign in (assign_uniform, assign_range):
        first = assign(members_of(subscriptions), partitions)
        for wanted, found in (
            (subscriptions, first),
            (later, assign(members_of(later, first), partitions)),
        ):
            read = {topic for topics in wanted for topic in topics}
            expected = [(topic, number) for topic in read for number in range(partitions[topic])]
            assert sorted(place for places in found.values() for place in places) == sorted(expected)
            for member_id, places in found.items():
                assert {place[0] for place in places} <= wanted[int(member_id[1:])]


@given(count=st.integers(1, 7), later=st.integers(1, 7), partitions=PARTITIONS)
def test_equal_subscribers_have_equal_shares_and_keep_what_they_can(
    count: int, later: int, partitions: dict[bytes, int]
) -> None:
    everything = frozenset(TOPICS)
    first = assign_uniform(members_of([everything] * count), partitions)
    second = assign_uniform(members_of([everything] * later, first), partitions)
    for found in (first, second):
        sizes = [len(places) for places in found.values()]
        assert max(sizes) - min(sizes) <= 1
    share = -(-sum(partitions.values()) // later)
    for member_id in first.keys() & second.keys():
        kept = len(first[member_id] & second[member_id])
        assert kept >= min(len(first[member_id]), share - 1)
    assert assign_uniform(members_of([everything] * later, second), partitions) == second


@given(subscriptions=SUBSCRIPTIONS, partitions=PARTITIONS)
def test_no_single_move_would_balance_better(
    subscriptions: list[frozenset[bytes]], partitions: dict[bytes, int]
) -> None:
    found = assign_uniform(members_of(subscriptions), partitions)
    for giver, places in found.items():
        for place in places:
            for number, topics in enumerate(subscriptions):
                if place[0] in topics:
                    assert len(found[giver]) - len(found[f"m{number}"]) <= 1


def test_ranges_meet_at_one_member_and_static_members_come_first() -> None:
    topics = frozenset(TOPICS[:2])
    members = {
        "z": AssignorMember("static", topics, frozenset()),
        "a": AssignorMember(None, topics, frozenset()),
    }
    found = assign_range(members, {TOPICS[0]: 3, TOPICS[1]: 3})
    assert found["z"] == {(topic, number) for topic in topics for number in (0, 1)}
    assert found["a"] == {(topic, 2) for topic in topics}
