"""The configurations of brokers as Kafka's tools see them, and the levels of this broker's loggers.

Those of `broker.broker_configuration` change at run time, for one broker or for all; the leader of the main hall
commits the change. All others are fixed when a node starts, so changing one is refused as Kafka refuses a static
configuration. The levels of loggers change at once and last until the node stops, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from longhall.broker.broker_configuration import ALL_BROKERS, DYNAMIC, ONLY_FOR_TOPICS
from longhall.broker.configuration import MIN_IN_SYNC, SETTINGS
from longhall.broker.configuration_changes import ConfigurationAction, ConfigurationChange
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.wire.messages.configs import ConfigSource
from longhall.errors import Code, LonghallError
from longhall.service.broker_operations import ConfigureBroker

ROOT_LOGGER: Final = "longhall"
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,  # There is nothing below.
}
_NAMES: Final = {level: name for name, level in reversed(LEVELS.items())}


class Value(NamedTuple):
    """One value of a configuration, and where it comes from."""

    value: str
    source: int


def describe_broker(door: Door, name: str) -> dict[str, list[Value]]:
    """The configurations of this broker, each with all its values: the first one holds. The empty name stands for the
    defaults of all brokers that were given at run time.
    """
    _check_broker(door, name)
    brokers = door.hall.catalogue.brokers
    found: dict[str, list[Value]] = {}
    for broker, source in ((str(door.node_id), ConfigSource.BROKER), (ALL_BROKERS, ConfigSource.ALL_BROKERS)):
        for setting, value in brokers.get(broker, {}).items() if name or broker == ALL_BROKERS else ():
            found.setdefault(setting, []).append(Value(value, source))
    if MIN_IN_SYNC not in brokers.get(ALL_BROKERS, {}):
        found.setdefault(MIN_IN_SYNC, []).append(cluster_in_sync_min(door))
    for setting, value in _at_start(door, name).items() if name else ():
        found.setdefault(setting, []).append(Value(value, ConfigSource.FILE))
    return found


def cluster_in_sync_min(door: Door) -> Value:
    """The default of min.insync.replicas, which counts as a value of all brokers: since 4.1 Kafka writes it as one."""
    return Value(SETTINGS[MIN_IN_SYNC].default(door.hall.options), ConfigSource.ALL_BROKERS)


def dynamic_values(door: Door, setting: str) -> list[Value]:
    """The values that one configuration of this broker got at run time; the first one holds."""
    found = describe_broker(door, str(door.node_id)).get(setting, [])
    return [value for value in found if value.source != ConfigSource.FILE]


def _at_start(door: Door, name: str) -> dict[str, str]:
    address = f"[{door.host}]" if ":" in door.host else door.host
    listener = f"PLAINTEXT://{address}:{door.port}"
    rack = {"broker.rack": door.rack} if door.rack else {}
    own = {"node.id": name, "broker.id": name, **rack, "listeners": listener, "advertised.listeners": listener}
    return {**own, **door.broker_settings()}


async def change_broker(
    door: Door, name: str, changes: Sequence[ConfigurationChange], *, replace: bool, validate_only: bool
) -> None:
    """Change configurations of one broker, or of all (the empty name). Raises the error that Kafka has for those that
    need a restart, or do not exist.
    """
    fixed = [change.name for change in changes if change.name not in DYNAMIC]
    by_topic = [setting for setting in fixed if setting in ONLY_FOR_TOPICS]
    if by_topic:
        reason = f"Cannot update these configs dynamically: {', '.join(by_topic)}. Set them for each topic."
        raise LonghallError(Code.INVALID_REQUEST, reason)
    known = _at_start(door, str(door.node_id))
    unknown = [setting for setting in fixed if setting not in known]
    if unknown:
        raise LonghallError(Code.INVALID_CONFIGURATION, f"Unknown broker config name: {unknown[0]}")
    if fixed:
        raise LonghallError(
            Code.INVALID_REQUEST,
            f"Cannot update these configs dynamically: {', '.join(fixed)}. They are settings of the node: "
            "`longhall settings`.",
        )
    operation = ConfigureBroker(name, list(changes), replace, validate_only)
    await (door.service.dispatch(operation) if door.main is None else door.main.call(operation))


def describe_loggers(door: Door, name: str) -> dict[str, str]:
    """The loggers of this node with their levels."""
    _check_broker(door, name or "?")
    found = [logger for logger in logging.Logger.manager.loggerDict if logger.startswith(ROOT_LOGGER + ".")]
    return {
        logger: _NAMES.get(logging.getLogger(logger).getEffectiveLevel(), "INFO")
        for logger in (ROOT_LOGGER, *sorted(found))
    }


def change_loggers(door: Door, name: str, changes: Sequence[ConfigurationChange], validate_only: bool) -> None:
    """Change the levels of some loggers, all of them or none. A deleted level is that of the logger above."""
    known = describe_loggers(door, name)
    for change in changes:
        if change.action not in (ConfigurationAction.SET, ConfigurationAction.DELETE):
            raise LonghallError(Code.INVALID_REQUEST, "The level of a logger is set or deleted.")
        if change.name not in known:
            raise LonghallError(Code.INVALID_CONFIGURATION, f"Logger {change.name} does not exist!")
        if change.action is ConfigurationAction.SET and change.value not in LEVELS:
            reason = f"Cannot set the log level of {change.name} to {change.value}: it is one of {', '.join(LEVELS)}."
            raise LonghallError(Code.INVALID_CONFIGURATION, reason)
        if change.action is ConfigurationAction.DELETE and change.name == ROOT_LOGGER:
            raise LonghallError(Code.INVALID_REQUEST, f"Removing the log level of {ROOT_LOGGER} is not allowed.")
    if validate_only:
        return
    for change in changes:
        level = LEVELS[change.value or ""] if change.action is ConfigurationAction.SET else logging.NOTSET
        logging.getLogger(change.name).setLevel(level)


def _check_broker(door: Door, name: str) -> None:
    if name not in ("", str(door.node_id)):
        reason = f"Unexpected broker id, expected {door.node_id} or empty string, but received {name.strip('?')}"
        raise LonghallError(Code.INVALID_REQUEST, reason)
