"""Refusals in HTTP: one table from our codes to a status, and the body of every refusal."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec

from longhall.console.http import Response
from longhall.errors import GROUP_NOT_READY, KEY_REFUSALS, Code, LonghallError
from longhall.front.permissions import AccessRefused


class ApiRefusal(msgspec.Struct):
    """The body of a refusal, and the entry of each refused part of a request."""

    code: str
    message: str


_BY_STATUS: Final = {
    HTTPStatus.NOT_FOUND: (
        Code.UNKNOWN_TOPIC,
        Code.UNKNOWN_TOPIC_ID,
        Code.UNKNOWN_QUEUE,
        Code.UNKNOWN_EXCHANGE,
        Code.UNKNOWN_VIRTUAL_HOST,
        Code.UNKNOWN_ENTRY,
        Code.MOVE_UNKNOWN,
        Code.GROUP_UNKNOWN,
        Code.UNKNOWN_MESSAGE,
        Code.UNKNOWN_MEMBER,
        Code.UNKNOWN_PRODUCER,
        Code.TRANSACTION_UNKNOWN,
    ),
    HTTPStatus.FORBIDDEN: (
        Code.ACCESS_REFUSED,
        *KEY_REFUSALS,
    ),
    HTTPStatus.CONFLICT: (
        Code.SEALED,
        Code.TOPIC_EXISTS,
        Code.TOPIC_IN_USE,
        Code.NOT_ARCHIVED,
        Code.QUEUE_EXISTS,
        Code.EXCHANGE_IN_USE,
        Code.ENTRY_EXISTS,
        Code.ENTRY_IN_USE,
        Code.QUEUE_IN_USE,
        Code.QUEUE_NOT_EMPTY,
        Code.QUEUE_DELETED_RECENTLY,
        Code.RECEIPT_SUPERSEDED,
        Code.NOT_IN_FLIGHT,
        Code.REPEATED_SEND,
        Code.MOVE_RUNNING,
        Code.PURGE_RUNNING,
        Code.NOT_KEPT,
        Code.MESSAGE_LEASED,
        Code.GROUP_NOT_EMPTY,
        Code.GROUP_SUBSCRIBED,
        Code.REBALANCE_IN_PROGRESS,
        Code.ILLEGAL_GENERATION,
        Code.FENCED_MEMBER_EPOCH,
        Code.STALE_MEMBER_EPOCH,
        Code.UNRELEASED_INSTANCE,
        Code.FENCED_INSTANCE,
        Code.UNSTABLE_OFFSETS,
        Code.OUT_OF_ORDER_SEQUENCE,
        Code.DUPLICATE_SEQUENCE,
        Code.INVALID_PRODUCER_EPOCH,
        Code.PRODUCER_FENCED,
        Code.INVALID_PRODUCER_MAPPING,
        Code.INVALID_TRANSACTION_STATE,
        Code.CONCURRENT_TRANSACTIONS,
        Code.TRANSACTION_ABORTABLE,
        Code.OPERATION_NOT_ATTEMPTED,
    ),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: (Code.MESSAGE_TOO_LARGE, Code.OFFSET_METADATA_TOO_LARGE),
    HTTPStatus.TOO_MANY_REQUESTS: (Code.OVER_QUOTA, Code.QUEUE_FULL, Code.TOO_MANY_IN_FLIGHT, Code.GROUP_FULL),
    HTTPStatus.INSUFFICIENT_STORAGE: (Code.STORAGE_FULL,),
    HTTPStatus.INTERNAL_SERVER_ERROR: (Code.STORAGE_DAMAGED, Code.SEAL_BROKEN),
    HTTPStatus.GATEWAY_TIMEOUT: (Code.TIMED_OUT,),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        Code.KEY_UNAVAILABLE,
        Code.OVERLOADED,
        Code.NOT_READY,
        Code.QUEUE_MOVED,
        *GROUP_NOT_READY,
    ),
    HTTPStatus.BAD_REQUEST: (
        Code.INVALID_REQUEST,
        Code.INVALID_NAME,
        Code.INVALID_CONFIGURATION,
        Code.INVALID_PARTITION_COUNT,
        Code.INVALID_REPLICATION,
        Code.INVALID_REPLICA_ASSIGNMENT,
        Code.INVALID_TIMESTAMP,
        Code.INVALID_COMMIT_SIZE,
        Code.CORRUPT_MESSAGE,
        Code.UNSUPPORTED_FORMAT,
        Code.UNSUPPORTED_VERSION,
        Code.KEY_REQUIRED,
        Code.OFFSET_OUT_OF_RANGE,
        Code.INVALID_RECEIPT,
        Code.RECEIPT_OF_OTHER_VERSION,
        Code.INVALID_GROUP_ID,
        Code.INVALID_SESSION_TIMEOUT,
        Code.INCONSISTENT_PROTOCOL,
        Code.UNSUPPORTED_ASSIGNOR,
        Code.INVALID_REGULAR_EXPRESSION,
        Code.MEMBER_ID_REQUIRED,
        Code.INVALID_TRANSACTION_TIMEOUT,
    ),
}

STATUS: Final[dict[Code, HTTPStatus]] = {code: status for status, codes in _BY_STATUS.items() for code in codes}

RETRY_AFTER: Final = "Retry-After: 1\r\n"

_WORDS: Final = {
    Code.COMMIT_BACKLOG: "too much that was sent waits for its commit; try again in a moment",
    Code.INVALID_RECEIPT: "this is not a receipt of this queue",
    Code.RECEIPT_SUPERSEDED: "the message was settled, or delivered to another consumer since",
    Code.NOT_IN_FLIGHT: "the lease of the message has ended",
}


def refusal_of(code: Code, message: str = "") -> ApiRefusal:
    """A code with a message for people."""
    if not message or message == code.value:
        message = _WORDS.get(code, code.value.replace("-", " "))
    return ApiRefusal(code.value, message)


def visible(error: LonghallError) -> LonghallError:
    """A refusal without what the client must not know: a queue that it may not see does not exist for it."""
    if isinstance(error, AccessRefused) and error.hidden:
        return LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{error.need.name}'.")
    return error


def refuse(error: LonghallError) -> Response:
    """A refusal as a complete response."""
    error = visible(error)
    refusal = refusal_of(error.code, str(error))
    status = STATUS[error.code]
    comes_back = status is HTTPStatus.SERVICE_UNAVAILABLE or error.code is Code.OVER_QUOTA
    headers = RETRY_AFTER if comes_back else ""
    return Response(status, msgspec.json.encode(refusal), "application/json", headers)
