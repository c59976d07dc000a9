"""Where wings are, and which lane a message has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.cluster.wings.placing import (
    configuration_in_wing,
    home_of,
    hosts_for,
    lane_of,
    least_used,
    next_hosts,
    reserved_hosts,
    settings_in_wing,
    wing_of_host,
)
from longhall.coordination.ports import Wing
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


def test_copies_stay_until_others_have_them() -> None:
    wing = Wing(name="host-1", number=1, hosts=(1, 2, 3))
    assert next_hosts(wing, (2, 3, 4), replicas=(1, 2, 3)) == (2, 3, 4, 1)
    assert next_hosts(wing, (2, 3, 4), replicas=(2, 3, 4)) == (2, 3, 4)


def test_names_tell_whose_wing_it_is() -> None:
    assert home_of(Wing(name=wing_of_host(7), number=3)) == 7
    for name in ("billing", "host-", "host-x", "hosts-1"):
        assert home_of(Wing(name=name, number=3)) == 0
    shared, alone = Wing(name="a", number=1, hosts=(1, 2)), Wing(name="b", number=2, hosts=(3, 4), reserved=True)
    assert reserved_hosts([shared, alone]) == {3, 4}
    assert least_used([shared, alone], {1: 4, 2: 3}) is alone
    assert least_used([shared, alone], {}) is shared


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
