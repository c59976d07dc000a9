"""What Kafka's requests on the settings of groups ask of the coordinator, in plain values.

    operation                requests                              reply
    configure_group          AlterConfigs                          nothing
    change_configuration     IncrementalAlterConfigs               nothing
    describe_configuration   DescribeConfigs of groups             name to (value, was it given?)

A change is committed when its function returns. A refusal is a `LonghallError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longhall.broker.configuration_changes import ConfigurationChange, changed
from longhall.broker.group_coordinator import GroupCoordinator
from longhall.errors import Code, LonghallError
from longhall.topics.group_configuration import SETTINGS
from longhall.topics.share_settings import SETTINGS as SHARE_SETTINGS


async def configure_group(
    coordinator: GroupCoordinator, group_id: str, configuration: Mapping[str, str], validate_only: bool = False
) -> None:
    """Replace the settings of a group: those that are not named return to their defaults."""
    if not group_id:
        raise LonghallError(Code.INVALID_REQUEST, "Group name must not be empty.")
    await coordinator.configure_group(group_id, dict(configuration), validate_only)


async def change_configuration(
    coordinator: GroupCoordinator, group_id: str, changes: Sequence[ConfigurationChange], validate_only: bool = False
) -> None:
    """Change some settings of a group, all of them or none."""
    wanted = changed(coordinator.group_configuration(group_id), changes, _check_name, lambda name: None)
    await configure_group(coordinator, group_id, wanted, validate_only)


def _check_name(name: str) -> None:
    if name not in SETTINGS and name not in SHARE_SETTINGS:
        raise LonghallError(Code.INVALID_CONFIGURATION, f"Unknown group config name: {name}")


def describe_configuration(coordinator: GroupCoordinator, group_id: str) -> dict[str, tuple[str, str, bool]]:
    """Each setting of a group: its value, its default, and True if it was given. A group need not exist."""
    given = coordinator.group_configuration(group_id)
    found = {}
    for name in SETTINGS:
        default = str(coordinator.group_default(group_id, name))
        found[name] = (given.get(name, default), default, name in given)
    for name, setting in SHARE_SETTINGS.items():
        found[name] = (given.get(name, setting.default), setting.default, name in given)
    return found
