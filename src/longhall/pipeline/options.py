"""The options of `format("longhall")`, with the names of Spark's Kafka source.

A job that changes only the name of the format keeps every option; what the Kafka source refuses is refused here with
the same reason. Consumer options (`kafka.*`) that have no meaning here are ignored. The module does not connect to a
hall.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from longhall.client.security import ClientSecurity
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.security_options import read_security

BOOTSTRAP: Final = "kafka.bootstrap.servers"
EARLIEST: Final = -2
LATEST: Final = -1

_SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
_REFUSED: Final = {
    "kafka.auto.offset.reset": "use startingOffsets instead; the source keeps track of its offsets itself",
    "kafka.enable.auto.commit": "the source keeps track of its offsets itself; groupId publishes them",
    "kafka.key.deserializer": "keys are given as bytes; cast the column",
    "kafka.value.deserializer": "values are given as bytes; cast the column",
    "kafka.interceptor.classes": "interceptors are not run",
}

Offsets = dict[str, dict[int, int]]  # By topic and partition.


class Subscription(NamedTuple):
    """The topics and queues of a read: by name, by pattern, or as single partitions."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    assigned: Mapping[str, tuple[int, ...]] = {}

    def takes(self, name: str) -> bool:
        if self.pattern:
            return re.fullmatch(self.pattern, name) is not None
        return name in self.names or name in self.assigned


class Bound(NamedTuple):
    """Where a read begins or ends: at EARLIEST or LATEST, at given offsets, or at a time."""

    everywhere: int = EARLIEST
    offsets: Offsets | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Offsets | None = None
    missing_is_latest: bool = True  # What a time after the last message means; otherwise it is refused.


class SourceOptions(NamedTuple):
    """The checked options of a read."""

    bootstrap: str
    subscription: Subscription
    starting: Bound
    ending: Bound
    fail_on_data_loss: bool = True
    rows_max: int | None = None
    bytes_max: int | None = None
    rows_min: int | None = None
    trigger_delay_max_ms: int = 15 * 60 * 1000
    partitions_min: int | None = None
    partition_rows_max: int | None = None
    include_headers: bool = False
    read_committed: bool = False
    group_id: str = ""
    push_down_filters: bool = False
    security: ClientSecurity = ClientSecurity()


def read_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check the options. Raises PipelineError that names the wrong option."""
    options = Given(given)
    for name, advice in _REFUSED.items():
        if options.text(name) is not None:
            raise PipelineError(f"the option {name} is not supported: {advice}")
    return SourceOptions(
        bootstrap=bootstrap_of(options),
        subscription=_subscription(options),
        starting=_starting(options, streaming),
        ending=_ending(options, streaming),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        rows_max=options.number("maxOffsetsPerTrigger"),
        bytes_max=options.number("maxBytesPerTrigger"),
        rows_min=options.number("minOffsetsPerTrigger"),
        trigger_delay_max_ms=_duration_ms(options.text("maxTriggerDelay") or "15m"),
        partitions_min=options.number("minPartitions"),
        partition_rows_max=options.number("maxRecordsPerPartition"),
        include_headers=options.flag("includeHeaders", False),
        read_committed=_isolation(options),
        group_id=options.text("groupId") or options.text("kafka.group.id") or "",
        push_down_filters=options.flag("pushDownFilters", False),
        security=read_security(given),
    )


class Given:
    """Options as they were given, looked up without regard to case."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}

    def text(self, name: str) -> str | None:
        value = self._given.get(name.lower())
        return None if value is None else value.strip()

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise PipelineError(f"the option {name} is {value!r}; it is true or false")
        return value.lower() == "true"

    def number(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.isdigit() or int(value) < 1:
            raise PipelineError(f"the option {name} is {value!r}; it is a whole number from 1 on")
        return int(value)


def bootstrap_of(options: Given) -> str:
    """The address of the hall, which is required."""
    found = options.text(BOOTSTRAP) or options.text("bootstrap")
    if not found:
        raise PipelineError(f"the option {BOOTSTRAP} is missing; it is the hall's Kafka address, HOST:PORT")
    return found


def _subscription(options: Given) -> Subscription:
    given = [name for name in _SUBSCRIPTIONS if options.text(name) is not None]
    if len(given) != 1:
        words = "none was given" if not given else f"{' and '.join(given)} were given"
        raise PipelineError(f"exactly one of {', '.join(_SUBSCRIPTIONS)} says what to read; {words}")
    value = options.text(given[0]) or ""
    if not value:
        raise PipelineError(f"the option {given[0]} is empty")
    if given[0] == "subscribe":
        return Subscription(names=tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip())))
    if given[0] == "subscribePattern":
        try:
            re.compile(value)
        except re.error as failure:
            raise PipelineError(f"the option subscribePattern is no regular expression: {failure}") from None
        return Subscription(pattern=value)
    return Subscription(assigned=_assigned(value))


def _assigned(value: str) -> dict[str, tuple[int, ...]]:
    document = _json("assign", value)
    well_formed = isinstance(document, dict) and all(
        isinstance(parts, list) and all(type(part) is int and part >= 0 for part in parts)
        for parts in document.values()
    )
    if not isinstance(document, dict) or not well_formed or not document:
        raise PipelineError('the option assign must look like {"topic":[0,1]}')
    return {str(topic): tuple(sorted(set(parts))) for topic, parts in document.items()}


def _starting(options: Given, streaming: bool) -> Bound:
    strategy = (options.text("startingOffsetsByTimestampStrategy") or "error").lower()
    if strategy not in ("error", "latest"):
        raise PipelineError(f"the option startingOffsetsByTimestampStrategy is {strategy!r}; it is error or latest")
    bound = _by_time(options, "starting", strategy == "latest")
    if bound is not None:
        return bound
    value = options.text("startingOffsets") or ("latest" if streaming else "earliest")
    if value.lower() == "latest":
        if not streaming:
            raise PipelineError("startingOffsets cannot be latest in a batch: there would be nothing to read")
        return Bound(LATEST)
    if value.lower() == "earliest":
        return Bound(EARLIEST)
    offsets = parse_offsets("startingOffsets", value)
    if not streaming and any(LATEST in parts.values() for parts in offsets.values()):
        raise PipelineError("startingOffsets cannot have -1 (latest) in a batch")
    return Bound(offsets=offsets)


def _ending(options: Given, streaming: bool) -> Bound:
    names = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
    if streaming:
        for name in names:
            if options.text(name) is not None:
                raise PipelineError(f"the option {name} is for batches: a stream has no end")
        return Bound(LATEST)
    bound = _by_time(options, "ending", True)
    if bound is not None:
        return bound
    value = options.text("endingOffsets") or "latest"
    if value.lower() == "latest":
        return Bound(LATEST)
    if value.lower() == "earliest":
        raise PipelineError("endingOffsets cannot be earliest: there would be nothing to read")
    offsets = parse_offsets("endingOffsets", value)
    if any(EARLIEST in parts.values() for parts in offsets.values()):
        raise PipelineError("endingOffsets cannot have -2 (earliest)")
    return Bound(offsets=offsets)


def _by_time(options: Given, which: str, missing_is_latest: bool) -> Bound | None:
    everywhere = options.text(f"{which}Timestamp")
    if everywhere is not None:
        if not everywhere.isdigit():
            raise PipelineError(f"the option {which}Timestamp is {everywhere!r}; it is a time in milliseconds")
        return Bound(timestamp_ms=int(everywhere), missing_is_latest=missing_is_latest)
    value = options.text(f"{which}OffsetsByTimestamp")
    if value is None:
        return None
    times = parse_offsets(f"{which}OffsetsByTimestamp", value)
    return Bound(timestamps_ms=times, missing_is_latest=missing_is_latest)


def parse_offsets(name: str, value: str) -> Offsets:
    """`{"topic":{"0":23,"1":-2}}`, as Spark's Kafka source writes it and as the progress of a query shows it."""
    document = _json(name, value)
    if not isinstance(document, dict):
        raise PipelineError(f'the option {name} must look like {{"topic":{{"0":23,"1":-2}}}}')
    offsets: Offsets = {}
    for topic, parts in document.items():
        if topic.startswith("#"):
            continue  # What the source itself has noted beside the offsets.
        if not isinstance(parts, dict) or not all(
            part.isdigit() and type(offset) is int and offset >= EARLIEST for part, offset in parts.items()
        ):
            raise PipelineError(f'the option {name} must look like {{"topic":{{"0":23,"1":-2}}}}')
        offsets[topic] = {int(part): offset for part, offset in parts.items()}
    return offsets


def _json(name: str, value: str) -> object:
    try:
        return json.loads(value)
    except ValueError:
        raise PipelineError(f"the option {name} is not JSON: {value[:80]!r}") from None


def _isolation(options: Given) -> bool:
    value = options.text("kafka.isolation.level") or "read_uncommitted"
    if value not in ("read_committed", "read_uncommitted"):
        raise PipelineError(f"the option kafka.isolation.level is {value!r}; it is read_committed or read_uncommitted")
    return value == "read_committed"


def _duration_ms(value: str) -> int:
    found = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h|d)?", value)
    if found is None:
        raise PipelineError(f"the option maxTriggerDelay is {value!r}; it is a time like 15m")
    unit = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
    return int(found.group(1)) * unit[found.group(2) or "ms"]
