"""The default placement: where a topic or queue goes whose creator names no placement. Pure: it decides, others act.

It never chooses a place that refuses something which the hall accepts at the creation. What replication groups other
than the hall cannot do yet is listed as `GroupFeature`; a feature that they have learned is added to `SUPPORTED`, with
its feature level, and the rule then spreads what it kept in the hall before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from longhall.broker.configuration import (
    ARCHIVE,
    IN_THE_HALL,
    PARTS,
    QUOTA_BYTES,
    QUOTA_MESSAGES,
    SHARE,
)
from longhall.broker.feature_gates import (
    GROUP_AUDITS_LEVEL,
    GROUP_GROWTH_LEVEL,
    GROUP_QUEUES_LEVEL,
    GROUP_SETTLES_LEVEL,
    NEWEST,
    SPREAD_LEVEL,
)
from longhall.queues.settings import AmqpSettings, QueueSettings
from longhall.queues.stamps import HEAD
from longhall.topics.quota import UNLIMITED


class GroupFeature(Enum):
    """Features that replication groups other than the hall may lack."""

    TRANSACTIONS = "transactions of Kafka producers over several groups, which settle messages of queues there"
    DEAD_LETTERS = "dead letters, answers and moves from one group to another"
    PUSH = "AMQP consumers, to which a queue in another group pushes its messages"
    AUDITS = "audits, with the audit topic in the group of the queue"
    ARCHIVES = "topics that must be archived"
    GROWTH = "queues that grow (parts_max)"


# Dead letters go between groups by an outbox from level 6 on. They are not here, because inside one group the move is
# one step, as in the hall: a receiver of the dead-letter queue sees the message at once.
SUPPORTED: Final[Mapping[GroupFeature, int]] = {
    GroupFeature.TRANSACTIONS: GROUP_SETTLES_LEVEL,
    GroupFeature.AUDITS: GROUP_AUDITS_LEVEL,
    GroupFeature.ARCHIVES: GROUP_QUEUES_LEVEL,
    GroupFeature.PUSH: SPREAD_LEVEL,
    GroupFeature.GROWTH: GROUP_GROWTH_LEVEL,
}


def groups_support(feature: GroupFeature, level: int = NEWEST) -> bool:
    """True if every replication group of a cluster with this feature level has the feature."""
    return feature in SUPPORTED and level >= SUPPORTED[feature]


def default_placement(
    hosts: int,
    partitions: int,
    configuration: Mapping[str, str],
    settings: QueueSettings | None = None,
    letters: QueueSettings | None = None,
    supports: Callable[[GroupFeature], bool] = groups_support,
) -> str:
    """The placement of a new topic, or of a queue with these settings. The first row that fits counts.

    `hosts` is the number of hosts whose groups can take something now, `letters` has the settings of the dead-letter
    queue.

        what is created                                                          placement
        a topic, while groups lack TRANSACTIONS, or with longhall.archive, while
            they lack ARCHIVES                                                   hall
        a queue that AMQP declared, while groups lack PUSH                       hall
        an AMQP queue that is exclusive, deleted when unused, or has its own
            dead-letter exchange                                                 hall
        a queue that grows (parts_max), while groups lack GROWTH                 hall
        a queue with an audit, while groups lack AUDITS or if its dead-letter
            queue, which it has to be with, is in several groups                 hall
        a queue with dead letters, while groups lack DEAD_LETTERS or if it
            takes messages in chunks                                             as the dead-letter queue
        anything, if the groups of fewer than two hosts can take something       hall
        one partition                                                            share
        a queue whose rules count over all partitions: priorities, capacity,
            one-by-one, at-most-once, late_stamped, deduplication unless it is
            inside a FIFO group, FIFO with deduplication over the queue; or a
            queue with an audit, or one that grows                               share
        a topic with a quota                                                     share
        anything else                                                            parts
    """
    if settings is None:
        return IN_THE_HALL if hosts < 2 else _place_topic(partitions, configuration, supports)
    if settings.amqp is not None and (not supports(GroupFeature.PUSH) or _belongs_to_hall(settings.amqp)):
        return IN_THE_HALL
    if settings.parts_max > settings.partitions and not supports(GroupFeature.GROWTH):
        return IN_THE_HALL
    follows = letters is not None and follows_letters(settings, supports)
    if settings.audit != "off":
        several = follows and letters is not None and len(letters.wings) > 1
        if several or not supports(GroupFeature.AUDITS):
            return IN_THE_HALL
    if letters is not None and follows:
        return letters.placement if letters.wings else IN_THE_HALL
    if hosts < 2:
        return IN_THE_HALL
    return PARTS if partitions > 1 and _is_divisible(settings) else SHARE


def _place_topic(partitions: int, configuration: Mapping[str, str], supports: Callable[[GroupFeature], bool]) -> str:
    archived = configuration.get(ARCHIVE, "none") != "none"
    if not supports(GroupFeature.TRANSACTIONS) or (archived and not supports(GroupFeature.ARCHIVES)):
        return IN_THE_HALL
    limits = (int(configuration.get(name, UNLIMITED)) for name in (QUOTA_BYTES, QUOTA_MESSAGES))
    return PARTS if partitions > 1 and all(limit == UNLIMITED for limit in limits) else SHARE


def _belongs_to_hall(amqp: AmqpSettings) -> bool:
    """True for an AMQP queue whose life or dead letters depend on objects of the hall."""
    return bool(amqp.owner or amqp.auto_delete or amqp.expires_ms or amqp.letters_exchange is not None)


def _is_divisible(settings: QueueSettings) -> bool:
    """True if partitions in several groups keep every rule of the queue."""
    if settings.fifo:
        repeats = settings.deduplication_scope == "group"
    else:
        repeats = settings.deduplication == "off"
    return (
        repeats
        and settings.parts_max <= settings.partitions
        and settings.priorities == 1
        and not (settings.messages_max or settings.bytes_max)
        and not settings.one_by_one
        and settings.delivery != "at-most-once"
        and settings.late_stamped != HEAD
        and settings.audit == "off"
    )


def follows_letters(settings: QueueSettings, supports: Callable[[GroupFeature], bool]) -> bool:
    """True if a queue has to be in the groups of its dead-letter queue."""
    return settings.dead_letters is not None and (
        bool(settings.whole_bytes_max) or not supports(GroupFeature.DEAD_LETTERS)
    )


def lanes_of(placement: str, partitions: int) -> int:
    """The number of groups for so many partitions with a placement that the rule chose."""
    return partitions if placement == PARTS else 1
