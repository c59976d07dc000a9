"""Failures between a client and a hall, as exceptions that say whether a retry can help.

The table gives every error code of the protocol its name, our own code, and whether the same request may succeed later.
The door has a table in the other direction.
"""

from __future__ import annotations

from typing import Final

from longhall.errors import Code, LonghallError

_R: Final = True  # The same request may succeed later.
_F: Final = False

_TABLE: Final[dict[int, tuple[str, Code, bool]]] = {
    -1: ("UNKNOWN_SERVER_ERROR", Code.INVALID_REQUEST, _F),
    1: ("OFFSET_OUT_OF_RANGE", Code.OFFSET_OUT_OF_RANGE, _F),
    2: ("CORRUPT_MESSAGE", Code.CORRUPT_MESSAGE, _R),
    3: ("UNKNOWN_TOPIC_OR_PARTITION", Code.UNKNOWN_TOPIC, _R),
    5: ("LEADER_NOT_AVAILABLE", Code.NOT_READY, _R),
    6: ("NOT_LEADER_OR_FOLLOWER", Code.NOT_LEADER, _R),
    7: ("REQUEST_TIMED_OUT", Code.TIMED_OUT, _R),
    8: ("BROKER_NOT_AVAILABLE", Code.NOT_READY, _R),
    9: ("REPLICA_NOT_AVAILABLE", Code.NOT_READY, _R),
    10: ("MESSAGE_TOO_LARGE", Code.MESSAGE_TOO_LARGE, _F),
    12: ("OFFSET_METADATA_TOO_LARGE", Code.OFFSET_METADATA_TOO_LARGE, _F),
    13: ("NETWORK_EXCEPTION", Code.NOT_READY, _R),
    14: ("COORDINATOR_LOAD_IN_PROGRESS", Code.NOT_READY, _R),
    15: ("COORDINATOR_NOT_AVAILABLE", Code.NOT_READY, _R),
    16: ("NOT_COORDINATOR", Code.NOT_LEADER, _R),
    17: ("INVALID_TOPIC_EXCEPTION", Code.INVALID_NAME, _F),
    18: ("RECORD_LIST_TOO_LARGE", Code.MESSAGE_TOO_LARGE, _F),
    19: ("NOT_ENOUGH_REPLICAS", Code.NOT_ENOUGH_REPLICAS, _R),
    20: ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND, _R),
    21: ("INVALID_REQUIRED_ACKS", Code.INVALID_REQUEST, _F),
    22: ("ILLEGAL_GENERATION", Code.ILLEGAL_GENERATION, _F),
    23: ("INCONSISTENT_GROUP_PROTOCOL", Code.INCONSISTENT_PROTOCOL, _F),
    24: ("INVALID_GROUP_ID", Code.INVALID_GROUP_ID, _F),
    25: ("UNKNOWN_MEMBER_ID", Code.UNKNOWN_MEMBER, _F),
    26: ("INVALID_SESSION_TIMEOUT", Code.INVALID_SESSION_TIMEOUT, _F),
    27: ("REBALANCE_IN_PROGRESS", Code.REBALANCE_IN_PROGRESS, _F),
    28: ("INVALID_COMMIT_OFFSET_SIZE", Code.INVALID_COMMIT_SIZE, _F),
    29: ("TOPIC_AUTHORIZATION_FAILED", Code.ACCESS_REFUSED, _F),
    30: ("GROUP_AUTHORIZATION_FAILED", Code.ACCESS_REFUSED, _F),
    31: ("CLUSTER_AUTHORIZATION_FAILED", Code.ACCESS_REFUSED, _F),
    32: ("INVALID_TIMESTAMP", Code.INVALID_TIMESTAMP, _F),
    33: ("UNSUPPORTED_SASL_MECHANISM", Code.INVALID_REQUEST, _F),
    34: ("ILLEGAL_SASL_STATE", Code.INVALID_REQUEST, _F),
    35: ("UNSUPPORTED_VERSION", Code.UNSUPPORTED_VERSION, _F),
    36: ("TOPIC_ALREADY_EXISTS", Code.TOPIC_EXISTS, _F),
    37: ("INVALID_PARTITIONS", Code.INVALID_PARTITION_COUNT, _F),
    38: ("INVALID_REPLICATION_FACTOR", Code.INVALID_REPLICATION, _F),
    39: ("INVALID_REPLICA_ASSIGNMENT", Code.INVALID_REPLICA_ASSIGNMENT, _F),
    40: ("INVALID_CONFIG", Code.INVALID_CONFIGURATION, _F),
    41: ("NOT_CONTROLLER", Code.NOT_LEADER, _R),
    42: ("INVALID_REQUEST", Code.INVALID_REQUEST, _F),
    43: ("UNSUPPORTED_FOR_MESSAGE_FORMAT", Code.UNSUPPORTED_FORMAT, _F),
    44: ("POLICY_VIOLATION", Code.NOT_ARCHIVED, _F),
    45: ("OUT_OF_ORDER_SEQUENCE_NUMBER", Code.OUT_OF_ORDER_SEQUENCE, _F),
    46: ("DUPLICATE_SEQUENCE_NUMBER", Code.DUPLICATE_SEQUENCE, _F),
    47: ("INVALID_PRODUCER_EPOCH", Code.INVALID_PRODUCER_EPOCH, _F),
    48: ("INVALID_TXN_STATE", Code.INVALID_TRANSACTION_STATE, _F),
    49: ("INVALID_PRODUCER_ID_MAPPING", Code.INVALID_PRODUCER_MAPPING, _F),
    50: ("INVALID_TRANSACTION_TIMEOUT", Code.INVALID_TRANSACTION_TIMEOUT, _F),
    51: ("CONCURRENT_TRANSACTIONS", Code.CONCURRENT_TRANSACTIONS, _R),
    53: ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Code.ACCESS_REFUSED, _F),
    55: ("OPERATION_NOT_ATTEMPTED", Code.OPERATION_NOT_ATTEMPTED, _F),
    56: ("KAFKA_STORAGE_ERROR", Code.STORAGE_DAMAGED, _R),
    58: ("SASL_AUTHENTICATION_FAILED", Code.INVALID_REQUEST, _F),
    59: ("UNKNOWN_PRODUCER_ID", Code.UNKNOWN_PRODUCER, _F),
    68: ("NON_EMPTY_GROUP", Code.GROUP_NOT_EMPTY, _F),
    69: ("GROUP_ID_NOT_FOUND", Code.GROUP_UNKNOWN, _F),
    74: ("FENCED_LEADER_EPOCH", Code.FENCED_LEADER_EPOCH, _R),
    75: ("UNKNOWN_LEADER_EPOCH", Code.UNKNOWN_LEADER_EPOCH, _R),
    76: ("UNSUPPORTED_COMPRESSION_TYPE", Code.UNSUPPORTED_FORMAT, _F),
    78: ("OFFSET_NOT_AVAILABLE", Code.NOT_READY, _R),
    79: ("MEMBER_ID_REQUIRED", Code.MEMBER_ID_REQUIRED, _F),
    81: ("GROUP_MAX_SIZE_REACHED", Code.GROUP_FULL, _F),
    82: ("FENCED_INSTANCE_ID", Code.FENCED_INSTANCE, _F),
    86: ("GROUP_SUBSCRIBED_TO_TOPIC", Code.GROUP_SUBSCRIBED, _F),
    87: ("INVALID_RECORD", Code.KEY_REQUIRED, _F),
    88: ("UNSTABLE_OFFSET_COMMIT", Code.UNSTABLE_OFFSETS, _R),
    89: ("THROTTLING_QUOTA_EXCEEDED", Code.OVERLOADED, _R),
    90: ("PRODUCER_FENCED", Code.PRODUCER_FENCED, _F),
    100: ("UNKNOWN_TOPIC_ID", Code.UNKNOWN_TOPIC_ID, _R),
    103: ("INCONSISTENT_TOPIC_ID", Code.UNKNOWN_TOPIC_ID, _R),
    105: ("TRANSACTIONAL_ID_NOT_FOUND", Code.TRANSACTION_UNKNOWN, _F),
    110: ("FENCED_MEMBER_EPOCH", Code.FENCED_MEMBER_EPOCH, _F),
    111: ("UNRELEASED_INSTANCE_ID", Code.UNRELEASED_INSTANCE, _F),
    112: ("UNSUPPORTED_ASSIGNOR", Code.UNSUPPORTED_ASSIGNOR, _F),
    113: ("STALE_MEMBER_EPOCH", Code.STALE_MEMBER_EPOCH, _F),
    120: ("TRANSACTION_ABORTABLE", Code.TRANSACTION_ABORTABLE, _F),
    128: ("INVALID_REGULAR_EXPRESSION", Code.INVALID_REGULAR_EXPRESSION, _F),
}


class Refused(LonghallError):
    """The hall answered with an error."""

    def __init__(self, error_code: int, message: str = "", *, retriable: bool | None = None) -> None:
        name, code, by_table = _TABLE.get(error_code, (f"ERROR_{error_code}", Code.INVALID_REQUEST, False))
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
