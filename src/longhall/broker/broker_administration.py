"""Administration of broker configurations: decide, commit, and take over those of another replication group."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from longhall.broker.broker_configuration import ALL_BROKERS, BROKERS_MAX, DYNAMIC, check
from longhall.broker.configuration import LIST
from longhall.broker.configuration_changes import ConfigurationChange, changed
from longhall.broker.events import BrokersConfigured
from longhall.broker.feature_gates import check_broker_configuration, may_configure_brokers
from longhall.broker.hall import Hall
from longhall.broker.topic_administration import commit_event, must_lead
from longhall.errors import Code, LonghallError

_log = logging.getLogger("longhall.brokers")


async def configure_broker(
    hall: Hall,
    broker: str,
    changes: Sequence[ConfigurationChange],
    known: Collection[str],
    *,
    replace: bool = False,
    validate_only: bool = False,
) -> None:
    """Change configurations of one of the `known` brokers, or of all (the empty name), all changes or none. With
    `replace` those that are not named end.
    """
    must_lead(hall)
    check_broker_configuration(hall)
    if broker != ALL_BROKERS and broker not in known:
        raise LonghallError(Code.INVALID_REQUEST, f"No broker with id {broker} found.")
    given = {} if replace else hall.catalogue.brokers.get(broker, {})
    wanted = changed(given, changes, _check_name, _list_default)
    check(wanted)
    configurations = {name: values for name, values in hall.catalogue.brokers.items() if name != broker}
    if wanted:
        configurations[broker] = wanted
    if len(configurations) > BROKERS_MAX:
        raise LonghallError(Code.INVALID_REQUEST, f"At most {BROKERS_MAX} brokers have configurations of their own.")
    if validate_only:
        return
    await commit_event(hall, BrokersConfigured(configurations=configurations))
    _log.info("broker configurations were changed", extra={"broker": broker or "all", "configurations": wanted})


async def take_over(hall: Hall, configurations: Mapping[str, Mapping[str, str]]) -> None:
    """Have the configurations that another replication group has; a group's process does this when it leads."""
    wanted = {broker: dict(values) for broker, values in configurations.items()}
    if wanted != hall.catalogue.brokers and may_configure_brokers(hall):
        await commit_event(hall, BrokersConfigured(configurations=wanted))


def _check_name(name: str) -> None:
    if name not in DYNAMIC:
        raise LonghallError(Code.INVALID_CONFIGURATION, f"Unknown broker config name: {name}")


def _list_default(name: str) -> str | None:
    return "" if DYNAMIC[name].kind == LIST else None
