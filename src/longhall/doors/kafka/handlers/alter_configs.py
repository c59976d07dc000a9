"""AlterConfigs and IncrementalAlterConfigs: other settings for topics, from now on."""

from __future__ import annotations

from collections.abc import Mapping

from longhall.broker.configuration import LIST, PLACEMENT, SETTINGS, WINGS, defaults
from longhall.broker.topic_administration import configure_topic
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponseResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)
from longhall.errors import Code, LonghallError

TOPIC = 2
SET, DELETE, APPEND, SUBTRACT = range(4)


async def handle(door: Door, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    rows: list[AlterConfigsResponseResource] = []
    for resource in request.resources:
        row = AlterConfigsResponseResource(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        try:
            _check_topic(door, resource.resource_type, resource.resource_name)
            wanted = {config.name: config.value for config in resource.configs if config.value is not None}
            await configure_topic(door.hall, resource.resource_name, wanted, request.validate_only)
        except LonghallError as error:
            row.error_code, row.error_message = error_of(error.code), str(error)
        rows.append(row)
    return AlterConfigsResponse(responses=rows)


async def handle_incremental(
    door: Door, request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    rows: list[IncrementalAlterConfigsResponseResource] = []
    for resource in request.resources:
        row = IncrementalAlterConfigsResponseResource(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        try:
            given = _check_topic(door, resource.resource_type, resource.resource_name)
            wanted = _changed(given, resource.configs, defaults(door.hall.options))
            await configure_topic(door.hall, resource.resource_name, wanted, request.validate_only)
        except LonghallError as error:
            row.error_code, row.error_message = error_of(error.code), str(error)
        rows.append(row)
    return IncrementalAlterConfigsResponse(responses=rows)


def _check_topic(door: Door, kind: int, name: str) -> Mapping[str, str]:
    """The configuration of the topic as it is."""
    if kind != TOPIC:
        raise LonghallError(Code.INVALID_REQUEST, "Only topics can be configured while the node runs.")
    topic = door.hall.topic(name)
    if topic is None:
        raise LonghallError(Code.UNKNOWN_TOPIC, f"There is no topic '{name}'.")
    return topic.configuration


def _changed(
    given: Mapping[str, str], changes: list[IncrementalAlterConfigsRequestConfig], usual: Mapping[str, str]
) -> dict[str, str]:
    wanted = dict(given)
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise LonghallError(Code.INVALID_REQUEST, "A configuration is changed twice in one request.")
    for change in changes:
        setting = SETTINGS.get(change.name)
        if setting is None:
            raise LonghallError(Code.INVALID_CONFIGURATION, f"Unknown topic config name: {change.name}")
        if change.config_operation == DELETE:
            if change.name in (PLACEMENT, WINGS):  # Unless it has the default anyway, the verb says why not.
                wanted[change.name] = usual[change.name]
                continue
            wanted.pop(change.name, None)
            continue
        if change.value is None:
            raise LonghallError(Code.INVALID_REQUEST, f"Configuration {change.name} needs a value.")
        if change.config_operation == SET:
            wanted[change.name] = change.value
        elif change.config_operation in (APPEND, SUBTRACT) and setting.kind == LIST:
            have = [word for word in wanted.get(change.name, usual[change.name]).split(",") if word]
            named = [word for word in change.value.split(",") if word]
            if change.config_operation == APPEND:
                have += [word for word in named if word not in have]
            else:
                have = [word for word in have if word not in named]
            wanted[change.name] = ",".join(have)
        else:
            raise LonghallError(Code.INVALID_CONFIGURATION, f"Configuration {change.name} is not a list.")
    return wanted
