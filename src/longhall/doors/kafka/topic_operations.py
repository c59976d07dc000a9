"""What Kafka's requests on topics ask of the leader of the hall, in plain values: one function an operation.

    operation                requests                                           reply
    create_topic             CreateTopics                                       CreatedTopic
    ensure_topic             Metadata, where topics are created on first use    nothing
    delete_topic             DeleteTopics                                       DeletedTopic
    add_partitions           CreatePartitions                                   nothing
    configure_topic          AlterConfigs                                       nothing
    change_configuration     IncrementalAlterConfigs                            nothing
    describe_configuration   DescribeConfigs of topics                          TopicConfiguration
    describe_topics          Metadata, DescribeTopicPartitions                  a TopicDescription or None for each

A change is committed when its function returns. A refusal is a `LonghallError`. Nothing here knows messages, versions
or error numbers of Kafka's protocol, nor a connection: the handlers translate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from longhall.broker import topic_administration
from longhall.broker.configuration import LIST, MOVES, PLACEMENT, SETTINGS, WINGS, defaults
from longhall.broker.configuration_changes import ConfigurationAction, ConfigurationChange, changed
from longhall.broker.hall import Hall
from longhall.broker.topic_placement import is_for_wings
from longhall.doors.kafka.placements import Placement, Placements
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

DEFAULT: Final = -1  # As a number of partitions or replicas: as many as the hall gives a topic by itself.


class CreatedTopic(msgspec.Struct, array_like=True):
    """A topic that was created, or could be."""

    topic_id: bytes  # Zeros if it was only validated.
    partitions: int
    replicas: int
    configuration: dict[str, str]  # The settings that were given; all others have their default.
    defaults: dict[str, str]


class DeletedTopic(msgspec.Struct, array_like=True):
    """A topic that is gone."""

    name: str
    topic_id: bytes


class TopicConfiguration(msgspec.Struct, array_like=True):
    """The settings that were given for a topic, and the defaults of all settings."""

    configuration: dict[str, str]
    defaults: dict[str, str]


class TopicDescription(msgspec.Struct, array_like=True):
    """A topic, and where its partitions are, from number 0 on."""

    name: str
    topic_id: bytes
    partitions: list[Placement]


async def create_topic(
    hall: Hall,
    node_id: int,
    name: str,
    configuration: Mapping[str, str],
    *,
    partitions: int = DEFAULT,
    replicas: int = DEFAULT,
    assignments: Sequence[tuple[int, Sequence[int]]] = (),
    validate_only: bool = False,
) -> CreatedTopic:
    """Create a topic. `assignments` name the replicas of each partition; without them the counts hold. All topics of a
    hall are stored by the same nodes: a factor is the least number of copies, and another assignment is refused.
    """
    if name in hall.routes:
        raise LonghallError(Code.TOPIC_EXISTS, f"Topic '{name}' already exists.")
    if assignments and is_for_wings(hall, configuration):
        raise LonghallError(Code.INVALID_REPLICA_ASSIGNMENT, "The cluster chooses the hosts of a topic in wings.")
    count = _count_partitions(replicas_of_hall(hall, node_id), partitions, replicas, assignments)
    copies_min = None if assignments else max(replicas, 0)
    made = await topic_administration.create_topic(
        hall, name, count, configuration, validate_only, copies_min=copies_min
    )
    usual = defaults(hall.options)
    copies = len(replicas_of_hall(hall, node_id))
    if made is None:
        return CreatedTopic(bytes(16), max(count, 1), copies, dict(configuration), usual)
    if made.options.wings and hall.wings is not None:
        copies = len(hall.wings.kept(name, 0).replicas)
    return CreatedTopic(made.topic_id, len(made.partitions), copies, made.configuration, usual)


async def ensure_topic(hall: Hall, name: str, configuration: Mapping[str, str]) -> None:
    """Create a topic where topics are created on first use, unless it exists."""
    if name in hall.routes:
        return
    if not hall.options.auto_create_topics:
        raise LonghallError(Code.UNKNOWN_TOPIC, f"There is no topic '{name}'.")
    try:
        await topic_administration.create_topic(hall, name, DEFAULT, configuration)
    except LonghallError as error:
        if error.code is not Code.TOPIC_EXISTS:  # Another client was first.
            raise


async def delete_topic(hall: Hall, name: str, topic_id: bytes = b"") -> DeletedTopic:
    """Delete the topic of this name, or of this id if there is no name, with everything in it."""
    if not name:
        name = hall.topic_name(topic_id)
        if not name:
            raise LonghallError(Code.UNKNOWN_TOPIC_ID, "There is no topic of this id.")
    topic = hall.topic(name)
    await topic_administration.delete_topic(hall, name)
    return DeletedTopic(name, topic.topic_id if topic is not None else bytes(16))


async def add_partitions(
    hall: Hall,
    node_id: int,
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None = None,
    validate_only: bool = False,
) -> None:
    """Let a topic have `count` partitions in all. `assignments` name the replicas of each new one."""
    topic = hall.topic(name)
    added = count - len(topic.partitions) if topic is not None else 0
    if assignments is not None and topic is not None and added > 0:  # Else the count is wrong, and refused below.
        if topic.options.wings:
            raise LonghallError(Code.INVALID_REPLICA_ASSIGNMENT, "The cluster chooses the hosts of a topic in wings.")
        if len(assignments) != added:
            reason = f"{added} partitions are added, and {len(assignments)} assigned."
            raise LonghallError(Code.INVALID_REPLICA_ASSIGNMENT, reason)
        _check_assignments(replicas_of_hall(hall, node_id), assignments)
    await topic_administration.add_partitions(hall, name, count, validate_only)


async def configure_topic(hall: Hall, name: str, configuration: Mapping[str, str], validate_only: bool = False) -> None:
    """Replace the whole configuration of a topic: settings that are not named return to their defaults."""
    describe_configuration(hall, name)
    await topic_administration.configure_topic(hall, name, configuration, validate_only)


async def change_configuration(
    hall: Hall, name: str, changes: Sequence[ConfigurationChange], validate_only: bool = False
) -> None:
    """Change some settings of a topic, all of them or none."""
    have = describe_configuration(hall, name)
    await topic_administration.configure_topic(hall, name, _changed(have, changes), validate_only)


def describe_configuration(hall: Hall, name: str) -> TopicConfiguration:
    """The configuration of a topic as it is."""
    topic = hall.topic(name)
    if topic is None:
        raise LonghallError(Code.UNKNOWN_TOPIC, f"There is no topic '{name}'.")
    return TopicConfiguration(topic.configuration, defaults(hall.options))


def describe_topics(hall: Hall, node_id: int, names: Sequence[str]) -> list[TopicDescription | None]:
    """The topics of these names, in the same order; None for a name that no topic has."""
    placements = Placements(hall, node_id)
    return [describe_topic(hall, placements, name) for name in names]


def describe_topic(hall: Hall, placements: Placements, name: str) -> TopicDescription | None:
    """One of them, for callers that describe many in turns."""
    route = hall.shown(name)
    if route is None:
        return None
    return TopicDescription(name, route[0].topic_id, [placements.of(partition) for partition in route])


def replicas_of_hall(hall: Hall, node_id: int) -> list[int]:
    """The nodes that store a topic of the hall's own replication group, at least as many as its factor."""
    leadership = hall.leadership
    return [node_id] if leadership is None else leadership.replicas(CATALOGUE_SHARD)


def _count_partitions(
    nodes: list[int], partitions: int, replicas: int, assignments: Sequence[tuple[int, Sequence[int]]]
) -> int:
    if assignments:
        if partitions != DEFAULT or replicas != DEFAULT:
            raise LonghallError(Code.INVALID_REQUEST, "Give counts or assignments, not both.")
        if sorted(number for number, _ in assignments) != list(range(len(assignments))):
            raise LonghallError(Code.INVALID_PARTITION_COUNT, "Assignments must name every partition from 0 on.")
        _check_assignments(nodes, [assigned for _, assigned in assignments])
        return len(assignments)
    count = len(nodes)
    if replicas != DEFAULT and not 1 <= replicas <= count:
        raise LonghallError(
            Code.INVALID_REPLICATION,
            f"Replication factor {replicas} is not possible: every topic has {count} replica{'s'[: count > 1]} here.",
        )
    if partitions != DEFAULT and partitions < 1:
        raise LonghallError(Code.INVALID_PARTITION_COUNT, "A topic has at least one partition.")
    return partitions


def _check_assignments(nodes: list[int], assignments: Sequence[Sequence[int]]) -> None:
    for assigned in assignments:
        if not assigned or assigned[0] != nodes[0] or sorted(assigned) != sorted(nodes):
            said = f"brokers {nodes}, {nodes[0]} first" if len(nodes) > 1 else f"broker {nodes[0]}, the only one"
            raise LonghallError(Code.INVALID_REPLICA_ASSIGNMENT, f"Every partition is stored by {said}.")


def _changed(have: TopicConfiguration, changes: Sequence[ConfigurationChange]) -> dict[str, str]:
    # A placement that is deleted is set to its default: unless it has that anyway, the broker says why not.
    explicit = [
        ConfigurationChange(change.name, ConfigurationAction.SET, have.defaults[change.name])
        if change.action is ConfigurationAction.DELETE and change.name in (PLACEMENT, WINGS, MOVES)
        else change
        for change in changes
    ]
    return changed(have.configuration, explicit, _check_name, lambda name: _list_default(have, name))


def _check_name(name: str) -> None:
    if name not in SETTINGS:
        raise LonghallError(Code.INVALID_CONFIGURATION, f"Unknown topic config name: {name}")


def _list_default(have: TopicConfiguration, name: str) -> str | None:
    return have.defaults[name] if SETTINGS[name].kind == LIST else None
