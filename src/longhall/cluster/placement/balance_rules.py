"""The balance of a cluster: which host should lead which replication group. Pure: it plans, and others move.

A host weighs what the groups weigh that it leads: their share of the load of the last minutes plus their share of all
topics and queues, as for the placement of new ones. A plan moves the leadership of whole groups from the heaviest host
to the lightest, and only if that makes the heavier of the two clearly lighter. So a host that joins takes its share, a
host that is nearly balanced is left alone, and a plan that was carried out is followed by an empty one. The main group
and groups on hosts that an operator chose are counted, and stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import msgspec

from longhall.cluster.placement.placement_rules import LITTLE_LOAD

MARGIN: Final = 0.2  # Of the mean weight of a host: a move gains at least so much.


class LedGroup(NamedTuple):
    """A group, the host that leads it, its load in bytes a second, and the number of topics and queues in it."""

    name: str
    host: int
    load: float
    placed: int
    movable: bool


class GroupMove(msgspec.Struct, kw_only=True):
    """A group that another host should lead."""

    group: str
    source: int
    target: int
    load_bytes_a_second: int
    placed: int


def plan_balance(groups: Iterable[LedGroup], hosts: Collection[int]) -> list[GroupMove]:
    """The moves that balance these hosts; empty if they are balanced."""
    found = list(groups)
    load, number = max(sum(one.load for one in found), LITTLE_LOAD), sum(one.placed for one in found) or 1
    weights = {one.name: one.load / load + one.placed / number for one in found}
    led = dict.fromkeys(hosts, 0.0)
    for one in found:
        led[one.host] = led.get(one.host, 0.0) + weights[one.name]
    gain_min = MARGIN * sum(led.values()) / max(len(hosts), 1)
    hosts_of = {one.name: one.host for one in found}
    while hosts:  # It ends: every step makes the sum of the squares of the weights smaller by a minimum.
        source = max(led, key=lambda host: (led[host], host))
        target = min(hosts, key=lambda host: (led[host], host))
        able = [one.name for one in found if one.movable and hosts_of[one.name] == source != target]
        heavier = {name: max(led[source] - weights[name], led[target] + weights[name]) for name in able}
        best = min(able, key=lambda name: (heavier[name], name), default="")
        if not best or led[source] - heavier[best] <= gain_min:
            break
        hosts_of[best] = target
        led[source] -= weights[best]
        led[target] += weights[best]
    return [
        GroupMove(
            group=one.name,
            source=one.host,
            target=hosts_of[one.name],
            load_bytes_a_second=int(one.load),
            placed=one.placed,
        )
        for one in found
        if hosts_of[one.name] != one.host
    ]
