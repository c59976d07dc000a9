"""Where wings are, and which of them a topic or a queue goes to. Pure: it decides, and others do it.

Every host has a wing that prefers to be led there, with copies on the hosts that follow it in the order of their
numbers. A wing whose hosts are chosen by name is left as it was made; if it is reserved, its hosts have nothing else.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from longhall.broker.configuration import QUOTA_BYTES, QUOTA_MESSAGES
from longhall.coordination.ports import Wing
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from longhall.topics.quota import UNLIMITED

ANY_HOST: Final = "any-host"
PARTS: Final = "parts"
SHARE: Final = "share"
NAMED: Final = "wing:"

_HOST: Final = "host-"


def wing_of_host(host: int) -> str:
    """What the wing is called that prefers this host."""
    return f"{_HOST}{host}"


def home_of(wing: Wing) -> int:
    """The host whose wing it is; 0 for one that was made by name."""
    number = wing.name.removeprefix(_HOST)
    return int(number) if wing.name.startswith(_HOST) and number.isdigit() else 0


def hosts_for(home: int, usable: Collection[int], factor: int) -> tuple[int, ...]:
    """The hosts of a wing: its home, and the next ones, in a ring."""
    ring = sorted(usable)
    after = [host for host in ring if host > home] + [host for host in ring if host < home]
    return (*((home,) if home in usable else ()), *after)[:factor]


def next_hosts(wing: Wing, wanted: tuple[int, ...], replicas: Collection[int]) -> tuple[int, ...]:
    """Where a wing should be now: where it is wanted, and meanwhile where its copies still are."""
    return (*wanted, *(host for host in wing.hosts if host in replicas and host not in wanted))


def reserved_hosts(wings: Iterable[Wing]) -> frozenset[int]:
    """Hosts that are there for one wing alone."""
    return frozenset(host for wing in wings if wing.reserved for host in wing.hosts)


def least_used(wings: Sequence[Wing], used: Mapping[int, int]) -> Wing:
    """Where a share is placed: in the wing that has the fewest so far."""
    return min(wings, key=lambda wing: (used.get(wing.number, 0), wing.number))


def lane_of(settings: QueueSettings, message: Outgoing, turn: int) -> int:
    """The lane for a message of a queue in parts. What belongs together (a group, repeats of one message) has one."""
    if settings.fifo:
        return zlib.crc32(message.group.encode()) % settings.partitions % len(settings.wings)
    if settings.deduplication == "id":
        return zlib.crc32(message.deduplication_id.encode()) % len(settings.wings)
    if settings.deduplication == "content":
        return zlib.crc32(message.deduplication_id.encode() or message.body) % len(settings.wings)
    return turn % len(settings.wings)


def check_queue(settings: QueueSettings) -> None:
    """Raises INVALID_CONFIGURATION for what a queue in several logs cannot promise."""
    wrong = ""
    if settings.parts_max > settings.partitions:
        wrong = "A queue in wings has as many parts as it is made with: leave parts_max away."
    elif settings.audit != "off":
        wrong = "What is given out in wings is not written down: a queue with an audit is kept by the hall."
    elif settings.placement not in (ANY_HOST, PARTS):
        return
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
    """Dead letters stay where their queue is: a message moves there in one step."""
    if settings.dead_letters is None or letters is None:
        return
    if letters.wings != settings.wings:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"The dead letters of '{name}' have to be kept where it is: '{settings.dead_letters.queue}' is placed "
            "elsewhere.",
        )


def configuration_in_wing(configuration: Mapping[str, str], lanes: int) -> dict[str, str]:
    """That of a topic in one of its wings: all of them together take what the whole may take."""
    shares = {
        name: str(-(-int(configuration[name]) // lanes))
        for name in (QUOTA_BYTES, QUOTA_MESSAGES)
        if int(configuration.get(name, UNLIMITED)) != UNLIMITED
    }
    return {**configuration, **shares}


def settings_in_wing(settings: QueueSettings) -> QueueSettings:
    """Those of the queue in one of its wings: all of them together hold what the whole may hold."""
    lanes = len(settings.wings)
    return msgspec.structs.replace(
        settings, messages_max=-(-settings.messages_max // lanes), bytes_max=-(-settings.bytes_max // lanes)
    )
