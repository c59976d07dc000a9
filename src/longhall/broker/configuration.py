"""Topic configuration: Kafka's settings and Longhall's own, with types, bounds and defaults.

The table `SETTINGS` is the only list. A topic stores its configuration as text; `resolve` converts it to the values
that the hot paths read. A setting of Kafka's that has no effect here is checked, stored and shown, so that tools which
always set it work, and its row says why (`no_effect`); docs/topic-configurations.md lists them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, final

from longhall import names
from longhall.broker.options import HallOptions
from longhall.broker.seal_keys import KEY_NAME_LENGTH_MAX, decode_keys
from longhall.errors import Code, LonghallError
from longhall.log.segment import INDEX_INTERVAL_BYTES
from longhall.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from longhall.records.profiles import (
    BALANCED,
    BATCH_BYTES,
    GATHER_BYTES,
    GATHER_MS,
    LINGER_MS,
    PROFILE,
    PROFILES,
    batching_of,
)
from longhall.shards.shard import ALL, ONE, QUORUM
from longhall.topics.partition_moves import decode_record
from longhall.topics.quota import UNLIMITED, Quota

ALWAYS: Final = 2
INTERVAL: Final = 1
NEVER: Final = 0
AS_PRODUCED: Final = -1

_LONG_MAX: Final = (1 << 63) - 1
_INT_MAX: Final = (1 << 31) - 1
_RATE_MAX: Final = 1 << 40

IN_THE_HALL: Final = "hall"
UNPLACED: Final = ""  # The cluster chooses: see `broker/default_placement.py`.
ANY_HOST: Final = "any-host"
PARTS: Final = "parts"
SHARE: Final = "share"
PLACEMENTS: Final = (IN_THE_HALL, ANY_HOST, PARTS, SHARE)
_A_WING: Final = re.compile(r"wing:[A-Za-z0-9_-]{1,40}")
_THROTTLED: Final = re.compile(r"\d+:\d+(,\d+:\d+)*")
_WHOLE: Final = re.compile(r"\s*[+-]?[0-9]{1,30}\s*")
_DECIMAL: Final = re.compile(r"\s*[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?\s*")

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
    no_effect: str = ""  # Why the setting changes nothing here; empty if it does.


def _whole(text: str) -> int:
    if _WHOLE.fullmatch(text) is None:
        raise ValueError("must be a whole number")
    return int(text)


def number(least: int, most: int) -> Callable[[str], None]:
    """A check of whole numbers."""

    def check(text: str) -> None:
        if not least <= _whole(text) <= most:
            raise ValueError(f"must lie between {least} and {most}")

    return check


def _rate(text: str) -> None:
    if not (_whole(text) == UNLIMITED or 1 <= _whole(text) <= _RATE_MAX):
        raise ValueError(f"must be {UNLIMITED} for no bound, or lie between 1 and {_RATE_MAX}")


def _share(text: str) -> None:
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError("must be a number")
    if not 0.0 <= float(text) <= 1.0:
        raise ValueError("must lie between 0 and 1")


def _one_of(*words: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if text not in words:
            raise ValueError(f"must be one of {', '.join(words)}")

    return check


def _policy(text: str) -> None:
    if not set(policies_of(text)) <= {"delete", "compact"}:
        raise ValueError("must be delete, compact, both, or empty to keep everything")


def policies_of(text: str) -> list[str]:
    """The words of a cleanup policy. Without one, nothing is removed."""
    return [word for word in text.replace(" ", "").split(",") if word]


def _gzip_level(text: str) -> None:
    if not (_whole(text) == -1 or 1 <= _whole(text) <= 9):
        raise ValueError("must be -1 for the default, or lie between 1 and 9")


def _throttled(text: str) -> None:
    if text not in ("", "*") and _THROTTLED.fullmatch(text) is None:
        raise ValueError("must be *, empty, or a list of PARTITION:BROKER")


def _not_tiered(text: str) -> None:
    _boolean(text)
    if text == "true":
        raise ValueError("there is no tiered storage here")


def _placement(text: str) -> None:
    if text not in PLACEMENTS and _A_WING.fullmatch(text) is None:
        raise ValueError(f"must be one of {', '.join(PLACEMENTS)}, or wing:NAME")


def _key_name(text: str) -> None:
    if len(text) > KEY_NAME_LENGTH_MAX:
        raise ValueError(f"must have at most {KEY_NAME_LENGTH_MAX} characters")


def _seal_keys(text: str) -> None:
    decode_keys(text)


def _wings(text: str) -> None:
    wings_of(text)


def _moves(text: str) -> None:
    decode_record(text)


def wings_of(text: str) -> list[int]:
    """The wings of a topic, in the order of its lanes."""
    return [int(number) for number in text.split(",")] if text else []


def _fixed(text: str) -> Callable[[HallOptions], str]:
    def default(_: HallOptions) -> str:
        return text

    return default


_boolean: Final = _one_of("true", "false")
_NO_TIERS: Final = "There is no tiered storage: all segments are local."

_COMPRESSIONS: Final = {
    "producer": AS_PRODUCED,
    "uncompressed": NONE,
    "gzip": GZIP,
    "snappy": SNAPPY,
    "lz4": LZ4,
    "zstd": ZSTD,
}
MIN_IN_SYNC: Final = "min.insync.replicas"
ACKNOWLEDGE: Final = "longhall.acknowledge"
ARCHIVE: Final = "longhall.archive"
PLACEMENT: Final = "longhall.placement"
WINGS: Final = "longhall.wings"
MOVES: Final = "longhall.moves"
QUOTA_BYTES: Final = "longhall.quota.bytes.per.second"
QUOTA_MESSAGES: Final = "longhall.quota.messages.per.second"
SEALED: Final = names.SEALED
SEAL_REUSE: Final = "longhall.seal.reuse.ms"
SEAL_KEYS: Final = names.SEAL_KEYS
READ_ONLY: Final = frozenset({WINGS, MOVES, SEAL_KEYS})  # Not for users to set.
JITTER_STEP: Final = 2_654_435_761  # A multiplicative hash: neighbouring partitions get distant shares of the jitter.
_LEVELS: Final = {GZIP: "compression.gzip.level", LZ4: "compression.lz4.level", ZSTD: "compression.zstd.level"}
_ACKNOWLEDGERS: Final = {"one": ONE, "quorum": QUORUM, "all": ALL}
_DURABILITIES: Final = {"always": ALWAYS, "interval": INTERVAL, "none": NEVER}

SETTINGS: Final[dict[str, Setting]] = {
    "cleanup.policy": Setting(LIST, _fixed("delete"), _policy, "Delete old segments, compact by key, or both."),
    "compression.type": Setting(
        STRING, _fixed("producer"), _one_of(*_COMPRESSIONS), "Keep the producer's compression, or use this one."
    ),
    "compression.gzip.level": Setting(INT, _fixed("-1"), _gzip_level, "The level, with compression.type=gzip."),
    "compression.lz4.level": Setting(INT, _fixed("9"), number(1, 17), "The level, with compression.type=lz4."),
    "compression.zstd.level": Setting(INT, _fixed("3"), number(-131072, 22), "The level, with compression.type=zstd."),
    "delete.retention.ms": Setting(
        LONG, _fixed("86400000"), number(0, _LONG_MAX), "How long compaction keeps tombstones and markers."
    ),
    "max.message.bytes": Setting(
        INT, lambda options: str(options.message_bytes_max), number(0, _INT_MAX), "The largest accepted batch."
    ),
    "message.timestamp.type": Setting(
        STRING, _fixed("CreateTime"), _one_of("CreateTime", "LogAppendTime"), "The clock of timestamps."
    ),
    "message.timestamp.before.max.ms": Setting(
        LONG, _fixed(str(_LONG_MAX)), number(0, _LONG_MAX), "How far in the past a timestamp may be."
    ),
    "message.timestamp.after.max.ms": Setting(
        LONG, _fixed("3600000"), number(0, _LONG_MAX), "How far in the future a timestamp may be."
    ),
    "min.cleanable.dirty.ratio": Setting(
        DOUBLE, lambda options: str(options.cleaner_dirty_ratio), _share, "Compact when this share is dirty."
    ),
    "min.compaction.lag.ms": Setting(
        LONG, _fixed("0"), number(0, _LONG_MAX), "A message is not compacted away before this age."
    ),
    "max.compaction.lag.ms": Setting(
        LONG,
        _fixed(str(_LONG_MAX)),
        number(1, _LONG_MAX),
        "A dirty message is compacted at this age at the latest.",
    ),
    MIN_IN_SYNC: Setting(
        INT,
        lambda options: str(options.in_sync_min),
        number(1, _INT_MAX),
        "Senders are refused while fewer replicas are in sync, except producers with acks 0 or 1. "
        "In a cluster the default is `in_sync_min`.",
    ),
    "retention.bytes": Setting(
        LONG,
        lambda options: str(options.retention_bytes),
        number(-1, _LONG_MAX),
        "How much of a partition is kept.",
    ),
    "retention.ms": Setting(
        LONG, lambda options: str(options.retention_ms), number(-1, _LONG_MAX), "How long messages are kept."
    ),
    "segment.bytes": Setting(
        INT,
        lambda options: str(options.segment_bytes),
        number(1024, _INT_MAX),
        "Size at which a segment is closed.",
    ),
    "segment.ms": Setting(
        LONG, lambda options: str(options.segment_ms), number(1, _LONG_MAX), "Age at which a segment is closed."
    ),
    "segment.jitter.ms": Setting(
        LONG,
        _fixed("0"),
        number(0, _LONG_MAX),
        "Partitions close segments up to this much earlier than segment.ms, each at its own time.",
    ),
    "file.delete.delay.ms": Setting(
        LONG,
        _fixed("60000"),
        number(0, _LONG_MAX),
        "How long a removed segment stays on the disk.",
        "A removed segment is deleted when the next checkpoint no longer names it.",
    ),
    "flush.messages": Setting(
        LONG,
        _fixed(str(_LONG_MAX)),
        number(1, _LONG_MAX),
        "Messages after which the log is synced.",
        "Every acknowledged message is synced; `longhall.durability` asks for less.",
    ),
    "flush.ms": Setting(
        LONG,
        _fixed(str(_LONG_MAX)),
        number(0, _LONG_MAX),
        "Time after which the log is synced.",
        "Every acknowledged message is synced; `longhall.durability` asks for less.",
    ),
    "follower.replication.throttled.replicas": Setting(
        LIST,
        _fixed(""),
        _throttled,
        "Replicas whose catch-up is throttled.",
        "The catch-up of every follower is throttled by the leader.",
    ),
    "leader.replication.throttled.replicas": Setting(
        LIST,
        _fixed(""),
        _throttled,
        "Replicas whose catch-up is throttled.",
        "The catch-up of every follower is throttled by the leader.",
    ),
    "index.interval.bytes": Setting(
        INT,
        _fixed(str(INDEX_INTERVAL_BYTES)),
        number(0, _INT_MAX),
        "Bytes between two entries of the offset index.",
        f"The index has an entry for every {INDEX_INTERVAL_BYTES} bytes.",
    ),
    "segment.index.bytes": Setting(
        INT,
        _fixed("10485760"),
        number(4, _INT_MAX),
        "The largest size of an index file.",
        "An index grows with its segment; nothing is preallocated.",
    ),
    "preallocate": Setting(
        BOOLEAN,
        _fixed("false"),
        _boolean,
        "Whether files get their full size when they are created.",
        "Segments are written once and synced through the write-ahead log; preallocation would gain nothing.",
    ),
    "unclean.leader.election.enable": Setting(
        BOOLEAN,
        _fixed("false"),
        _boolean,
        "Whether a replica that is not in sync may be elected.",
        "No election takes such a replica by itself: an operator decides (`longhall cluster recover --unclean`).",
    ),
    "remote.storage.enable": Setting(
        BOOLEAN, _fixed("false"), _not_tiered, "Tiered storage; only false is accepted.", _NO_TIERS
    ),
    "remote.log.copy.disable": Setting(
        BOOLEAN, _fixed("false"), _boolean, "Whether segments are no longer copied to the remote tier.", _NO_TIERS
    ),
    "remote.log.delete.on.disable": Setting(
        BOOLEAN, _fixed("false"), _boolean, "Whether remote segments go with tiered storage.", _NO_TIERS
    ),
    "local.retention.ms": Setting(
        LONG, _fixed("-2"), number(-2, _LONG_MAX), "How long segments stay in the local tier.", _NO_TIERS
    ),
    "local.retention.bytes": Setting(
        LONG, _fixed("-2"), number(-2, _LONG_MAX), "How much stays in the local tier.", _NO_TIERS
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
    MOVES: Setting(STRING, _fixed(""), _moves, "Its partitions that move between replication groups; for the cluster."),
    ARCHIVE: Setting(
        STRING,
        _fixed("none"),
        _one_of("none", "required"),
        "With required, messages are kept until they are archived, regardless of retention.",
    ),
    SEALED: Setting(
        STRING,
        _fixed(""),
        _key_name,
        "The master key under which batches are sealed before the broker gets them; empty: not sealed.",
    ),
    SEAL_REUSE: Setting(
        LONG,
        _fixed("300000"),
        number(60_000, 86_400_000),
        "How long a process uses a data key of the topic before it asks the key provider for it again.",
    ),
    SEAL_KEYS: Setting(STRING, _fixed(""), _seal_keys, "The wrapped data keys of the topic; the front ends add them."),
    PROFILE: Setting(
        STRING,
        _fixed(BALANCED),
        _one_of(*PROFILES),
        "The batching of producers, broker and consumers: for throughput, for latency, or balanced.",
    ),
    LINGER_MS: Setting(
        INT,
        _fixed("-1"),
        number(-1, 60_000),
        "How long Longhall's producers wait for more messages; -1: the profile's.",
    ),
    BATCH_BYTES: Setting(
        INT, _fixed("-1"), number(-1, _INT_MAX), "The batch size at which they send at once; -1: the profile's."
    ),
    GATHER_BYTES: Setting(
        INT,
        _fixed("-1"),
        number(-1, _INT_MAX),
        "Bytes that a reader who can wait gets at least; -1: the profile's.",
    ),
    GATHER_MS: Setting(
        INT,
        _fixed("-1"),
        number(-1, 60_000),
        "How long it waits for them, once there is something; -1: the profile's.",
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

    def __init__(self, values: Mapping[str, str], in_sync_min: int) -> None:
        self.in_sync_min = in_sync_min  # 0: that of the hall.
        self.message_bytes_max = int(values["max.message.bytes"])
        self.log_append_time = values["message.timestamp.type"] == "LogAppendTime"
        self.timestamp_before_max_ms = int(values["message.timestamp.before.max.ms"])
        self.timestamp_after_max_ms = int(values["message.timestamp.after.max.ms"])
        self.compression = _COMPRESSIONS[values["compression.type"]]
        level = _LEVELS.get(self.compression)
        self.compression_level = int(values[level]) if level is not None else None
        policies = policies_of(values["cleanup.policy"])
        self.compacts = "compact" in policies
        self.deletes = "delete" in policies
        self.delete_retention_ms = int(values["delete.retention.ms"])
        self.dirty_ratio_min = float(values["min.cleanable.dirty.ratio"])
        self.compaction_lag_min_ms = int(values["min.compaction.lag.ms"])
        self.compaction_lag_max_ms = int(values["max.compaction.lag.ms"])
        self.retention_ms = int(values["retention.ms"])
        self.retention_bytes = int(values["retention.bytes"])
        self.segment_bytes = int(values["segment.bytes"])
        self.segment_ms = int(values["segment.ms"])
        if self.compacts:  # An active segment is not compacted.
            self.segment_ms = min(self.segment_ms, self.compaction_lag_max_ms)
        self.segment_jitter_ms = min(int(values["segment.jitter.ms"]), self.segment_ms - 1)
        self.durability = _DURABILITIES[values["longhall.durability"]]
        self.acknowledge = _ACKNOWLEDGERS[values[ACKNOWLEDGE]]
        self.archive_required = values[ARCHIVE] == "required"
        self.wings = wings_of(values[WINGS])
        self.moves = decode_record(values[MOVES])
        self.is_sealed = bool(values[SEALED])  # What is sent now is sealed,
        self.has_seals = bool(values[SEALED] or values[SEAL_KEYS])  # or was sealed at some time.
        batching = batching_of(values)
        self.gather_bytes = batching.gather_bytes
        self.gather_ms = batching.gather_ms
        rates = int(values[QUOTA_BYTES]), int(values[QUOTA_MESSAGES])
        self.quota = Quota(*rates) if rates != (UNLIMITED, UNLIMITED) else None

    def segment_ms_of(self, partition: int) -> int:
        """The age at which this partition closes a segment: earlier by its share of the jitter."""
        jitter_ms = self.segment_jitter_ms
        return self.segment_ms - (partition * JITTER_STEP) % (jitter_ms + 1) if jitter_ms > 0 else self.segment_ms


def check(configuration: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIGURATION for unknown names and invalid values."""
    check_values("topic", {name: setting.check for name, setting in SETTINGS.items()}, configuration)
    least, most = (configuration.get(name) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    if least is not None and most is not None and int(least) > int(most):
        raise LonghallError(
            Code.INVALID_CONFIGURATION, f"max.compaction.lag.ms {most} is less than min.compaction.lag.ms {least}."
        )
    if configuration.get(SEALED):
        _check_sealed(configuration)


def _check_sealed(configuration: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIGURATION for what needs the records of a sealed topic in clear."""
    if "compact" in policies_of(configuration.get("cleanup.policy", "delete")):
        raise LonghallError(
            Code.INVALID_CONFIGURATION, f"A topic with {SEALED} cannot be compacted: the broker does not see its keys."
        )
    if configuration.get("compression.type", "producer") != "producer":
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"A topic with {SEALED} keeps the compression of its producers: the broker cannot compress ciphertext.",
        )


def check_values(what: str, checks: Mapping[str, Callable[[str], None]], configuration: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIGURATION for names that have no check, and for values that their check refuses."""
    for name, value in configuration.items():
        check_value = checks.get(name)
        if check_value is None:
            raise LonghallError(Code.INVALID_CONFIGURATION, f"Unknown {what} config name: {name}")
        try:
            check_value(value)
        except ValueError as error:
            raise LonghallError(
                Code.INVALID_CONFIGURATION, f"Invalid value {value!r} for configuration {name}: {error}"
            ) from None


def defaults(options: HallOptions) -> dict[str, str]:
    """The default value of every setting."""
    return {name: setting.default(options) for name, setting in SETTINGS.items()} | options.topic_defaults


def resolve(options: HallOptions, configuration: Mapping[str, str]) -> TopicOptions:
    """The settings of a topic with this configuration. Unknown names of a newer version are ignored."""
    given = {**options.topic_defaults, **configuration}
    return TopicOptions({**defaults(options), **configuration}, int(given.get(MIN_IN_SYNC, 0)))


def hidden_options(options: HallOptions) -> TopicOptions:
    """The options of hidden logs: no retention."""
    segment_bytes = str(options.queue_segment_bytes)
    own = {"retention.ms": "-1", "retention.bytes": "-1", "segment.bytes": segment_bytes}
    return resolve(options, {**own, QUOTA_BYTES: str(UNLIMITED), QUOTA_MESSAGES: str(UNLIMITED)})
