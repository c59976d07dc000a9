"""The settings of a share group, from the configuration that administrators give it, by Kafka's names.

A setting that is not given has its default here. Settings about the position, the isolation, the locks and the bound of
deliveries are those of a cursor that belongs to the group; a queue that the group consumes has its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, final

from longhall.errors import Code, LonghallError

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BY_DURATION: Final = "by_duration:"
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
ISOLATION_LEVEL: Final = "share.isolation.level"
LOCK_DURATION_MS: Final = "share.record.lock.duration.ms"
SESSION_TIMEOUT_MS: Final = "share.session.timeout.ms"
HEARTBEAT_INTERVAL_MS: Final = "share.heartbeat.interval.ms"
DELIVERY_COUNT_LIMIT: Final = "share.delivery.count.limit"
RECORD_LOCKS_MAX: Final = "share.partition.max.record.locks"
RENEW_ENABLE: Final = "share.renew.acknowledge.enable"

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d{1,6})D)?(?:T(?:(?P<hours>\d{1,6})H)?(?:(?P<minutes>\d{1,7})M)?(?:(?P<seconds>\d{1,9})(?:\.\d+)?S)?)?"
)


def _number(low: int, high: int) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        if value.isascii() and value.isdigit() and low <= int(value) <= high:
            return None
        return f"a number from {low} to {high}"

    return check


def _word(*words: str) -> Callable[[str], str | None]:
    return lambda value: None if value in words else f"one of {', '.join(words)}"


def _reset(value: str) -> str | None:
    if value in (EARLIEST, LATEST) or duration_ms(value) is not None:
        return None
    return "earliest, latest, or by_duration: with a duration such as PT1H"


class ShareSetting(NamedTuple):
    """One setting: its default, a check that returns what a legal value is, or None for one, and its meaning."""

    default: str
    check: Callable[[str], str | None]
    meaning: str


SETTINGS: Final[dict[str, ShareSetting]] = {
    AUTO_OFFSET_RESET: ShareSetting(LATEST, _reset, "Where the cursor of a share group on a topic begins."),
    ISOLATION_LEVEL: ShareSetting(
        READ_UNCOMMITTED,
        _word(READ_UNCOMMITTED, READ_COMMITTED),
        "Whether a share group gets records of open and aborted transactions.",
    ),
    LOCK_DURATION_MS: ShareSetting(
        "30000", _number(1_000, 3_600_000), "How long a record is locked for the share member that acquired it."
    ),
    SESSION_TIMEOUT_MS: ShareSetting(
        "45000", _number(1_000, 600_000), "A share member that sends no heartbeat for this long is removed."
    ),
    HEARTBEAT_INTERVAL_MS: ShareSetting(
        "5000", _number(100, 60_000), "The time between two heartbeats of a share member."
    ),
    DELIVERY_COUNT_LIMIT: ShareSetting(
        "5", _number(2, 1_000), "After so many deliveries a share group passes a record over."
    ),
    RECORD_LOCKS_MAX: ShareSetting(
        "2000", _number(100, 10_000), "The records of a partition that a share group may have under way."
    ),
    RENEW_ENABLE: ShareSetting("true", _word("true", "false"), "Whether share members may renew the locks of records."),
}


def check_share_configuration(configuration: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIGURATION for a value that a setting of share groups cannot have."""
    for name, value in configuration.items():
        if name in SETTINGS:
            wanted = SETTINGS[name].check(value)
            if wanted is not None:
                raise LonghallError(
                    Code.INVALID_CONFIGURATION, f"Invalid value {value} for configuration {name}: it is {wanted}."
                )
    settings = ShareSettings(configuration)
    if settings.session_timeout_ms <= settings.heartbeat_interval_ms:
        reason = f"{SESSION_TIMEOUT_MS} must be greater than {HEARTBEAT_INTERVAL_MS}."
        raise LonghallError(Code.INVALID_CONFIGURATION, reason)


def duration_ms(value: str) -> int | None:
    """The length of `by_duration:` with an ISO 8601 duration of days, hours, minutes and seconds; None for others."""
    found = _DURATION.fullmatch(value.removeprefix(BY_DURATION)) if value.startswith(BY_DURATION) else None
    if found is None or not any(found.groupdict().values()):
        return None
    parts = {name: int(text or 0) for name, text in found.groupdict().items()}
    return 1000 * (parts["seconds"] + 60 * (parts["minutes"] + 60 * (parts["hours"] + 24 * parts["days"])))


@final
class ShareSettings:
    """The settings of one share group. `lock_given` is True if the duration of locks was given for the group."""

    def __init__(self, configuration: Mapping[str, str]) -> None:
        values = {name: configuration.get(name, setting.default) for name, setting in SETTINGS.items()}
        self.auto_offset_reset = values[AUTO_OFFSET_RESET]
        self.reads_uncommitted = values[ISOLATION_LEVEL] == READ_UNCOMMITTED
        self.lock_given = LOCK_DURATION_MS in configuration
        self.lock_ms = int(values[LOCK_DURATION_MS])
        self.session_timeout_ms = int(values[SESSION_TIMEOUT_MS])
        self.heartbeat_interval_ms = int(values[HEARTBEAT_INTERVAL_MS])
        self.delivery_count_limit = int(values[DELIVERY_COUNT_LIMIT])
        self.locks_max = int(values[RECORD_LOCKS_MAX])
        self.may_renew = values[RENEW_ENABLE] == "true"
