"""The settings of this broker as Kafka's tools see them, and the levels of its loggers.

The settings of a node are fixed when it starts, so changing one is refused as Kafka refuses a static configuration. The
levels of loggers change at once and last until the node stops, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from longhall.doors.kafka.door import Door
from longhall.doors.kafka.topic_operations import ConfigurationAction, ConfigurationChange
from longhall.errors import Code, LonghallError

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


def describe_broker(door: Door, name: str) -> dict[str, str]:
    """The settings of this broker; none for the empty name, which stands for defaults of all brokers that were changed
    at run time.
    """
    _check_broker(door, name)
    if not name:
        return {}
    address = f"[{door.host}]" if ":" in door.host else door.host
    listener = f"PLAINTEXT://{address}:{door.port}"
    rack = {"broker.rack": door.rack} if door.rack else {}
    own = {"node.id": name, "broker.id": name, **rack, "listeners": listener, "advertised.listeners": listener}
    return {**own, **door.broker_settings()}


def refuse_broker_change(door: Door, name: str, settings: Iterable[str]) -> None:
    """Raises the error that Kafka has for configurations that need a restart, or do not exist."""
    _check_broker(door, name)
    known = describe_broker(door, str(door.node_id))
    unknown = [setting for setting in settings if setting not in known]
    if unknown:
        raise LonghallError(Code.INVALID_CONFIGURATION, f"Unknown broker config name: {unknown[0]}")
    named = ", ".join(settings)
    reason = f"Cannot update these configs dynamically: {named}. They are settings of the node: `longhall settings`."
    raise LonghallError(Code.INVALID_REQUEST, reason)


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
