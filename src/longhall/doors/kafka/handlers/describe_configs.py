"""DescribeConfigs: the settings of topics and of this broker, with the source of each value."""

from __future__ import annotations

from longhall.broker.configuration import BOOLEAN, INT, READ_ONLY, SETTINGS, STRING
from longhall.doors.kafka import broker_operations, group_operations, topic_operations
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.topic_operations import TopicConfiguration
from longhall.doors.kafka.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResource,
    DescribeConfigsResponseSynonym,
)
from longhall.errors import Code, LonghallError
from longhall.topics.group_configuration import SETTINGS as GROUP_SETTINGS
from longhall.topics.share_settings import SETTINGS as SHARE_SETTINGS

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
GROUP = 32
FROM_TOPIC = 1
FROM_FILE = 4
FROM_DEFAULT = 5
FROM_LOGGER = 6
FROM_GROUP = 8


def handle(door: Door, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_describe(door, resource, request) for resource in request.resources])


def _describe(
    door: Door, asked: DescribeConfigsRequestResource, request: DescribeConfigsRequest
) -> DescribeConfigsResponseResource:
    row = _resource(door, asked, request.include_documentation)
    if not request.include_synonyms:
        for config in row.configs:
            config.synonyms = []
    return row


def _resource(door: Door, asked: DescribeConfigsRequestResource, documented: bool) -> DescribeConfigsResponseResource:
    row = DescribeConfigsResponseResource(
        resource_type=asked.resource_type, resource_name=asked.resource_name, error_message=None
    )
    try:
        row.configs = _configs(door, asked.resource_type, asked.resource_name, documented)
    except LonghallError as error:
        row.error_code, row.error_message = error_of(error.code), str(error)
    if asked.configuration_keys is not None:
        row.configs = [config for config in row.configs if config.name in asked.configuration_keys]
    return row


def _configs(door: Door, resource_type: int, name: str, documented: bool) -> list[DescribeConfigsResponseConfig]:
    if resource_type == TOPIC:
        return _topic_configs(topic_operations.describe_configuration(door.hall, name), documented)
    if resource_type == GROUP:
        return _group_configs(door, name, documented)
    if resource_type == BROKER:
        return _plain_configs(broker_operations.describe_broker(door, name), FROM_FILE)
    if resource_type == BROKER_LOGGER:
        return _plain_configs(broker_operations.describe_loggers(door, name), FROM_LOGGER)
    raise LonghallError(Code.INVALID_REQUEST, "Topics, groups, this broker and its loggers can be described.")


def _topic_configs(topic: TopicConfiguration, documented: bool) -> list[DescribeConfigsResponseConfig]:
    given, usual = topic.configuration, topic.defaults
    configs: list[DescribeConfigsResponseConfig] = []
    for name, setting in SETTINGS.items():
        synonyms = [DescribeConfigsResponseSynonym(name=name, value=usual[name], source=FROM_DEFAULT)]
        if name in given:
            synonyms.insert(0, DescribeConfigsResponseSynonym(name=name, value=given[name], source=FROM_TOPIC))
        configs.append(
            DescribeConfigsResponseConfig(
                name=name,
                value=given.get(name, usual[name]),
                read_only=name in READ_ONLY,
                config_source=FROM_TOPIC if name in given else FROM_DEFAULT,
                is_default=name not in given,
                synonyms=synonyms,
                config_type=setting.kind,
                documentation=setting.meaning if documented else None,
            )
        )
    return configs


def _group_configs(door: Door, group_id: str, documented: bool) -> list[DescribeConfigsResponseConfig]:
    configs: list[DescribeConfigsResponseConfig] = []
    for name, found in group_operations.describe_configuration(door.coordinator, group_id).items():
        value, default, is_given = found
        synonyms = [DescribeConfigsResponseSynonym(name=name, value=default, source=FROM_DEFAULT)]
        if is_given:
            synonyms.insert(0, DescribeConfigsResponseSynonym(name=name, value=value, source=FROM_GROUP))
        configs.append(
            DescribeConfigsResponseConfig(
                name=name,
                value=value,
                config_source=FROM_GROUP if is_given else FROM_DEFAULT,
                is_default=not is_given,
                synonyms=synonyms,
                config_type=_type_of(default),
                documentation=_meaning(name) if documented else None,
            )
        )
    return configs


def _type_of(value: str) -> int:
    if value.isdigit():
        return INT
    return BOOLEAN if value in ("true", "false") else STRING


def _meaning(name: str) -> str:
    return GROUP_SETTINGS[name].meaning if name in GROUP_SETTINGS else SHARE_SETTINGS[name].meaning


def _plain_configs(values: dict[str, str], source: int) -> list[DescribeConfigsResponseConfig]:
    """Values without defaults. Those of a node are read when it starts; the levels of loggers can be changed."""
    return [
        DescribeConfigsResponseConfig(
            name=name,
            value=value,
            read_only=source == FROM_FILE,
            config_source=source,
            synonyms=[DescribeConfigsResponseSynonym(name=name, value=value, source=source)],
            config_type=_type_of(value),
            documentation=None,
        )
        for name, value in values.items()
    ]
