"""CreateTopics: new topics with their partitions and configuration."""

from __future__ import annotations

from longhall.broker.configuration import MIN_IN_SYNC, READ_ONLY, SETTINGS
from longhall.doors.kafka import topic_operations
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.duplicates import once_and_more, repeated_topics
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.topic_operations import CreatedTopic
from longhall.doors.kafka.wire.messages.configs import ConfigSource
from longhall.doors.kafka.wire.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
)
from longhall.errors import Code, LonghallError


async def handle(door: Door, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    once, more = once_and_more(topic.name for topic in request.topics)
    rows = repeated_topics(CreateTopicsResponseTopic, more)
    for topic in request.topics:
        if topic.name not in once:
            continue
        try:
            rows.append(_row(topic.name, await _create(door, topic, request.validate_only, call.caller.tenant)))
        except LonghallError as refused:
            error = await _confirmed(door, refused)
            rows.append(
                CreateTopicsResponseTopic(name=topic.name, error_code=error_of(error.code), error_message=str(error))
            )
    return CreateTopicsResponse(topics=rows)


async def _create(door: Door, topic: CreateTopicsRequestTopic, validate_only: bool, tenant: str) -> CreatedTopic:
    valueless = [config.name for config in topic.configs if config.value is None]
    if valueless and door.hall.topic(topic.name) is None:
        reason = f"Null value not supported for topic configs: {','.join(valueless)}"
        raise LonghallError(Code.INVALID_CONFIGURATION, reason)
    given = {config.name: config.value for config in topic.configs if config.value is not None}
    configuration = door.sealing.new_configuration(given, tenant) if door.sealing is not None else given
    return await topic_operations.create_topic(
        door.hall,
        door.node_id,
        topic.name,
        configuration,
        partitions=topic.num_partitions,
        replicas=topic.replication_factor,
        assignments=[(row.partition_index, row.broker_ids) for row in topic.assignments],
        validate_only=validate_only,
    )


async def _confirmed(door: Door, refused: LonghallError) -> LonghallError:
    """A leader that was deposed and does not know it has not heard of topics that were deleted since."""
    if refused.code is not Code.TOPIC_EXISTS or door.follows:
        return refused
    try:
        await door.service.confirm()
    except LonghallError as error:
        return error
    return LonghallError(Code.NOT_CONTROLLER, "Another node leads the hall now.") if door.follows else refused


def _source_of_default(setting: str) -> int:
    return ConfigSource.ALL_BROKERS if setting == MIN_IN_SYNC else ConfigSource.DEFAULT


def _row(name: str, created: CreatedTopic) -> CreateTopicsResponseTopic:
    given = created.configuration
    effective = {**created.defaults, **given}
    return CreateTopicsResponseTopic(
        name=name,
        topic_id=created.topic_id,
        num_partitions=created.partitions,
        replication_factor=created.replicas,
        configs=[
            CreateTopicsResponseConfig(
                name=setting,
                value=effective[setting],
                read_only=setting in READ_ONLY,
                config_source=ConfigSource.TOPIC if setting in given else _source_of_default(setting),
            )
            for setting in SETTINGS
        ],
    )
