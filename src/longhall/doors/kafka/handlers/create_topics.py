"""CreateTopics: new topics with their partitions and configuration."""

from __future__ import annotations

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import READ_ONLY, SETTINGS, defaults
from longhall.broker.topic_administration import create_topic
from longhall.broker.topic_placement import is_for_wings
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
)
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

FROM_TOPIC = 1
FROM_DEFAULT = 5


async def handle(door: Door, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    names = [topic.name for topic in request.topics]
    rows: list[CreateTopicsResponseTopic] = []
    for topic in request.topics:
        try:
            if names.count(topic.name) > 1:
                raise LonghallError(Code.INVALID_REQUEST, f"Topic '{topic.name}' appears more than once.")
            rows.append(await _create(door, topic, request.validate_only))
        except LonghallError as refused:
            error = await _confirmed(door, refused)
            rows.append(
                CreateTopicsResponseTopic(name=topic.name, error_code=error_of(error.code), error_message=str(error))
            )
    return CreateTopicsResponse(topics=rows)


async def _confirmed(door: Door, refused: LonghallError) -> LonghallError:
    """A leader that was deposed without knowing it does not know what was deleted since."""
    if refused.code is not Code.TOPIC_EXISTS or door.follows:
        return refused
    try:
        await door.service.confirm()
    except LonghallError as error:
        return error
    return LonghallError(Code.NOT_CONTROLLER, "Another node leads the hall now.") if door.follows else refused


async def _create(door: Door, topic: CreateTopicsRequestTopic, validate_only: bool) -> CreateTopicsResponseTopic:
    # A null value asks for the default, which is what a missing one gets.
    configuration = {config.name: config.value for config in topic.configs if config.value is not None}
    if topic.assignments and is_for_wings(door.hall, configuration):
        raise LonghallError(Code.INVALID_REPLICATION, "Who keeps a topic in wings is chosen by the cluster.")
    partitions = _partition_count(door, topic)
    made = await create_topic(door.hall, topic.name, partitions, configuration, validate_only)
    if made is not None:
        configuration = made.configuration
    effective = {**defaults(door.hall.options), **configuration}
    return CreateTopicsResponseTopic(
        name=topic.name,
        topic_id=made.topic_id if made is not None else bytes(16),
        num_partitions=len(made.partitions) if made is not None else max(partitions, 1),
        replication_factor=_copies(door, made),
        configs=[
            CreateTopicsResponseConfig(
                name=name,
                value=effective[name],
                read_only=name in READ_ONLY,
                config_source=FROM_TOPIC if name in configuration else FROM_DEFAULT,
            )
            for name in SETTINGS
        ],
    )


def _replicas(door: Door) -> list[int]:
    """Who keeps a topic: in this version all nodes that keep the hall do, whatever factor was asked for."""
    leadership = door.hall.leadership
    return [door.node_id] if leadership is None else leadership.replicas(CATALOGUE_SHARD)


def _copies(door: Door, made: Topic | None) -> int:
    wings = door.hall.wings
    if made is not None and made.options.wings and wings is not None:
        return len(wings.kept(made.name, 0).replicas)
    return len(_replicas(door))


def _partition_count(door: Door, topic: CreateTopicsRequestTopic) -> int:
    if topic.assignments:
        if topic.num_partitions != -1 or topic.replication_factor != -1:
            raise LonghallError(Code.INVALID_REQUEST, "Give counts or assignments, not both.")
        numbers = sorted(row.partition_index for row in topic.assignments)
        if numbers != list(range(len(numbers))):
            raise LonghallError(Code.INVALID_PARTITION_COUNT, "Assignments must name every partition from 0 on.")
        replicas = _replicas(door)
        if any(not row.broker_ids or not set(row.broker_ids) <= set(replicas) for row in topic.assignments):
            said = (
                f"The brokers here are {replicas}." if len(replicas) > 1 else f"The only broker here is {replicas[0]}."
            )
            raise LonghallError(Code.INVALID_REPLICATION, said)
        return len(numbers)
    count = len(_replicas(door))
    if topic.replication_factor != -1 and not 1 <= topic.replication_factor <= count:
        raise LonghallError(
            Code.INVALID_REPLICATION,
            f"Replication factor {topic.replication_factor} is not possible with {count} broker{'s'[: count > 1]}.",
        )
    if topic.num_partitions != -1 and topic.num_partitions < 1:
        raise LonghallError(Code.INVALID_PARTITION_COUNT, "A topic has at least one partition.")
    return topic.num_partitions
