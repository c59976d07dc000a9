"""Settings that an administrator gives a single group, over the defaults of the node.

The table SETTINGS has the names, and the defaults and bounds as fields of `GroupSettings`. A group need not exist to
have settings, and keeps them when it is deleted. The settings of share groups are in `share_settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, final

from longhall.errors import Code, LonghallError
from longhall.topics.settings import GroupSettings
from longhall.topics.share_settings import SETTINGS as SHARE_SETTINGS
from longhall.topics.share_settings import check_share_configuration

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"


class GroupSetting(NamedTuple):
    """One setting of groups: the fields of its default and bounds, and its meaning."""

    default: str
    least: str
    most: str
    meaning: str


SETTINGS: Final[dict[str, GroupSetting]] = {
    SESSION_TIMEOUT: GroupSetting(
        "consumer_session_timeout_ms",
        "consumer_session_timeout_min_ms",
        "consumer_session_timeout_max_ms",
        "A member of the consumer protocol that sends no heartbeat for this long is removed.",
    ),
    HEARTBEAT_INTERVAL: GroupSetting(
        "consumer_heartbeat_interval_ms",
        "consumer_heartbeat_interval_min_ms",
        "consumer_heartbeat_interval_max_ms",
        "The time between two heartbeats of a member of the consumer protocol.",
    ),
}


@final
class GroupConfigurations:
    """The settings of all groups of a shard that have any."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._given: dict[str, dict[str, str]] = {}

    def __len__(self) -> int:
        return len(self._given)

    def given(self, group_id: str) -> dict[str, str]:
        """The settings that were given for this group; all others have their default."""
        return dict(self._given.get(group_id, {}))

    def value(self, group_id: str, name: str) -> int:
        """The value of a setting in this group."""
        given = self._given.get(group_id)
        if given is not None and name in given:
            return int(given[name])
        return self.default(name)

    def default(self, name: str) -> int:
        found: int = getattr(self._settings, SETTINGS[name].default)
        return found

    def check(self, configuration: Mapping[str, str]) -> None:
        """Raises INVALID_CONFIGURATION for settings that do not exist, are out of bounds, or contradict each other."""
        check_share_configuration(configuration)
        values = {name: self.default(name) for name in SETTINGS}
        for name, text in configuration.items():
            if name in SHARE_SETTINGS:
                continue
            setting = SETTINGS.get(name)
            if setting is None:
                raise LonghallError(Code.INVALID_CONFIGURATION, f"Unknown group config name: {name}")
            least, most = getattr(self._settings, setting.least), getattr(self._settings, setting.most)
            if not text.isascii() or not text.removeprefix("-").isdigit() or not least <= int(text[:12]) <= most:
                reason = f"Invalid value {text} for configuration {name}: it is a number from {least} to {most}."
                raise LonghallError(Code.INVALID_CONFIGURATION, reason)
            values[name] = int(text)
        if values[SESSION_TIMEOUT] <= values[HEARTBEAT_INTERVAL]:
            reason = f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}."
            raise LonghallError(Code.INVALID_CONFIGURATION, reason)

    def set(self, group_id: str, configuration: Mapping[str, str]) -> None:
        """Apply a change of the settings of a group; unknown ones of a newer version are kept."""
        if configuration:
            self._given[group_id] = dict(configuration)
        else:
            self._given.pop(group_id, None)

    def snapshot(self) -> dict[str, Any]:
        return {group_id: dict(given) for group_id, given in self._given.items()}

    def restore(self, state: dict[str, Any]) -> None:
        self._given = {group_id: dict(given) for group_id, given in state.items()}
