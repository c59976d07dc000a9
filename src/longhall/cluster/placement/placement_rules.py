"""Placement rules: the hosts of wings, and the wings of a topic or queue. Pure: it decides, and others act.

Every host is the home of a wing that prefers to be led there, with replicas on the hosts that follow it in the order of
their numbers. A wing whose home is gone is led by the host that leads the fewest. A wing that an operator created keeps
the hosts that the operator chose; if it is reserved, those hosts store nothing else.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from longhall.broker.configuration import ANY_HOST, MOVES, PARTS, QUOTA_BYTES, QUOTA_MESSAGES, WINGS
from longhall.coordination.ports import ReplicationGroup
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Outgoing
from longhall.queues.outbox_events import OutboxEntry
from longhall.queues.settings import QueueSettings
from longhall.topics.quota import UNLIMITED

NAMED: Final = "wing:"

LITTLE_LOAD: Final = float(1 << 20)  # Bytes a second of all hosts together, below which load counts less than number.
BETTER_BY: Final = 2  # A wing whose home is gone moves only to a host that leads at least so many fewer.

_HOST: Final = "host-"


def wing_of_host(host: int) -> str:
    """The name of the wing whose home is this host."""
    return f"{_HOST}{host}"


def home_of(wing: ReplicationGroup) -> int:
    """The home of a wing; 0 for a wing that an operator created."""
    number = wing.name.removeprefix(_HOST)
    return int(number) if wing.name.startswith(_HOST) and number.isdigit() else 0


def hosts_for(home: int, usable: Collection[int], factor: int, leader: int = 0, chosen: int = 0) -> tuple[int, ...]:
    """The hosts of a wing: the host that was chosen for balance, its home, or else `leader`, and the next ones after
    its home, in a ring.
    """
    first = chosen if chosen in usable else home if home in usable else leader
    return tuple(sorted(usable, key=lambda host: (host != first, host < home, host)))[:factor]


def is_homeless(wing: ReplicationGroup, usable: Collection[int], gone: Collection[int]) -> bool:
    """True if the home of a wing cannot store it. A home that is only down does not count as gone."""
    home = home_of(wing)
    return home != 0 and (home in gone or home not in (*usable, *wing.hosts))


def leaders_for(
    wings: Iterable[ReplicationGroup], usable: Collection[int], gone: Collection[int], placed: Collection[int]
) -> dict[str, int]:
    """The hosts that should lead the wings whose home is gone, by the names of the wings.

    The choice is the usable host that leads the fewest wings in which something is placed (those in `placed`); among
    these, the one with the fewest wings of other homes; among these, the next in the ring. That host leads the wing
    until its home is back, unless another host leads at least BETTER_BY fewer: wings must not move back and forth.
    """
    known = sorted((wing for wing in wings if wing.hosts), key=lambda wing: (wing.number not in placed, wing.number))
    homeless = [wing for wing in known if is_homeless(wing, usable, gone)]
    leaders = {wing.name: wing.hosts[0] for wing in homeless if wing.hosts[0] not in gone}
    given = Counter(leaders.values())
    leads: Counter[int] = Counter()
    for wing in known:
        if wing.number in placed and (wing not in homeless or wing.name in leaders):
            leads[leaders.get(wing.name) or home_of(wing) or wing.hosts[0]] += 1
    balanced = not usable
    while not balanced:
        balanced = True
        for wing in homeless:
            counts = leads if wing.number in placed else given
            least = _least(usable, home_of(wing), counts, given)
            has = leaders.get(wing.name)
            if has is None or counts[has] - counts[least] >= BETTER_BY:
                balanced = False  # Look at all again. The loop ends: each change makes the load more equal.
                leaders[wing.name] = least
                for host, change in ((has, -1), (least, 1)):
                    if host is not None:
                        given[host] += change
                        leads[host] += change * (wing.number in placed)
    return leaders


def _least(usable: Collection[int], home: int, counts: Mapping[int, int], given: Mapping[int, int]) -> int:
    return min(usable, key=lambda host: (counts.get(host, 0), given.get(host, 0), host < home, host))


def next_hosts(wing: ReplicationGroup, wanted: tuple[int, ...], replicas: Collection[int]) -> tuple[int, ...]:
    """The hosts that a wing needs now: the wanted ones, and until they have caught up those with replicas."""
    return (*wanted, *(host for host in wing.hosts if host in replicas and host not in wanted))


def reserved_hosts(wings: Iterable[ReplicationGroup]) -> frozenset[int]:
    """Hosts that are reserved for one wing."""
    return frozenset(host for wing in wings if wing.reserved for host in wing.hosts)


def by_load(leaders: Mapping[int, int], loads: Mapping[int, float], placed: Mapping[int, int]) -> list[int]:
    """Groups in the order in which new topics and queues go to them.

    `leaders` has the host that leads each group, `loads` and `placed` what each host leads: the load of the last
    minutes, and the number of topics and queues. A host counts by its share of the load plus its share of the number:
    the load of what was created just now is not known yet, and the number stands for it. In a cluster with little load
    the number decides.
    """
    load, number = max(sum(loads.values()), LITTLE_LOAD), sum(placed.values()) or 1

    def weight(host: int) -> float:
        return loads.get(host, 0.0) / load + placed.get(host, 0) / number

    return sorted(leaders, key=lambda group: (weight(leaders[group]), group))


def lane_of(settings: QueueSettings, message: Outgoing, turn: int) -> int:
    """The lane for a message of a queue in parts. Messages of one group or one deduplication id share a lane."""
    if settings.fifo:
        return zlib.crc32(message.group.encode()) % settings.partitions % len(settings.wings)
    if settings.deduplication == "id":
        return zlib.crc32(message.deduplication_id.encode()) % len(settings.wings)
    if settings.deduplication == "content":
        return zlib.crc32(message.deduplication_id.encode() or message.body) % len(settings.wings)
    return turn % len(settings.wings)


def check_queue(settings: QueueSettings) -> None:
    """Raises INVALID_CONFIGURATION for settings that a queue in several logs cannot honour."""
    wrong = ""
    if settings.amqp is not None and settings.amqp.letters_exchange is not None:
        wrong = "The hall has the exchanges: a queue whose dead letters go through an exchange is kept by the hall."
    elif settings.placement not in (ANY_HOST, PARTS):
        return
    elif settings.audit != "off":
        wrong = "The audit of a queue is one log in one replication group: choose the placement share."
    elif settings.delivery == "at-most-once":
        wrong = "What is given out at most once could not be given back by who waits for several hosts: choose share."
    elif settings.one_by_one:
        wrong = "A queue that gives out one by one is kept in one place: choose the placement share."
    elif settings.placement == ANY_HOST and settings.fifo:
        wrong = "A FIFO queue cannot be taken by any host, because there is no order across hosts: choose parts."
    elif settings.placement == ANY_HOST and settings.deduplication != "off":
        wrong = "Any host takes messages without asking others, so none can tell repeats: choose parts."
    elif settings.fifo and settings.deduplication_scope != "group":
        wrong = "A FIFO queue in parts tells repeats inside a group: set the scope of its deduplication to the group."
    if wrong:
        raise LonghallError(Code.INVALID_CONFIGURATION, wrong)


def check_letters(name: str, settings: QueueSettings, letters: QueueSettings | None) -> None:
    """Raises INVALID_CONFIGURATION for a dead-letter queue in another group that could not take all messages."""
    if settings.dead_letters is None or letters is None or letters.wings == settings.wings:
        return
    if settings.whole_bytes_max:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"'{name}' takes messages in chunks (whole_bytes_max), and the chunks stay in their replication group: "
            f"its dead-letter queue '{settings.dead_letters.queue}' has to be placed like it.",
        )


def lane_of_moved(settings: QueueSettings, entry: OutboxEntry, offset: int) -> int:
    """The lane for a message of another group's outbox. A repeat has the same lane, which recognises it."""
    if entry.message is not None:
        return lane_of(settings, entry.message, offset)
    if settings.fifo:
        return zlib.crc32(entry.group.encode()) % settings.partitions % len(settings.wings)
    return offset % len(settings.wings)


def configuration_in_wing(configuration: Mapping[str, str], lanes: int) -> dict[str, str]:
    """The configuration of a topic in one of its wings: its limits are divided among the wings. It names the hall
    as the owner of what moved there.
    """
    shares = {
        name: str(-(-int(configuration[name]) // max(lanes, 1)))
        for name in (QUOTA_BYTES, QUOTA_MESSAGES)
        if int(configuration.get(name, UNLIMITED)) != UNLIMITED
    }
    wings = {WINGS: configuration.get(WINGS) or "0"} if MOVES in configuration else {}  # Nothing is in this wing.
    return {**configuration, **shares, **wings}


def settings_in_wing(settings: QueueSettings) -> QueueSettings:
    """The settings of a queue in one of its wings: its limits are divided among the wings."""
    lanes = max(len(settings.wings), 1)  # One that moved to the hall has no wings, and those before know it.
    return msgspec.structs.replace(
        settings, messages_max=-(-settings.messages_max // lanes), bytes_max=-(-settings.bytes_max // lanes)
    )
