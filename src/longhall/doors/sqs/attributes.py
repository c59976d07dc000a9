"""Queue attributes of the service and our settings: one table for both directions.

An attribute that has a setting is stored only there, so a change through another door is visible here. An attribute
that only the service has (policies, the throughput limit) is stored in `settings.door` under its own
name. The service's defaults differ from ours and are set when this door creates a queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from longhall.broker.configuration import IN_THE_HALL, PLACEMENT, PLACEMENTS, UNPLACED, check
from longhall.doors.sqs.door import Door
from longhall.doors.sqs.extension_attributes import QUEUE_ATTRIBUTES, extension_attributes, extension_setting
from longhall.doors.sqs.policies import (
    check_policy,
    check_redrive_allow_policy,
    read_redrive_policy,
    write_redrive_policy,
)
from longhall.doors.sqs.wire.faults import INVALID_ATTRIBUTE_NAME, INVALID_ATTRIBUTE_VALUE, SqsError
from longhall.errors import LonghallError
from longhall.queues.messages import Depth, QueueView
from longhall.queues.settings import MANAGED_KEY, QueueSettings

RETENTION_S: Final = 345_600
IN_FLIGHT_MAX: Final = 120_000
KEY_NAME_LENGTH_MAX: Final = 2048

_FIFO_ONLY: Final = frozenset({"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"})
_FIFO_MODES: Final = frozenset({"DeduplicationScope", "FifoThroughputLimit"})
_READ_ONLY: Final = frozenset(
    {
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesDelayed",
        "ApproximateNumberOfMessagesNotVisible",
        "CreatedTimestamp",
        "LastModifiedTimestamp",
        "QueueArn",
    }
)
# Attribute -> field in seconds. The bounds are below, because an operator can widen some of them.
_SECONDS: Final = {
    "VisibilityTimeout": "lease_ms",
    "DelaySeconds": "delay_ms",
    "ReceiveMessageWaitTimeSeconds": "wait_ms",
    "MessageRetentionPeriod": "retention_ms",
}
_SCOPES: Final = {"queue": "queue", "messageGroup": "group"}
_SCOPE_NAMES: Final = {"queue": "queue", "group": "messageGroup"}
_SEALING: Final = frozenset({"KmsDataKeyReusePeriodSeconds", "KmsMasterKeyId", "SqsManagedSseEnabled"})
_OTHERS: Final = frozenset({"MaximumMessageSize", "Policy", "RedriveAllowPolicy", "RedrivePolicy"}) | _SEALING
_OURS: Final = frozenset(  # See `extensions`.
    {"LonghallAcknowledge", "LonghallPlacement", "LonghallPriorities", "LonghallSettled"} | QUEUE_ATTRIBUTES
)
WRITABLE: Final = frozenset(_SECONDS) | _FIFO_ONLY | _OTHERS | _OURS
READABLE: Final = WRITABLE | _READ_ONLY | {"All"}

_NUMBER = re.compile(r"[0-9]{1,10}")


def new_settings(door: Door, name: str, attributes: Mapping[str, str], tags: Mapping[str, str]) -> QueueSettings:
    """The settings of a new queue. Raises SqsError."""
    fifo = "FifoQueue" in attributes
    if fifo and not _flag("FifoQueue", attributes["FifoQueue"]):
        raise unknown("FifoQueue")  # As in the service: a standard queue does not have the attribute.
    settings = QueueSettings(
        retention_ms=RETENTION_S * 1000,
        message_bytes_max=door.limits.message_bytes_max,
        in_flight_max=IN_FLIGHT_MAX,
        fifo=fifo,
        deduplication="id" if fifo else "off",
        tags=dict(tags),
        sealed=MANAGED_KEY if door.limits.seals_queues and not _SEALING & attributes.keys() else "",
    )
    return changed_settings(door, name, settings, attributes)


def changed_settings(door: Door, name: str, settings: QueueSettings, attributes: Mapping[str, str]) -> QueueSettings:
    """The settings with some attributes changed. Raises SqsError if any of them is invalid."""
    changes: dict[str, object] = {}
    kept = dict(settings.door)
    for attribute, value in attributes.items():
        if attribute in _FIFO_MODES and not settings.fifo:
            said = f"You can specify the {attribute} only when FifoQueue is set to true."
            raise SqsError(INVALID_ATTRIBUTE_NAME, said)
        if attribute not in WRITABLE or (attribute in _FIFO_ONLY and not settings.fifo):
            raise unknown(attribute)
        if attribute in _SECONDS:
            changes[_SECONDS[attribute]] = 1000 * _number(attribute, value, *_bounds(door, attribute))
        elif attribute == "MaximumMessageSize":
            changes["message_bytes_max"] = _number(attribute, value, 1024, door.limits.message_bytes_max)
        elif attribute == "ContentBasedDeduplication":
            changes["deduplication"] = "content" if _flag(attribute, value) else "id"
        elif attribute == "DeduplicationScope":
            changes["deduplication_scope"] = _word(attribute, value, _SCOPES)
        elif attribute == "RedrivePolicy":
            changes["dead_letters"] = read_redrive_policy(value) if value else None
        elif attribute == "LonghallPriorities":
            changes["priorities"] = _number(attribute, value, 1, 1 if settings.fifo else 256)
        elif attribute == "LonghallSettled":
            changes["settled"] = _word(attribute, value, {"free": "free", "keep": "keep"})
        elif attribute == "LonghallAcknowledge":
            changes["acknowledge"] = _word(attribute, value, {word: word for word in ("one", "quorum", "all")})
        elif attribute == "LonghallPlacement":
            changes["placement"] = _placement(attribute, value)
        elif attribute in QUEUE_ATTRIBUTES:
            field, setting = extension_setting(attribute, value)
            changes[field] = setting
        elif attribute == "FifoQueue":
            if value.lower() != "true":
                raise wrong(attribute, "Modifying queue type is not supported.")
        elif attribute not in _SEALING:
            _keep(kept, attribute, value)
    changes.update(_sealing(settings, attributes))
    settings = msgspec.structs.replace(settings, door=kept, **changes)
    if kept.get("FifoThroughputLimit") == "perMessageGroupId" and settings.deduplication_scope != "group":
        raise wrong(
            "FifoThroughputLimit",
            "The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup.",
        )
    return settings


def _sealing(settings: QueueSettings, attributes: Mapping[str, str]) -> dict[str, object]:
    """The settings of the encryption. One kind at a time: the attribute of this request replaces the other kind."""
    key = attributes.get("KmsMasterKeyId")
    managed = attributes.get("SqsManagedSseEnabled")
    is_managed = _flag("SqsManagedSseEnabled", managed) if managed else False
    if key and is_managed:
        said = "You can use one type of server-side encryption (SSE) at one time."
        raise SqsError(INVALID_ATTRIBUTE_NAME, f"{said} You can either enable KMS SSE or SQS SSE.")
    if key is not None and (len(key) > KEY_NAME_LENGTH_MAX or key == MANAGED_KEY):
        raise wrong("KmsMasterKeyId")
    changes: dict[str, object] = {}
    sealed = settings.sealed
    if key or (key is not None and sealed != MANAGED_KEY):
        sealed = key
    if is_managed:
        sealed = MANAGED_KEY
    elif managed is not None and sealed == MANAGED_KEY:
        sealed = ""
    if sealed != settings.sealed:
        changes["sealed"] = sealed
    reuse = attributes.get("KmsDataKeyReusePeriodSeconds")
    if reuse:
        changes["seal_reuse_ms"] = 1000 * _number("KmsDataKeyReusePeriodSeconds", reuse, 60, 86_400)
    elif reuse is not None:
        changes["seal_reuse_ms"] = QueueSettings().seal_reuse_ms
    return changes


def read_attributes(door: Door, view: QueueView, names: Iterable[str], depth: Depth) -> dict[str, str]:
    """The requested attributes that this queue has. Raises SqsError."""
    wanted = list(names)
    for name in wanted:
        if name not in READABLE:
            raise unknown(name)
    every = _written(door, view.settings)
    every["QueueArn"] = door.arn(view.name)
    every["ApproximateNumberOfMessages"] = str(depth.available)
    every["ApproximateNumberOfMessagesNotVisible"] = str(depth.in_flight)
    every["ApproximateNumberOfMessagesDelayed"] = str(depth.delayed)
    every["CreatedTimestamp"] = str(view.created_ms // 1000)
    every["LastModifiedTimestamp"] = str(view.modified_ms // 1000)
    if "All" in wanted:
        return every
    return {name: every[name] for name in wanted if name in every}


def first_difference(door: Door, asked: QueueSettings, view: QueueView, attributes: Iterable[str]) -> str:
    """The first of these attributes in which an existing queue differs from `asked`; empty if there is none."""
    new = _written(door, asked)
    old = _written(door, view.settings)
    for attribute in attributes:
        if new.get(attribute) != old.get(attribute):
            return attribute
    return ""


def unknown(attribute: str) -> SqsError:
    """The error for an attribute that does not exist, or not for this queue."""
    return SqsError(INVALID_ATTRIBUTE_NAME, f"Unknown Attribute {attribute[:200]}.")


def wrong(attribute: str, reason: str = "") -> SqsError:
    """The error for the value of an attribute."""
    said = f"Invalid value for the parameter {attribute}."
    return SqsError(INVALID_ATTRIBUTE_VALUE, f"{said} Reason: {reason}" if reason else said)


def _written(door: Door, settings: QueueSettings) -> dict[str, str]:
    """Every attribute that follows from the settings."""
    out = {attribute: str(getattr(settings, field) // 1000) for attribute, field in _SECONDS.items()}
    out["MaximumMessageSize"] = str(settings.message_bytes_max)
    out["SqsManagedSseEnabled"] = "true" if settings.sealed == MANAGED_KEY else "false"
    if settings.sealed and settings.sealed != MANAGED_KEY:
        out["KmsMasterKeyId"] = settings.sealed
        out["KmsDataKeyReusePeriodSeconds"] = str(settings.seal_reuse_ms // 1000)
    if settings.priorities > 1:
        out["LonghallPriorities"] = str(settings.priorities)
    if settings.settled != "free":
        out["LonghallSettled"] = settings.settled
    if settings.acknowledge != "all":
        out["LonghallAcknowledge"] = settings.acknowledge
    if settings.placement not in (UNPLACED, IN_THE_HALL):
        out["LonghallPlacement"] = settings.placement
    out.update(extension_attributes(settings))
    if settings.dead_letters is not None:
        out["RedrivePolicy"] = write_redrive_policy(door, settings.dead_letters)
    if settings.fifo:
        out["FifoQueue"] = "true"
        out["ContentBasedDeduplication"] = "true" if settings.deduplication == "content" else "false"
        out["DeduplicationScope"] = _SCOPE_NAMES[settings.deduplication_scope]
        out["FifoThroughputLimit"] = "perQueue"
    # Versions before sealing stored the names of keys that encrypted nothing; they are not shown.
    out.update({name: value for name, value in settings.door.items() if name in WRITABLE - _SEALING})
    return out


def _keep(kept: dict[str, str], attribute: str, value: str) -> None:
    """Set an attribute that only the service has; an empty value removes it."""
    if not value:
        kept.pop(attribute, None)
        return
    if attribute == "Policy":
        check_policy(value)
    elif attribute == "RedriveAllowPolicy":
        check_redrive_allow_policy(value)
    elif attribute == "FifoThroughputLimit":
        _word(attribute, value, {"perQueue": "", "perMessageGroupId": ""})
    elif len(value) > 2048:
        raise wrong(attribute)
    kept[attribute] = value


def _bounds(door: Door, attribute: str) -> tuple[int, int]:
    limits = door.limits
    return {
        "VisibilityTimeout": (0, limits.visibility_s_max),
        "DelaySeconds": (0, limits.delay_s_max),
        "ReceiveMessageWaitTimeSeconds": (0, limits.wait_s_max),
        "MessageRetentionPeriod": (limits.retention_s_min, limits.retention_s_max),
    }[attribute]


def _number(attribute: str, value: str, least: int, most: int) -> int:
    if _NUMBER.fullmatch(value) is None or not least <= int(value) <= most:
        is_ours = attribute in _OURS  # The service gives no reason for its own.
        raise wrong(attribute, f"Must be a number from {least} to {most}." if is_ours else "")
    return int(value)


def _flag(attribute: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise wrong(attribute, "Must be true or false.")
    return value.lower() == "true"


def _word(attribute: str, value: str, words: Mapping[str, str]) -> str:
    if value not in words:
        raise wrong(attribute, f"Must be one of {', '.join(words)}.")
    return words[value]


def _placement(attribute: str, value: str) -> str:
    try:
        check({PLACEMENT: value})
    except LonghallError:
        raise wrong(attribute, f"Must be one of {', '.join(PLACEMENTS)}, or wing:NAME.") from None
    return value
