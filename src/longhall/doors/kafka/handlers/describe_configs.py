"""DescribeConfigs: the settings of topics and of this broker, with the source of each value."""

from __future__ import annotations

from longhall.broker.configuration import BOOLEAN, READ_ONLY, SETTINGS, STRING
from longhall.doors.kafka import topic_operations
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

TOPIC = 2
BROKER = 4
FROM_TOPIC = 1
FROM_FILE = 4
FROM_DEFAULT = 5


def handle(door: Door, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_resource(door, resource, request.include_documentation) for resource in request.resources]
    )


def _resource(door: Door, asked: DescribeConfigsRequestResource, documented: bool) -> DescribeConfigsResponseResource:
    row = DescribeConfigsResponseResource(
        resource_type=asked.resource_type, resource_name=asked.resource_name, error_message=None
    )
    if asked.resource_type == TOPIC:
        try:
            topic = topic_operations.describe_configuration(door.hall, asked.resource_name)
        except LonghallError as error:
            row.error_code, row.error_message = error_of(error.code), str(error)
            return row
        row.configs = _topic_configs(topic, documented)
    elif asked.resource_type == BROKER and asked.resource_name in ("", str(door.node_id)):
        row.configs = _broker_configs(door)
    else:
        row.error_code = error_of(Code.INVALID_REQUEST)
        row.error_message = "Topics and this broker can be described."
    if asked.configuration_keys is not None:
        row.configs = [config for config in row.configs if config.name in asked.configuration_keys]
    return row


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


def _broker_configs(door: Door) -> list[DescribeConfigsResponseConfig]:
    return [
        DescribeConfigsResponseConfig(
            name=name,
            value=value,
            read_only=True,
            config_source=FROM_FILE,
            config_type=BOOLEAN if value in ("true", "false") else STRING,
            documentation=None,
        )
        for name, value in door.broker_settings().items()
    ]
