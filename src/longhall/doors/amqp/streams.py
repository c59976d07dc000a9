"""Streams: queues that are read as logs (`x-queue-type: stream`), with their arguments and those of their consumers.

argument of the queue               setting
x-max-age                           retention_ms
x-max-length-bytes                  amqp.stream_bytes_max: the oldest segments go
x-stream-max-segment-size-bytes     amqp.stream_segment_bytes

argument of a consumer              start
x-stream-offset                     first, last, next (if it is missing), an offset, a time, or an age such as 1h
x-stream-filter                     only messages whose header x-stream-filter-value is this, or one of these
x-stream-match-unfiltered           those without such a header, too
"""

from __future__ import annotations

import re
from typing import Any, Final

from longhall.broker.queues.consumers.stream_reader import FIRST, LAST, NEXT, StreamStart
from longhall.doors.amqp.errors import AmqpError, precondition
from longhall.exchanges.field_table import Timestamp
from longhall.queues.settings import QueueSettings

OFFSET: Final = "x-stream-offset"
MAX_AGE: Final = "x-max-age"
BYTES_MAX: Final = "x-max-length-bytes"
SEGMENT_BYTES: Final = "x-stream-max-segment-size-bytes"
FILTER_BYTES: Final = "x-stream-filter-size-bytes"
STREAM_ARGUMENTS: Final = frozenset({"x-queue-type", MAX_AGE, BYTES_MAX, SEGMENT_BYTES, FILTER_BYTES})
SEGMENT_BYTES_MIN: Final = 16 * 1024
SEGMENT_BYTES_MAX: Final = 1 << 30
FILTERS_MAX: Final = 64

FILTER: Final = "x-stream-filter"
UNFILTERED: Final = "x-stream-match-unfiltered"
_AGE: Final = re.compile(r"([0-9]{1,9})([YMDhms])")
_DAY_MS: Final = 24 * 3_600_000
_UNIT_MS: Final = {
    "Y": 365 * _DAY_MS,
    "M": 30 * _DAY_MS,
    "D": _DAY_MS,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
}


def is_stream(settings: QueueSettings) -> bool:
    """True for a queue that was declared as a stream."""
    return settings.amqp is not None and settings.amqp.is_stream


def age_ms_of(text: Any) -> int | None:
    """An age such as 7D in milliseconds; None if it is none."""
    found = _AGE.fullmatch(text) if isinstance(text, str) else None
    return int(found[1]) * _UNIT_MS[found[2]] if found is not None else None


def start_of(table: dict[str, Any], resource: str, now_ms: int) -> StreamStart:
    """The start of a consumer with these arguments. Raises AmqpError for arguments that cannot be."""
    start = StreamStart()
    given = table.get(OFFSET, NEXT)
    age_ms = age_ms_of(given)
    if given in (FIRST, LAST, NEXT):
        start.at = str(given)
    elif isinstance(given, Timestamp):
        start.time_ms = max(int(given), 0) * 1000
    elif isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        start.offset = given
    elif age_ms is not None:
        start.time_ms = max(now_ms - age_ms, 0)
    else:
        raise _invalid(OFFSET, resource, "it must be first, last, next, an offset, a time or an age")
    filters = table.get(FILTER, [])
    start.filters = [filters] if isinstance(filters, str) else filters
    if not isinstance(start.filters, list) or not all(isinstance(one, str) for one in start.filters):
        raise _invalid(FILTER, resource, "it must be a string or an array of strings")
    if len(start.filters) > FILTERS_MAX:
        raise _invalid(FILTER, resource, f"it has more than {FILTERS_MAX} values")
    unfiltered = table.get(UNFILTERED, False)
    if not isinstance(unfiltered, bool):
        raise _invalid(UNFILTERED, resource, "it is no boolean")
    start.unfiltered = unfiltered
    return start


def _invalid(key: str, resource: str, why: str) -> AmqpError:
    return precondition(f"invalid arg '{key}' for {resource}: {why}")
