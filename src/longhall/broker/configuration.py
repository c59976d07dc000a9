"""Topic configuration: Kafka's settings and Longhall's own, with types, bounds and defaults.

The table `SETTINGS` is the only list. A topic stores its configuration as text; `resolve` converts it to the values
that the hot paths read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, final

from longhall.broker.options import HallOptions
from longhall.errors import Code, LonghallError
from longhall.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from longhall.shards.shard import ALL, ONE, QUORUM
from longhall.topics.quota import UNLIMITED, Quota

ALWAYS: Final = 2
INTERVAL: Final = 1
NEVER: Final = 0
AS_PRODUCED: Final = -1

_LONG_MAX: Final = (1 << 63) - 1
_INT_MAX: Final = (1 << 31) - 1
_RATE_MAX: Final = 1 << 40

IN_THE_HALL: Final = "hall"
PLACEMENTS: Final = (IN_THE_HALL, "any-host", "parts", "share")
_A_WING: Final = re.compile(r"wing:[A-Za-z0-9_-]{1,40}")

# Kafka's numbers for the types of configuration values.
BOOLEAN: Final = 1
STRING: Final = 2
INT: Final = 3
LONG: Final = 5
DOUBLE: Final = 6
LIST: Final = 7


class Setting(NamedTuple):
    """One row of the table; the default can depend on the options of the hall."""

    kind: int
    default: Callable[[HallOptions], str]
    check: Callable[[str], None]
    meaning: str


def _number(least: int, most: int) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not least <= int(text) <= most:
            raise ValueError(f"must lie between {least} and {most}")

    return check


def _rate(text: str) -> None:
    if not (int(text) == UNLIMITED or 1 <= int(text) <= _RATE_MAX):
        raise ValueError(f"must be {UNLIMITED} for no bound, or lie between 1 and {_RATE_MAX}")


def _share(text: str) -> None:
    if not 0.0 <= float(text) <= 1.0:
        raise ValueError("must lie between 0 and 1")


def _one_of(*words: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if text not in words:
            raise ValueError(f"must be one of {', '.join(words)}")

    return check


def _policy(text: str) -> None:
    if not text or not set(text.replace(" ", "").split(",")) <= {"delete", "compact"}:
        raise ValueError("must be delete, compact or both")


def _placement(text: str) -> None:
    if text not in PLACEMENTS and _A_WING.fullmatch(text) is None:
        raise ValueError(f"must be one of {', '.join(PLACEMENTS)}, or wing:NAME")


def _wings(text: str) -> None:
    wings_of(text)


def wings_of(text: str) -> list[int]:
    """The wings of a topic, in the order of its lanes."""
    return [int(number) for number in text.split(",")] if text else []


def _fixed(text: str) -> Callable[[HallOptions], str]:
    def default(_: HallOptions) -> str:
        return text

    return default


_COMPRESSIONS: Final = {
    "producer": AS_PRODUCED,
    "uncompressed": NONE,
    "gzip": GZIP,
    "snappy": SNAPPY,
    "lz4": LZ4,
    "zstd": ZSTD,
}
ACKNOWLEDGE: Final = "longhall.acknowledge"
ARCHIVE: Final = "longhall.archive"
PLACEMENT: Final = "longhall.placement"
WINGS: Final = "longhall.wings"
QUOTA_BYTES: Final = "longhall.quota.bytes.per.second"
QUOTA_MESSAGES: Final = "longhall.quota.messages.per.second"
READ_ONLY: Final = frozenset({WINGS})  # Not for users to set.
_ACKNOWLEDGERS: Final = {"one": ONE, "quorum": QUORUM, "all": ALL}
_DURABILITIES: Final = {"always": ALWAYS, "interval": INTERVAL, "none": NEVER}

SETTINGS: Final[dict[str, Setting]] = {
    "cleanup.policy": Setting(LIST, _fixed("delete"), _policy, "Delete old segments, compact by key, or both."),
    "compression.type": Setting(
        STRING, _fixed("producer"), _one_of(*_COMPRESSIONS), "Keep the producer's compression, or use this one."
    ),
    "delete.retention.ms": Setting(
        LONG, _fixed("86400000"), _number(0, _LONG_MAX), "How long compaction keeps tombstones and markers."
    ),
    "max.message.bytes": Setting(
        INT, lambda options: str(options.message_bytes_max), _number(0, _INT_MAX), "The largest accepted batch."
    ),
    "message.timestamp.type": Setting(
        STRING, _fixed("CreateTime"), _one_of("CreateTime", "LogAppendTime"), "The clock of timestamps."
    ),
    "message.timestamp.before.max.ms": Setting(
        LONG, _fixed(str(_LONG_MAX)), _number(0, _LONG_MAX), "How far in the past a timestamp may be."
    ),
    "message.timestamp.after.max.ms": Setting(
        LONG, _fixed("3600000"), _number(0, _LONG_MAX), "How far in the future a timestamp may be."
    ),
    "min.cleanable.dirty.ratio": Setting(
        DOUBLE, lambda options: str(options.cleaner_dirty_ratio), _share, "Compact when this share is dirty."
    ),
    "min.compaction.lag.ms": Setting(
        LONG, _fixed("0"), _number(0, _LONG_MAX), "A message is not compacted away before this age."
    ),
    "max.compaction.lag.ms": Setting(
        LONG,
        _fixed(str(_LONG_MAX)),
        _number(1, _LONG_MAX),
        "A dirty message is compacted at this age at the latest.",
    ),
    "min.insync.replicas": Setting(INT, _fixed("1"), _number(1, _INT_MAX), "Copies that must have a message."),
    "retention.bytes": Setting(
        LONG, lambda options: str(options.retention_bytes), _number(-1, _LONG_MAX), "How much of a partition is kept."
    ),
    "retention.ms": Setting(
        LONG, lambda options: str(options.retention_ms), _number(-1, _LONG_MAX), "How long messages are kept."
    ),
    "segment.bytes": Setting(
        INT, lambda options: str(options.segment_bytes), _number(1024, _INT_MAX), "Size at which a segment is closed."
    ),
    "segment.ms": Setting(
        LONG, lambda options: str(options.segment_ms), _number(1, _LONG_MAX), "Age at which a segment is closed."
    ),
    "longhall.durability": Setting(
        STRING,
        lambda options: options.durability,
        _one_of(*_DURABILITIES),
        "Acknowledge what is on the disk (always), what will be within an interval, or what is in memory (none).",
    ),
    ACKNOWLEDGE: Setting(
        STRING,
        _fixed("all"),
        _one_of(*_ACKNOWLEDGERS),
        "Acknowledge what one host of a cluster has, what a quorum of those in sync has, or what all of them have.",
    ),
    PLACEMENT: Setting(
        STRING,
        _fixed(IN_THE_HALL),
        _placement,
        "In a cluster: stored by the hall, or by wings (any-host, parts, share, or wing:NAME).",
    ),
    WINGS: Setting(LIST, _fixed(""), _wings, "The numbers of its wings; the cluster chooses them."),
    ARCHIVE: Setting(
        STRING,
        _fixed("none"),
        _one_of("none", "required"),
        "With required, messages are kept until they are archived, regardless of retention.",
    ),
    QUOTA_BYTES: Setting(
        LONG, _fixed(str(UNLIMITED)), _rate, "Bytes a second that may be sent; more is throttled or refused."
    ),
    QUOTA_MESSAGES: Setting(
        LONG, _fixed(str(UNLIMITED)), _rate, "Messages a second that may be sent; more is throttled or refused."
    ),
}


@final
class TopicOptions:
    """The settings of one topic as the hot paths read them."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.message_bytes_max = int(values["max.message.bytes"])
        self.log_append_time = values["message.timestamp.type"] == "LogAppendTime"
        self.timestamp_before_max_ms = int(values["message.timestamp.before.max.ms"])
        self.timestamp_after_max_ms = int(values["message.timestamp.after.max.ms"])
        self.compression = _COMPRESSIONS[values["compression.type"]]
        policies = values["cleanup.policy"].replace(" ", "").split(",")
        self.compacts = "compact" in policies
        self.deletes = "delete" in policies
        self.delete_retention_ms = int(values["delete.retention.ms"])
        self.dirty_ratio_min = float(values["min.cleanable.dirty.ratio"])
        self.compaction_lag_min_ms = int(values["min.compaction.lag.ms"])
        self.retention_ms = int(values["retention.ms"])
        self.retention_bytes = int(values["retention.bytes"])
        self.segment_bytes = int(values["segment.bytes"])
        self.segment_ms = int(values["segment.ms"])
        self.durability = _DURABILITIES[values["longhall.durability"]]
        self.acknowledge = _ACKNOWLEDGERS[values[ACKNOWLEDGE]]
        self.archive_required = values[ARCHIVE] == "required"
        self.wings = wings_of(values[WINGS])
        rates = int(values[QUOTA_BYTES]), int(values[QUOTA_MESSAGES])
        self.quota = Quota(*rates) if rates != (UNLIMITED, UNLIMITED) else None


def check(configuration: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIGURATION for unknown names and invalid values."""
    for name, value in configuration.items():
        setting = SETTINGS.get(name)
        if setting is None:
            raise LonghallError(Code.INVALID_CONFIGURATION, f"Unknown topic config name: {name}")
        try:
            setting.check(value)
        except ValueError as error:
            raise LonghallError(
                Code.INVALID_CONFIGURATION, f"Invalid value {value!r} for configuration {name}: {error}"
            ) from None


def defaults(options: HallOptions) -> dict[str, str]:
    """The default value of every setting."""
    return {name: setting.default(options) for name, setting in SETTINGS.items()}


def resolve(options: HallOptions, configuration: Mapping[str, str]) -> TopicOptions:
    """The settings of a topic with this configuration. Unknown names of a newer version are ignored."""
    return TopicOptions({**defaults(options), **configuration})
