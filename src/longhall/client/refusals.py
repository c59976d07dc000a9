"""Failures between a client and a hall, as exceptions that say whether a retry can help.

The table gives every error code of the protocol our own code, and whether the same request may succeed later.
The door has a table in the other direction.
"""

from __future__ import annotations

from typing import Final

from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.errors import Code, LonghallError

_R: Final = True  # The same request may succeed later.
_F: Final = False

_TABLE: Final[dict[int, tuple[Code, bool]]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: (Code.INVALID_REQUEST, _F),
    ErrorCode.OFFSET_OUT_OF_RANGE: (Code.OFFSET_OUT_OF_RANGE, _F),
    ErrorCode.CORRUPT_MESSAGE: (Code.CORRUPT_MESSAGE, _R),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (Code.UNKNOWN_TOPIC, _R),
    ErrorCode.LEADER_NOT_AVAILABLE: (Code.NOT_READY, _R),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: (Code.NOT_LEADER, _R),
    ErrorCode.REQUEST_TIMED_OUT: (Code.TIMED_OUT, _R),
    ErrorCode.BROKER_NOT_AVAILABLE: (Code.NOT_READY, _R),
    ErrorCode.REPLICA_NOT_AVAILABLE: (Code.NOT_READY, _R),
    ErrorCode.MESSAGE_TOO_LARGE: (Code.MESSAGE_TOO_LARGE, _F),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: (Code.OFFSET_METADATA_TOO_LARGE, _F),
    ErrorCode.NETWORK_EXCEPTION: (Code.NOT_READY, _R),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (Code.NOT_READY, _R),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (Code.NOT_READY, _R),
    ErrorCode.NOT_COORDINATOR: (Code.NOT_LEADER, _R),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (Code.INVALID_NAME, _F),
    ErrorCode.RECORD_LIST_TOO_LARGE: (Code.MESSAGE_TOO_LARGE, _F),
    ErrorCode.NOT_ENOUGH_REPLICAS: (Code.NOT_ENOUGH_REPLICAS, _R),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND, _R),
    ErrorCode.INVALID_REQUIRED_ACKS: (Code.INVALID_REQUEST, _F),
    ErrorCode.ILLEGAL_GENERATION: (Code.ILLEGAL_GENERATION, _F),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (Code.INCONSISTENT_PROTOCOL, _F),
    ErrorCode.INVALID_GROUP_ID: (Code.INVALID_GROUP_ID, _F),
    ErrorCode.UNKNOWN_MEMBER_ID: (Code.UNKNOWN_MEMBER, _F),
    ErrorCode.INVALID_SESSION_TIMEOUT: (Code.INVALID_SESSION_TIMEOUT, _F),
    ErrorCode.REBALANCE_IN_PROGRESS: (Code.REBALANCE_IN_PROGRESS, _F),
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: (Code.INVALID_COMMIT_SIZE, _F),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (Code.ACCESS_REFUSED, _F),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (Code.ACCESS_REFUSED, _F),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (Code.ACCESS_REFUSED, _F),
    ErrorCode.INVALID_TIMESTAMP: (Code.INVALID_TIMESTAMP, _F),
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: (Code.INVALID_REQUEST, _F),
    ErrorCode.ILLEGAL_SASL_STATE: (Code.INVALID_REQUEST, _F),
    ErrorCode.UNSUPPORTED_VERSION: (Code.UNSUPPORTED_VERSION, _F),
    ErrorCode.TOPIC_ALREADY_EXISTS: (Code.TOPIC_EXISTS, _F),
    ErrorCode.INVALID_PARTITIONS: (Code.INVALID_PARTITION_COUNT, _F),
    ErrorCode.INVALID_REPLICATION_FACTOR: (Code.INVALID_REPLICATION, _F),
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: (Code.INVALID_REPLICA_ASSIGNMENT, _F),
    ErrorCode.INVALID_CONFIG: (Code.INVALID_CONFIGURATION, _F),
    ErrorCode.NOT_CONTROLLER: (Code.NOT_LEADER, _R),
    ErrorCode.INVALID_REQUEST: (Code.INVALID_REQUEST, _F),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: (Code.UNSUPPORTED_FORMAT, _F),
    ErrorCode.POLICY_VIOLATION: (Code.NOT_ARCHIVED, _F),
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (Code.OUT_OF_ORDER_SEQUENCE, _F),
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: (Code.DUPLICATE_SEQUENCE, _F),
    ErrorCode.INVALID_PRODUCER_EPOCH: (Code.INVALID_PRODUCER_EPOCH, _F),
    ErrorCode.INVALID_TXN_STATE: (Code.INVALID_TRANSACTION_STATE, _F),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: (Code.INVALID_PRODUCER_MAPPING, _F),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (Code.INVALID_TRANSACTION_TIMEOUT, _F),
    ErrorCode.CONCURRENT_TRANSACTIONS: (Code.CONCURRENT_TRANSACTIONS, _R),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (Code.ACCESS_REFUSED, _F),
    ErrorCode.OPERATION_NOT_ATTEMPTED: (Code.OPERATION_NOT_ATTEMPTED, _F),
    ErrorCode.KAFKA_STORAGE_ERROR: (Code.STORAGE_DAMAGED, _R),
    ErrorCode.SASL_AUTHENTICATION_FAILED: (Code.INVALID_REQUEST, _F),
    ErrorCode.UNKNOWN_PRODUCER_ID: (Code.UNKNOWN_PRODUCER, _F),
    ErrorCode.NON_EMPTY_GROUP: (Code.GROUP_NOT_EMPTY, _F),
    ErrorCode.GROUP_ID_NOT_FOUND: (Code.GROUP_UNKNOWN, _F),
    ErrorCode.FENCED_LEADER_EPOCH: (Code.FENCED_LEADER_EPOCH, _R),
    ErrorCode.UNKNOWN_LEADER_EPOCH: (Code.UNKNOWN_LEADER_EPOCH, _R),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: (Code.UNSUPPORTED_FORMAT, _F),
    ErrorCode.OFFSET_NOT_AVAILABLE: (Code.NOT_READY, _R),
    ErrorCode.MEMBER_ID_REQUIRED: (Code.MEMBER_ID_REQUIRED, _F),
    ErrorCode.GROUP_MAX_SIZE_REACHED: (Code.GROUP_FULL, _F),
    ErrorCode.FENCED_INSTANCE_ID: (Code.FENCED_INSTANCE, _F),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (Code.GROUP_SUBSCRIBED, _F),
    ErrorCode.INVALID_RECORD: (Code.KEY_REQUIRED, _F),
    ErrorCode.UNSTABLE_OFFSET_COMMIT: (Code.UNSTABLE_OFFSETS, _R),
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: (Code.OVERLOADED, _R),
    ErrorCode.PRODUCER_FENCED: (Code.PRODUCER_FENCED, _F),
    ErrorCode.UNKNOWN_TOPIC_ID: (Code.UNKNOWN_TOPIC_ID, _R),
    ErrorCode.INCONSISTENT_TOPIC_ID: (Code.UNKNOWN_TOPIC_ID, _R),
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: (Code.TRANSACTION_UNKNOWN, _F),
    ErrorCode.FENCED_MEMBER_EPOCH: (Code.FENCED_MEMBER_EPOCH, _F),
    ErrorCode.UNRELEASED_INSTANCE_ID: (Code.UNRELEASED_INSTANCE, _F),
    ErrorCode.UNSUPPORTED_ASSIGNOR: (Code.UNSUPPORTED_ASSIGNOR, _F),
    ErrorCode.STALE_MEMBER_EPOCH: (Code.STALE_MEMBER_EPOCH, _F),
    ErrorCode.TRANSACTION_ABORTABLE: (Code.TRANSACTION_ABORTABLE, _F),
    ErrorCode.INVALID_REGULAR_EXPRESSION: (Code.INVALID_REGULAR_EXPRESSION, _F),
}

_NUMBERS: Final = frozenset(ErrorCode)
COORDINATOR_MOVED: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""The codes after which a client asks again which node is the coordinator."""


class Refused(LonghallError):
    """The hall answered with an error."""

    def __init__(self, error_code: int, message: str = "", *, retriable: bool | None = None) -> None:
        code, by_table = _TABLE.get(error_code, (Code.INVALID_REQUEST, False))
        name = ErrorCode(error_code).name if error_code in _NUMBERS else f"ERROR_{error_code}"
        super().__init__(code, f"{name}: {message}" if message else name)
        self.error_code = error_code
        self.name = name
        self._retriable = by_table if retriable is None else retriable

    @property
    def retriable(self) -> bool:
        return self._retriable


class Unreachable(LonghallError):
    """There was no response: no connection, a lost one, or a timeout. The request may have been served."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.NOT_READY, message)


def check(error_code: int, message: str | None = "") -> None:
    """Raise Refused unless the code is zero."""
    if error_code != 0:
        raise Refused(error_code, message or "")
