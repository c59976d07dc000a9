"""Where wings are, and which lane a message has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.cluster.placement.placement_rules import (
    by_load,
    configuration_in_wing,
    home_of,
    hosts_for,
    is_homeless,
    lane_of,
    leaders_for,
    next_hosts,
    reserved_hosts,
    settings_in_wing,
    wing_of_host,
)
from longhall.coordination.ports import ReplicationGroup
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings

hosts = st.sets(st.integers(1, 30), min_size=1, max_size=9)


@given(hosts, st.integers(1, 30), st.integers(1, 5))
def test_a_wing_is_on_its_home_and_on_those_behind_it(usable: set[int], home: int, factor: int) -> None:
    found = hosts_for(home, usable, factor)
    assert len(found) == len(set(found)) == min(factor, len(usable))
    assert set(found) <= usable
    assert found[0] == home or home not in usable


@given(hosts, st.integers(1, 4))
def test_every_host_keeps_as_many_copies_as_any_other(usable: set[int], factor: int) -> None:
    copies = [host for home in usable for host in hosts_for(home, usable, factor)]
    assert {copies.count(host) for host in usable} == {min(factor, len(usable))}


@given(hosts, st.integers(31, 40), st.integers(1, 4))
def test_a_host_that_joins_moves_only_its_share(usable: set[int], joining: int, factor: int) -> None:
    """As many copies of others as a host has, and no more, change their place."""
    before = {home: set(hosts_for(home, usable, factor)) for home in usable}
    after = {home: set(hosts_for(home, usable | {joining}, factor)) for home in usable}
    assert sum(len(before[home] - after[home]) for home in usable) <= factor


def test_wings_without_a_home_go_to_hosts_that_lead_the_least() -> None:
    """The first of four hosts is drained; the fourth came later, and nothing is placed in its wing."""
    everybody = {1, 2, 3, 4}
    wings = [
        ReplicationGroup(name=wing_of_host(host), number=host, hosts=hosts_for(host, everybody, 3))
        for host in everybody
    ]
    usable, placed = {2, 3, 4}, {1, 2, 3}
    assert leaders_for(wings, usable, {1}, placed) == {"host-1": 4}
    assert hosts_for(1, usable, 3, leader=4) == (4, 2, 3)
    assert leaders_for(wings, usable, {1}, {1, 2, 3, 4}) == {"host-1": 2}, "the next in the ring, where all have one"
    assert leaders_for(wings, usable | {1}, set(), placed) == {}, "the home is back"
    assert leaders_for(wings, {2, 3, 4}, set(), placed) == {}, "the home is away for a moment"
    assert leaders_for(wings, set(), {1}, placed) == {}, "there is nobody"
    # Something is placed in the wing of the fourth now: it keeps what it was given. With one more it does not.
    given = [ReplicationGroup(name="host-1", number=1, hosts=(4, 2, 3)), *wings[1:]]
    assert leaders_for(given, usable, {1}, {1, 2, 3, 4}) == {"host-1": 4}
    named = ReplicationGroup(name="billing", number=5, hosts=(4, 2), wanted=(4, 2))
    assert leaders_for([*given, named], usable, {1}, {1, 2, 3, 4, 5}) == {"host-1": 2}


@st.composite
def estates(draw: st.DrawFn) -> tuple[list[ReplicationGroup], set[int], set[int], set[int]]:
    """Wings with the hosts they have had so far, who is usable, who is gone, and where something is placed."""
    everybody = draw(st.sets(st.integers(1, 12), min_size=1, max_size=9))
    gone = draw(st.sets(st.sampled_from(sorted(everybody))))
    away = draw(st.sets(st.sampled_from(sorted(everybody)), max_size=2))
    kept = st.lists(st.sampled_from(sorted(everybody)), min_size=1, max_size=3, unique=True)
    wings = [
        ReplicationGroup(name=wing_of_host(host), number=number, hosts=tuple(draw(kept)))
        for number, host in enumerate(sorted(everybody), 1)
    ]
    return wings, everybody - gone - away, gone, draw(st.sets(st.sampled_from([wing.number for wing in wings])))


def _with(wings: list[ReplicationGroup], leaders: dict[str, int]) -> list[ReplicationGroup]:
    """As their records are when they have moved."""
    return [
        ReplicationGroup(name=wing.name, number=wing.number, hosts=(leaders.get(wing.name, home_of(wing)), *wing.hosts))
        for wing in wings
    ]


@given(estates())
def test_leading_is_balanced_and_stays_where_it_is(
    group_directory: tuple[list[ReplicationGroup], set[int], set[int], set[int]],
) -> None:
    wings, usable, gone, placed = group_directory
    leaders = leaders_for(wings, usable, gone, placed)
    homeless = {wing.name for wing in wings if is_homeless(wing, usable, gone)}
    assert set(leaders) == homeless or not usable
    assert not set(leaders.values()) & gone
    leads = [leaders.get(wing.name, home_of(wing)) for wing in wings if wing.number in placed]
    for wing in wings:
        if wing.name in leaders and wing.number in placed:
            assert all(leads.count(leaders[wing.name]) - leads.count(host) <= 1 for host in usable)
    after = _with(wings, leaders)
    assert leaders_for(after, usable, gone, placed) == leaders, "nothing goes to and fro"
    assert leaders_for(after, {home_of(wing) for wing in wings}, set(), placed) == {}, "who comes home has its wing"


@given(st.integers(2, 8), st.integers(0, 8))
def test_hosts_that_are_alike_are_given_alike(hosts_left: int, hosts_gone: int) -> None:
    everybody = range(1, hosts_left + hosts_gone + 1)
    wings = [ReplicationGroup(name=wing_of_host(host), number=host, hosts=(host,)) for host in everybody]
    gone, usable = set(everybody[hosts_left:]), set(everybody[:hosts_left])
    for placed in (set(), set(everybody)):
        given_to = list(leaders_for(wings, usable, gone, placed).values())
        counts = [given_to.count(host) for host in usable]
        assert sum(counts) == hosts_gone
        assert max(counts) - min(counts) <= 1


def test_copies_stay_until_others_have_them() -> None:
    wing = ReplicationGroup(name="host-1", number=1, hosts=(1, 2, 3))
    assert next_hosts(wing, (2, 3, 4), replicas=(1, 2, 3)) == (2, 3, 4, 1)
    assert next_hosts(wing, (2, 3, 4), replicas=(2, 3, 4)) == (2, 3, 4)


def test_names_tell_whose_wing_it_is() -> None:
    assert home_of(ReplicationGroup(name=wing_of_host(7), number=3)) == 7
    for name in ("billing", "host-", "host-x", "hosts-1"):
        assert home_of(ReplicationGroup(name=name, number=3)) == 0
    shared, alone = (
        ReplicationGroup(name="a", number=1, hosts=(1, 2)),
        ReplicationGroup(name="b", number=2, hosts=(3, 4), reserved=True),
    )
    assert reserved_hosts([shared, alone]) == {3, 4}


def test_new_things_go_to_the_host_that_leads_the_least() -> None:
    leaders = {1: 11, 2: 12, 3: 13}
    assert by_load(leaders, {}, {}) == [1, 2, 3]
    assert by_load(leaders, {12: 1000.0}, {11: 4, 12: 3, 13: 5}) == [2, 1, 3]  # With little load the number decides,
    assert by_load(leaders, {11: 9e6, 12: 5e6, 13: 1e6}, {11: 1, 12: 1, 13: 1}) == [3, 2, 1]  # and else the load.
    assert by_load({1: 11, 2: 11, 3: 13}, {11: 2e6}, {}) == [3, 1, 2]  # What another of its groups has, counts too.


def test_what_is_created_at_once_does_not_all_go_to_an_idle_host() -> None:
    leaders, loads = {1: 11, 2: 12, 3: 13}, {11: 5e6, 12: 5e6, 13: 0.0}
    placed = {11: 10, 12: 10, 13: 10}
    for _ in range(300):
        placed[leaders[by_load(leaders, loads, placed)[0]]] += 1
    assert min(placed.values()) > 40
    assert max(placed, key=lambda host: placed[host]) == 13


@given(st.text(), st.integers(1, 12), st.integers(1, 5), st.integers(0, 100))
def test_what_belongs_together_has_one_lane(text: str, partitions: int, wings: int, turn: int) -> None:
    partitions = max(partitions, wings)
    numbers = tuple(range(1, wings + 1))
    fifo = QueueSettings(fifo=True, partitions=partitions, wings=numbers)
    by_id = QueueSettings(deduplication="id", partitions=partitions, wings=numbers)
    by_content = QueueSettings(deduplication="content", partitions=partitions, wings=numbers)
    for settings, message in (
        (fifo, Outgoing(body=b"", group=text)),
        (by_id, Outgoing(body=b"", deduplication_id=text)),
        (by_content, Outgoing(body=text.encode(errors="replace"))),
    ):
        lane = lane_of(settings, message, 0)
        assert 0 <= lane < wings
        assert lane_of(settings, message, turn) == lane
    assert lane_of(QueueSettings(wings=numbers), Outgoing(body=b""), turn) == turn % wings


def test_all_wings_together_hold_and_take_what_the_whole_may() -> None:
    settings = QueueSettings(wings=(1, 2, 3), placement="parts", messages_max=10, bytes_max=0)
    part = settings_in_wing(settings)
    assert (part.messages_max, part.bytes_max, part.wings) == (4, 0, (1, 2, 3))
    configuration = {"longhall.quota.bytes.per.second": "100", "longhall.quota.messages.per.second": "-1", "a": "b"}
    assert configuration_in_wing(configuration, 3) == {**configuration, "longhall.quota.bytes.per.second": "34"}
