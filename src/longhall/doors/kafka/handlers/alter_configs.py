"""AlterConfigs and IncrementalAlterConfigs: change the settings of topics, groups and brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from longhall.broker.configuration import SEALED
from longhall.broker.configuration_changes import ConfigurationAction, ConfigurationChange
from longhall.doors.kafka import broker_operations, group_operations, topic_operations
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.duplicates import once_and_more
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestResource,
    AlterConfigsResponse,
    AlterConfigsResponseResource,
    ConfigOperation,
    ConfigResourceType,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)
from longhall.errors import Code, LonghallError

ACTIONS: Final[dict[int, ConfigurationAction]] = {
    ConfigOperation.SET: ConfigurationAction.SET,
    ConfigOperation.DELETE: ConfigurationAction.DELETE,
    ConfigOperation.APPEND: ConfigurationAction.APPEND,
    ConfigOperation.SUBTRACT: ConfigurationAction.SUBTRACT,
}

_ALTERABLE: Final = frozenset(ConfigResourceType) - {ConfigResourceType.CLIENT_METRICS}

Row = TypeVar("Row", AlterConfigsResponseResource, IncrementalAlterConfigsResponseResource)
Resource = TypeVar("Resource", AlterConfigsRequestResource, IncrementalAlterConfigsRequestResource)


async def handle(door: Door, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    replace = partial(_replace, door, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=await _alter_all(AlterConfigsResponseResource, request.resources, replace))


async def handle_incremental(
    door: Door, request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    change = partial(_change, door, validate_only=request.validate_only)
    rows = await _alter_all(IncrementalAlterConfigsResponseResource, request.resources, change)
    return IncrementalAlterConfigsResponse(responses=rows)


async def _alter_all(
    row_class: type[Row], resources: Sequence[Resource], alter: Callable[[Resource], Awaitable[None]]
) -> list[Row]:
    """The rows of a response. A resource that the request names twice is refused and not changed."""
    once, more = once_and_more((one.resource_type, one.resource_name) for one in resources)
    said = "Each resource must appear at most once."
    rows = [
        row_class(resource_type=kind, resource_name=name, error_code=ErrorCode.INVALID_REQUEST, error_message=said)
        for kind, name in more
    ]
    for one in resources:
        if (one.resource_type, one.resource_name) in once:
            rows.append(await _alter(row_class, one, alter(one)))
    return rows


def _check_configs(configs: Sequence[tuple[str, str | None]]) -> None:
    """Raises INVALID_REQUEST for a configuration that is named twice, or without the value that it needs."""
    _, more = once_and_more(name for name, _ in configs)
    if more:
        raise LonghallError(Code.INVALID_REQUEST, "Error due to duplicate config keys")
    empty = [name for name, value in configs if value is None]
    if empty:
        raise LonghallError(Code.INVALID_REQUEST, f"Null value not supported for : {','.join(empty)}")


async def _alter(
    row_class: type[Row],
    resource: AlterConfigsRequestResource | IncrementalAlterConfigsRequestResource,
    change: Awaitable[None],
) -> Row:
    row = row_class(resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None)
    try:
        await change
    except LonghallError as error:
        row.error_code, row.error_message = error_of(error.code), str(error)
    return row


async def _replace(door: Door, resource: AlterConfigsRequestResource, validate_only: bool) -> None:
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        raise LonghallError(Code.INVALID_REQUEST, "Levels of loggers are changed by IncrementalAlterConfigs.")
    _check_type(resource.resource_type)
    _check_configs([(config.name, config.value) for config in resource.configs])
    wanted = {config.name: config.value for config in resource.configs if config.value is not None}
    if resource.resource_type == ConfigResourceType.BROKER:
        changes = [ConfigurationChange(name, ConfigurationAction.SET, value) for name, value in wanted.items()]
        await broker_operations.change_broker(
            door, resource.resource_name, changes, replace=True, validate_only=validate_only
        )
        return
    if resource.resource_type == ConfigResourceType.GROUP:
        await group_operations.configure_group(door.coordinator, resource.resource_name, wanted, validate_only)
        return
    if door.sealing is not None:
        door.sealing.check_key(wanted.get(SEALED))
    await topic_operations.configure_topic(door.hall, resource.resource_name, wanted, validate_only)


async def _change(door: Door, resource: IncrementalAlterConfigsRequestResource, validate_only: bool) -> None:
    _check_type(resource.resource_type)
    _check_configs(
        [(one.name, "" if one.config_operation == ConfigOperation.DELETE else one.value) for one in resource.configs]
    )
    changes: list[ConfigurationChange] = []
    for config in resource.configs:
        action = ACTIONS.get(config.config_operation)
        if action is None:
            reason = f"{config.config_operation} is not an operation on configurations."
            raise LonghallError(Code.INVALID_CONFIGURATION, reason)
        changes.append(ConfigurationChange(config.name, action, config.value))
    if resource.resource_type == ConfigResourceType.BROKER:
        await broker_operations.change_broker(
            door, resource.resource_name, changes, replace=False, validate_only=validate_only
        )
        return
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        broker_operations.change_loggers(door, resource.resource_name, changes, validate_only)
        return
    if resource.resource_type == ConfigResourceType.GROUP:
        await group_operations.change_configuration(door.coordinator, resource.resource_name, changes, validate_only)
        return
    if door.sealing is not None:
        for change in changes:
            door.sealing.check_key(change.value if change.name == SEALED else None)
    await topic_operations.change_configuration(door.hall, resource.resource_name, changes, validate_only)


def _check_type(resource_type: int) -> None:
    if resource_type not in _ALTERABLE:
        reason = "Only topics, groups, brokers and loggers can be configured while the node runs."
        raise LonghallError(Code.INVALID_REQUEST, reason)
