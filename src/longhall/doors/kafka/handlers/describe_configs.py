"""DescribeConfigs: the settings of topics and of this broker, with the source of each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longhall.broker.broker_configuration import DYNAMIC, NAME_OF_DEFAULT
from longhall.broker.configuration import BOOLEAN, INT, MIN_IN_SYNC, READ_ONLY, SETTINGS, STRING
from longhall.doors.kafka import broker_operations, group_operations, topic_operations
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.topic_operations import TopicConfiguration
from longhall.doors.kafka.wire.messages.configs import (
    ConfigResourceType,
    ConfigSource,
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
    if resource_type == ConfigResourceType.TOPIC:
        return _topic_configs(door, topic_operations.describe_configuration(door.hall, name), documented)
    if resource_type == ConfigResourceType.GROUP:
        return _group_configs(door, name, documented)
    if resource_type == ConfigResourceType.BROKER:
        return _broker_configs(broker_operations.describe_broker(door, name), documented)
    if resource_type == ConfigResourceType.BROKER_LOGGER:
        return _logger_configs(broker_operations.describe_loggers(door, name))
    raise LonghallError(Code.INVALID_REQUEST, "Topics, groups, this broker and its loggers can be described.")


def _topic_configs(door: Door, topic: TopicConfiguration, documented: bool) -> list[DescribeConfigsResponseConfig]:
    given, usual = topic.configuration, topic.defaults
    configs: list[DescribeConfigsResponseConfig] = []
    for name, setting in SETTINGS.items():
        synonyms = _default_synonyms(door, name, usual[name])
        if name in given:
            synonyms.insert(0, DescribeConfigsResponseSynonym(name=name, value=given[name], source=ConfigSource.TOPIC))
        configs.append(
            DescribeConfigsResponseConfig(
                name=name,
                value=given.get(name, usual[name]),
                read_only=name in READ_ONLY,
                config_source=synonyms[0].source,
                is_default=synonyms[0].source == ConfigSource.DEFAULT,
                synonyms=synonyms,
                config_type=setting.kind,
                documentation=setting.meaning if documented else None,
            )
        )
    return configs


def _default_synonyms(door: Door, topic_name: str, default: str) -> list[DescribeConfigsResponseSynonym]:
    """The values that hold for a topic without its own: those that brokers got at run time, and the default."""
    name = NAME_OF_DEFAULT.get(topic_name, "")
    if name and door.hall.catalogue.brokers:
        given = broker_operations.dynamic_values(door, name)
    else:
        given = [broker_operations.cluster_in_sync_min(door)] if topic_name == MIN_IN_SYNC else []
    synonyms = [DescribeConfigsResponseSynonym(name=name, value=one.value, source=one.source) for one in given]
    if synonyms:
        default = SETTINGS[topic_name].default(door.hall.options)
    return [
        *synonyms,
        DescribeConfigsResponseSynonym(name=name or topic_name, value=default, source=ConfigSource.DEFAULT),
    ]


def _group_configs(door: Door, group_id: str, documented: bool) -> list[DescribeConfigsResponseConfig]:
    configs: list[DescribeConfigsResponseConfig] = []
    for name, found in group_operations.describe_configuration(door.coordinator, group_id).items():
        value, default, is_given = found
        synonyms = [DescribeConfigsResponseSynonym(name=name, value=default, source=ConfigSource.DEFAULT)]
        if is_given:
            synonyms.insert(0, DescribeConfigsResponseSynonym(name=name, value=value, source=ConfigSource.GROUP))
        configs.append(
            DescribeConfigsResponseConfig(
                name=name,
                value=value,
                config_source=ConfigSource.GROUP if is_given else ConfigSource.DEFAULT,
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


def _broker_configs(
    found: Mapping[str, Sequence[broker_operations.Value]], documented: bool
) -> list[DescribeConfigsResponseConfig]:
    """The configurations of a broker. What is not in the table of dynamic ones is read when a node starts."""
    configs: list[DescribeConfigsResponseConfig] = []
    for name, values in found.items():
        setting = DYNAMIC.get(name)
        configs.append(
            DescribeConfigsResponseConfig(
                name=name,
                value=values[0].value,
                read_only=setting is None,
                config_source=values[0].source,
                synonyms=[
                    DescribeConfigsResponseSynonym(name=name, value=one.value, source=one.source) for one in values
                ],
                config_type=setting.kind if setting is not None else _type_of(values[0].value),
                documentation=setting.meaning if documented and setting is not None else None,
            )
        )
    return configs


def _logger_configs(levels: Mapping[str, str]) -> list[DescribeConfigsResponseConfig]:
    return [
        DescribeConfigsResponseConfig(
            name=name,
            value=level,
            config_source=ConfigSource.BROKER_LOGGER,
            synonyms=[DescribeConfigsResponseSynonym(name=name, value=level, source=ConfigSource.BROKER_LOGGER)],
            config_type=STRING,
            documentation=None,
        )
        for name, level in levels.items()
    ]
