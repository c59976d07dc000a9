"""Queue attributes that only Longhall has and that are settings under the same name at the other doors.

    LonghallOneByOne    true or false: the next message is delivered only when the one before is settled, returned or
                        dead
    LonghallHours       the windows of the day in which the queue delivers: 22:00-06:00,12:00-13:00 Europe/Berlin
    LonghallRetry       the retry delay of failed messages, as JSON: {"first_ms": 1000, "factor": 2,
                        "longest_ms": 60000, "lapsed": true}; with `lapsed` an expired lease counts too
    LonghallLateStamped arrival or head: where a stamped message goes that is older than one already delivered; chosen
                        when the queue is made

An empty value removes the setting. Attributes at their default are not shown, so that a client that uses none of them
sees the service unchanged.
"""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.doors.sqs.wire.faults import INVALID_ATTRIBUTE_VALUE, SqsError
from longhall.queues.hours import read_hours, write_hours
from longhall.queues.settings import QueueSettings, RetryPolicy

ONE_BY_ONE: Final = "LonghallOneByOne"
HOURS: Final = "LonghallHours"
RETRY: Final = "LonghallRetry"
LATE_STAMPED: Final = "LonghallLateStamped"
QUEUE_ATTRIBUTES: Final = frozenset({ONE_BY_ONE, HOURS, RETRY, LATE_STAMPED})


def extension_setting(attribute: str, value: str) -> tuple[str, object]:
    """The setting of one of these attributes, and its value. Raises SqsError."""
    try:
        if attribute == ONE_BY_ONE:
            return "one_by_one", _flag(value)
        if attribute == HOURS:
            return "hours", read_hours(value) if value else None
        if attribute == LATE_STAMPED:
            return "late_stamped", _place(value)
        assert attribute == RETRY
        return "retry", _retry(value) if value else None
    except (ValueError, msgspec.ValidationError) as error:
        said = f"Invalid value for the parameter {attribute}. Reason: {error}"
        raise SqsError(INVALID_ATTRIBUTE_VALUE, said) from None


def extension_attributes(settings: QueueSettings) -> dict[str, str]:
    """These attributes of a queue that are not at their default."""
    found: dict[str, str] = {}
    if settings.one_by_one:
        found[ONE_BY_ONE] = "true"
    if settings.late_stamped != "arrival":
        found[LATE_STAMPED] = settings.late_stamped
    if settings.hours is not None:
        found[HOURS] = write_hours(settings.hours)
    if settings.retry is not None:
        found[RETRY] = msgspec.json.encode(settings.retry).decode()
    return found


def _flag(value: str) -> bool:
    if value.lower() not in ("true", "false", ""):
        raise ValueError("Must be true or false.")
    return value.lower() == "true"


def _place(value: str) -> str:
    if value not in ("arrival", "head"):
        raise ValueError("Must be arrival or head.")
    return value


def _retry(value: str) -> RetryPolicy:
    given = msgspec.json.decode(value)
    known = RetryPolicy.__struct_fields__
    if not isinstance(given, dict) or not given.keys() <= set(known):
        raise ValueError(f"Must be a JSON object with {', '.join(known)}.")
    return msgspec.convert(given, RetryPolicy)
