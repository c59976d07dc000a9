"""Settings of topics, brokers and groups."""

from __future__ import annotations

from enum import IntEnum

from longhall.doors.kafka.wire.schema import Message, array, boolean, int8, int16, int32, string


class ConfigResourceType(IntEnum):
    """A kind of resource that has settings: `resource_type` in the messages."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The origin of a value: `config_source` and `source` in the responses."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4  # The settings with which the broker started.
    DEFAULT = 5
    BROKER_LOGGER = 6
    GROUP = 8


class ConfigOperation(IntEnum):
    """A change of IncrementalAlterConfigs to one setting. APPEND and SUBTRACT are for lists; DELETE needs no value."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class DescribeConfigsRequestResource(Message):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configuration_keys: list[str] | None = array("0+", "string", null="0+")


class DescribeConfigsRequest(Message, flexible=4):
    """Null keys mean all."""

    resources: list[DescribeConfigsRequestResource] = array("0+", DescribeConfigsRequestResource)
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


class DescribeConfigsResponseSynonym(Message):
    name: str = string("1+")
    value: str | None = string("1+", null="0+")
    source: int = int8("1+")


class DescribeConfigsResponseConfig(Message):
    name: str = string("0+")
    value: str | None = string("0+", null="0+")
    read_only: bool = boolean("0+")
    config_source: int = int8("1+", default=-1)
    is_default: bool = boolean("0")
    is_sensitive: bool = boolean("0+")
    synonyms: list[DescribeConfigsResponseSynonym] = array("1+", DescribeConfigsResponseSynonym)
    config_type: int = int8("3+")
    documentation: str | None = string("3+", null="0+")


class DescribeConfigsResponseResource(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[DescribeConfigsResponseConfig] = array("0+", DescribeConfigsResponseConfig)


class DescribeConfigsResponse(Message, flexible=4):
    """Values with their sources."""

    throttle_time_ms: int = int32("0+")
    results: list[DescribeConfigsResponseResource] = array("0+", DescribeConfigsResponseResource)


class AlterConfigsRequestConfig(Message):
    name: str = string("0+")
    value: str | None = string("0+", null="0+")


class AlterConfigsRequestResource(Message):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[AlterConfigsRequestConfig] = array("0+", AlterConfigsRequestConfig)


class AlterConfigsRequest(Message, flexible=2):
    """Replaces all settings: those that are not named return to their defaults."""

    resources: list[AlterConfigsRequestResource] = array("0+", AlterConfigsRequestResource)
    validate_only: bool = boolean("0+")


class AlterConfigsResponseResource(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    resource_type: int = int8("0+")
    resource_name: str = string("0+")


class AlterConfigsResponse(Message, flexible=2):
    """One error a resource."""

    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResponseResource] = array("0+", AlterConfigsResponseResource)


class IncrementalAlterConfigsRequestConfig(Message):
    name: str = string("0+")
    config_operation: int = int8("0+")
    value: str | None = string("0+", null="0+")


class IncrementalAlterConfigsRequestResource(Message):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[IncrementalAlterConfigsRequestConfig] = array("0+", IncrementalAlterConfigsRequestConfig)


class IncrementalAlterConfigsRequest(Message, flexible=1):
    """Operation 0 sets, 1 returns to the default, 2 appends to a list, 3 removes from it."""

    resources: list[IncrementalAlterConfigsRequestResource] = array("0+", IncrementalAlterConfigsRequestResource)
    validate_only: bool = boolean("0+")


class IncrementalAlterConfigsResponseResource(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    resource_type: int = int8("0+")
    resource_name: str = string("0+")


class IncrementalAlterConfigsResponse(Message, flexible=1):
    """One error a resource."""

    throttle_time_ms: int = int32("0+")
    responses: list[IncrementalAlterConfigsResponseResource] = array("0+", IncrementalAlterConfigsResponseResource)


class ListConfigResourcesRequest(Message, flexible=0):
    """Without types: all types that can be listed. Version 0 asks for client metrics alone."""

    resource_types: list[int] = array("1+", "int8")


class ListConfigResourcesResponseResource(Message):
    resource_name: str = string("0+")
    resource_type: int = int8("1+", default=16)


class ListConfigResourcesResponse(Message, flexible=0):
    """The names of the resources."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    config_resources: list[ListConfigResourcesResponseResource] = array("0+", ListConfigResourcesResponseResource)
