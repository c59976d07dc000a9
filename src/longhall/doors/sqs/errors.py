"""The one table from our refusals to the errors of the service. A test proves that every code is in it.

Two lines depend on the action, which `settling` knows: a receipt that a newer lease has superseded, and a message that
is not in flight (deleting it again is never an error).
"""

from __future__ import annotations

from typing import Final

from longhall.doors.sqs.wire import faults
from longhall.doors.sqs.wire.faults import Fault, SqsError
from longhall.doors.sqs.wire.results import BatchResultErrorEntry
from longhall.errors import Code, LonghallError

FAULT_OF: Final[dict[Code, Fault]] = {
    Code.INVALID_REQUEST: faults.INVALID_PARAMETER,
    Code.INVALID_NAME: faults.INVALID_PARAMETER,
    Code.INVALID_CONFIGURATION: faults.INVALID_ATTRIBUTE_VALUE,
    Code.MESSAGE_TOO_LARGE: faults.INVALID_PARAMETER,
    Code.INVALID_TIMESTAMP: faults.INVALID_PARAMETER,
    Code.UNSUPPORTED_FORMAT: faults.UNSUPPORTED,
    Code.UNSUPPORTED_VERSION: faults.UNSUPPORTED,
    Code.UNKNOWN_QUEUE: faults.NO_SUCH_QUEUE,
    Code.UNKNOWN_TOPIC: faults.NO_SUCH_QUEUE,
    Code.UNKNOWN_TOPIC_ID: faults.NO_SUCH_QUEUE,
    Code.QUEUE_EXISTS: faults.QUEUE_EXISTS,
    Code.TOPIC_EXISTS: faults.QUEUE_EXISTS,
    Code.TOPIC_IN_USE: faults.UNSUPPORTED,
    Code.NOT_ARCHIVED: faults.UNSUPPORTED,
    Code.QUEUE_DELETED_RECENTLY: faults.QUEUE_DELETED_RECENTLY,
    Code.QUEUE_FULL: faults.OVER_LIMIT,
    Code.INVALID_RECEIPT: faults.INVALID_RECEIPT,
    Code.RECEIPT_OF_OTHER_VERSION: faults.INVALID_ID_FORMAT,
    Code.RECEIPT_SUPERSEDED: faults.INVALID_PARAMETER,
    Code.NOT_IN_FLIGHT: faults.NOT_IN_FLIGHT,
    Code.TOO_MANY_IN_FLIGHT: faults.OVER_LIMIT,
    Code.REPEATED_SEND: faults.INVALID_PARAMETER,
    Code.MOVE_RUNNING: faults.INVALID_PARAMETER,
    Code.MOVE_UNKNOWN: faults.NO_SUCH_RESOURCE,
    Code.PURGE_RUNNING: faults.PURGE_IN_PROGRESS,
    Code.NOT_KEPT: faults.UNSUPPORTED,
    Code.UNKNOWN_MESSAGE: faults.NO_SUCH_RESOURCE,
    Code.MESSAGE_LEASED: faults.UNSUPPORTED,
    Code.SEALED: faults.UNSUPPORTED,
    Code.KEY_UNKNOWN: faults.KMS_NOT_FOUND,
    Code.KEY_DISABLED: faults.KMS_DISABLED,
    Code.KEY_DENIED: faults.KMS_ACCESS_DENIED,
    Code.KEY_INVALID_STATE: faults.KMS_INVALID_STATE,
    Code.SEAL_BROKEN: faults.KMS_INVALID_STATE,  # SDKs would repeat an internal error, and get other messages.
    Code.KEY_INVALID_USAGE: faults.KMS_INVALID_KEY_USAGE,
    Code.KEY_NOT_SUBSCRIBED: faults.KMS_OPT_IN_REQUIRED,
    Code.KEY_UNAVAILABLE: faults.KMS_THROTTLED,
    # Retriable: SDKs retry these by themselves.
    Code.OVERLOADED: faults.THROTTLED,
    Code.OVER_QUOTA: faults.THROTTLED,
    Code.STORAGE_FULL: faults.UNAVAILABLE,
    Code.NOT_READY: faults.UNAVAILABLE,
    Code.QUEUE_MOVED: faults.UNAVAILABLE,
    Code.TIMED_OUT: faults.UNAVAILABLE,
    Code.NOT_LEADER: faults.UNAVAILABLE,
    Code.NOT_COORDINATOR: faults.UNAVAILABLE,
    Code.NOT_CONTROLLER: faults.UNAVAILABLE,
    Code.NOT_ENOUGH_REPLICAS: faults.UNAVAILABLE,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: faults.UNAVAILABLE,
    Code.COMMIT_BACKLOG: faults.UNAVAILABLE,
    Code.FENCED_LEADER_EPOCH: faults.UNAVAILABLE,
    Code.UNKNOWN_LEADER_EPOCH: faults.UNAVAILABLE,
    Code.CONCURRENT_TRANSACTIONS: faults.UNAVAILABLE,
    # Damage on this side is not the sender's fault.
    Code.CORRUPT_MESSAGE: faults.INTERNAL,
    Code.STORAGE_DAMAGED: faults.INTERNAL,
    # Codes of other doors do not occur here; these are the nearest errors.
    Code.UNKNOWN_EXCHANGE: faults.NO_SUCH_RESOURCE,
    Code.UNKNOWN_VIRTUAL_HOST: faults.NO_SUCH_RESOURCE,
    Code.EXCHANGE_IN_USE: faults.UNSUPPORTED,
    Code.ACCESS_REFUSED: faults.ACCESS_DENIED,
    Code.UNKNOWN_ENTRY: faults.NO_SUCH_RESOURCE,
    Code.ENTRY_EXISTS: faults.UNSUPPORTED,
    Code.ENTRY_IN_USE: faults.UNSUPPORTED,
    Code.QUEUE_IN_USE: faults.UNSUPPORTED,
    Code.QUEUE_NOT_EMPTY: faults.UNSUPPORTED,
    Code.INVALID_PARTITION_COUNT: faults.INVALID_ATTRIBUTE_VALUE,
    Code.INVALID_REPLICATION: faults.INVALID_ATTRIBUTE_VALUE,
    Code.INVALID_REPLICA_ASSIGNMENT: faults.INVALID_ATTRIBUTE_VALUE,
    Code.INVALID_COMMIT_SIZE: faults.INVALID_PARAMETER,
    Code.KEY_REQUIRED: faults.INVALID_PARAMETER,
    Code.OFFSET_OUT_OF_RANGE: faults.INVALID_PARAMETER,
    Code.INVALID_GROUP_ID: faults.INVALID_PARAMETER,
    Code.INVALID_SESSION_TIMEOUT: faults.INVALID_PARAMETER,
    Code.INCONSISTENT_PROTOCOL: faults.INVALID_PARAMETER,
    Code.MEMBER_ID_REQUIRED: faults.INVALID_PARAMETER,
    Code.UNKNOWN_MEMBER: faults.INVALID_PARAMETER,
    Code.FENCED_INSTANCE: faults.INVALID_PARAMETER,
    Code.ILLEGAL_GENERATION: faults.INVALID_PARAMETER,
    Code.FENCED_MEMBER_EPOCH: faults.INVALID_PARAMETER,
    Code.STALE_MEMBER_EPOCH: faults.INVALID_PARAMETER,
    Code.UNRELEASED_INSTANCE: faults.INVALID_PARAMETER,
    Code.UNSUPPORTED_ASSIGNOR: faults.INVALID_PARAMETER,
    Code.INVALID_REGULAR_EXPRESSION: faults.INVALID_PARAMETER,
    Code.REBALANCE_IN_PROGRESS: faults.UNAVAILABLE,
    Code.GROUP_FULL: faults.OVER_LIMIT,
    Code.GROUP_NOT_EMPTY: faults.UNSUPPORTED,
    Code.GROUP_UNKNOWN: faults.NO_SUCH_RESOURCE,
    Code.GROUP_SUBSCRIBED: faults.UNSUPPORTED,
    Code.OFFSET_METADATA_TOO_LARGE: faults.INVALID_PARAMETER,
    Code.UNSTABLE_OFFSETS: faults.UNAVAILABLE,
    Code.OUT_OF_ORDER_SEQUENCE: faults.INTERNAL,
    Code.DUPLICATE_SEQUENCE: faults.INTERNAL,
    Code.UNKNOWN_PRODUCER: faults.INTERNAL,
    Code.INVALID_PRODUCER_EPOCH: faults.INTERNAL,
    Code.PRODUCER_FENCED: faults.INTERNAL,
    Code.INVALID_PRODUCER_MAPPING: faults.INTERNAL,
    Code.INVALID_TRANSACTION_STATE: faults.INTERNAL,
    Code.INVALID_TRANSACTION_TIMEOUT: faults.INTERNAL,
    Code.TRANSACTION_UNKNOWN: faults.INTERNAL,
    Code.TRANSACTION_ABORTABLE: faults.INTERNAL,
    Code.OPERATION_NOT_ATTEMPTED: faults.INTERNAL,
}

_SENTENCES: Final[dict[Code, str]] = {
    Code.UNKNOWN_QUEUE: faults.NO_SUCH_QUEUE_MESSAGE,
    Code.INVALID_RECEIPT: "The input receipt handle is invalid.",
    Code.RECEIPT_OF_OTHER_VERSION: "The specified receipt handle isn't valid for the current version.",
    Code.RECEIPT_SUPERSEDED: "The receipt handle has expired.",
    Code.NOT_IN_FLIGHT: "The message referred to is not in flight.",
    Code.TOO_MANY_IN_FLIGHT: "Too many messages of this queue are in flight; delete some before you receive more.",
    Code.QUEUE_DELETED_RECENTLY: "You must wait 60 seconds after deleting a queue before you can create another with "
    "the same name.",
    Code.QUEUE_FULL: "The queue is full.",
    Code.MOVE_RUNNING: "There is already a task running. Only one active task is allowed for a source queue arn at a "
    "given time.",
    Code.MOVE_UNKNOWN: "Task does not exist.",
    Code.COMMIT_BACKLOG: "Too much that was sent waits for its commit; try again later.",
    Code.OVERLOADED: "The request was throttled; try again later.",
    Code.OVER_QUOTA: "The request was throttled; try again later.",
}

_ALWAYS: Final = frozenset(
    {Code.UNKNOWN_QUEUE, Code.QUEUE_DELETED_RECENTLY, Code.TOO_MANY_IN_FLIGHT, Code.MOVE_RUNNING, Code.MOVE_UNKNOWN}
)


def error_of(code: Code, message: str = "") -> SqsError:
    """A refusal as an error of the service."""
    if not message or message == code.value:
        message = _SENTENCES.get(code, f"The request was refused: {code.value}.")
    return SqsError(FAULT_OF[code], message)


def translate(error: LonghallError) -> SqsError:
    """The same for a raised error. Some codes always have the sentence of the service."""
    return error_of(error.code, "" if error.code in _ALWAYS else str(error))


def failed_entry(entry_id: str, error: SqsError) -> BatchResultErrorEntry:
    """The error of one entry of a batch."""
    fault = error.fault
    return BatchResultErrorEntry(id=entry_id, sender_fault=fault.sender, code=fault.code, message=error.message)
