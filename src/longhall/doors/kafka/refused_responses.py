"""Refusals in responses of the Kafka door, for the log: the first error of a response, with its reason.

The schemas say where a response has error codes: in itself, and in the rows of its arrays. Errors that belong to the
normal course of the protocol (a rebalance, another leader, a member that joins) are no refusals.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from longhall.doors.kafka.errors import ERROR_OF
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.schema import Message

ORDINARY: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    }
)
_NAMES: Final = {number: code.value for code, number in reversed(ERROR_OF.items())}
_KEYS: Final = ("name", "resource_name", "topic", "group_id", "transactional_id", "partition_index")


class RefusedPart(NamedTuple):
    """The first refusal in a response: the error, and what it is about."""

    error: str
    reason: str


class _Plan(NamedTuple):
    error_field: str
    has_message: bool
    keys: tuple[str, ...]
    rows: tuple[str, ...]


def refused_part(message: Message) -> RefusedPart | None:
    """The first refusal in this response; None if there is none."""
    plan = _plan(type(message))
    if plan.error_field:
        number = getattr(message, plan.error_field)
        if number and number not in ORDINARY:
            said = (getattr(message, "error_message", None) if plan.has_message else None) or ""
            about = next((str(getattr(message, key)) for key in plan.keys), "")
            reason = said if not about else f"{about}: {said}" if said else about
            return RefusedPart(_NAMES.get(number, str(number)), reason)
    for field in plan.rows:
        for row in getattr(message, field) or ():
            found = refused_part(row) if isinstance(row, Message) else None
            if found is not None:
                return found
    return None


@cache
def _plan(kind: type[Message]) -> _Plan:
    rows = []
    for name, spec in kind.TABLE.items():
        if spec.kind == "array" and isinstance(spec.of, type) and issubclass(spec.of, Message):
            inner = _plan(spec.of)
            if inner.error_field or inner.rows:
                rows.append(name)
    error_field = "error_code" if "error_code" in kind.TABLE else ""
    keys = tuple(key for key in _KEYS if key in kind.TABLE)
    return _Plan(error_field, "error_message" in kind.TABLE, keys, tuple(rows))
