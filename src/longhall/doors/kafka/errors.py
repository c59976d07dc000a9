"""The one table from our refusals to Kafka's error codes. A test proves that every code is in it."""

from __future__ import annotations

from typing import Final

from longhall.errors import Code

NONE: Final = 0
UNKNOWN_SERVER_ERROR: Final = -1
LEADER_NOT_AVAILABLE: Final = 5
REPLICA_NOT_AVAILABLE: Final = 9
COORDINATOR_NOT_AVAILABLE: Final = 15
UNSUPPORTED_SASL_MECHANISM: Final = 33
ILLEGAL_SASL_STATE: Final = 34
UNSUPPORTED_VERSION: Final = 35
LOG_DIR_NOT_FOUND: Final = 57
SASL_AUTHENTICATION_FAILED: Final = 58
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
PREFERRED_LEADER_NOT_AVAILABLE: Final = 80
ELIGIBLE_LEADERS_NOT_AVAILABLE: Final = 83
ELECTION_NOT_NEEDED: Final = 84
NO_REASSIGNMENT_IN_PROGRESS: Final = 85
DUPLICATE_RESOURCE: Final = 92
UNACCEPTABLE_CREDENTIAL: Final = 93
FETCH_SESSION_TOPIC_ID_ERROR: Final = 106

ERROR_OF: Final[dict[Code, int]] = {
    Code.INVALID_REQUEST: 42,
    Code.INVALID_NAME: 17,
    Code.INVALID_CONFIGURATION: 40,
    Code.INVALID_PARTITION_COUNT: 37,
    Code.INVALID_REPLICATION: 38,
    Code.INVALID_REPLICA_ASSIGNMENT: 39,
    Code.INVALID_TIMESTAMP: 32,
    Code.INVALID_COMMIT_SIZE: 28,
    Code.CORRUPT_MESSAGE: 2,
    Code.MESSAGE_TOO_LARGE: 10,
    Code.UNSUPPORTED_FORMAT: 43,
    Code.UNSUPPORTED_VERSION: UNSUPPORTED_VERSION,
    Code.KEY_REQUIRED: 87,  # INVALID_RECORD
    Code.OFFSET_OUT_OF_RANGE: 1,
    Code.UNKNOWN_TOPIC: 3,
    Code.UNKNOWN_TOPIC_ID: 100,
    Code.TOPIC_EXISTS: 36,
    Code.TOPIC_IN_USE: 42,
    Code.NOT_ARCHIVED: 44,
    Code.STORAGE_FULL: 56,
    Code.STORAGE_DAMAGED: 2,  # Readers must not go on as if nothing were missing; clients stop at a corrupt message.
    Code.OVERLOADED: 7,
    Code.OVER_QUOTA: 89,  # THROTTLING_QUOTA_EXCEEDED
    Code.QUEUE_MOVED: 6,  # NOT_LEADER_OR_FOLLOWER
    Code.NOT_READY: 14,
    Code.TIMED_OUT: 7,
    Code.FENCED_LEADER_EPOCH: 74,
    Code.UNKNOWN_LEADER_EPOCH: 75,
    Code.NOT_LEADER: 6,
    Code.NOT_COORDINATOR: 16,
    Code.NOT_CONTROLLER: 41,
    Code.NOT_ENOUGH_REPLICAS: 19,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: 20,
    Code.COMMIT_BACKLOG: 19,  # NOT_ENOUGH_REPLICAS: every client tries again by itself.
    Code.INVALID_GROUP_ID: 24,
    Code.INVALID_SESSION_TIMEOUT: 26,
    Code.INCONSISTENT_PROTOCOL: 23,
    Code.MEMBER_ID_REQUIRED: 79,
    Code.UNKNOWN_MEMBER: 25,
    Code.FENCED_INSTANCE: 82,
    Code.ILLEGAL_GENERATION: 22,
    Code.FENCED_MEMBER_EPOCH: 110,
    Code.STALE_MEMBER_EPOCH: 113,
    Code.UNRELEASED_INSTANCE: 111,
    Code.UNSUPPORTED_ASSIGNOR: 112,
    Code.INVALID_REGULAR_EXPRESSION: 128,
    Code.REBALANCE_IN_PROGRESS: 27,
    Code.GROUP_FULL: 81,
    Code.GROUP_NOT_EMPTY: 68,
    Code.GROUP_UNKNOWN: 69,
    Code.GROUP_SUBSCRIBED: 86,
    Code.OFFSET_METADATA_TOO_LARGE: 12,
    Code.UNSTABLE_OFFSETS: 88,
    # Clients stop at TOPIC_AUTHORIZATION_FAILED when they produce and when they fetch, and name the topic. They try
    # again at KAFKA_STORAGE_ERROR, and stop at a corrupt message.
    Code.KEY_UNKNOWN: 29,
    Code.KEY_DISABLED: 29,
    Code.KEY_DENIED: 29,
    Code.KEY_INVALID_STATE: 29,
    Code.KEY_INVALID_USAGE: 29,
    Code.KEY_NOT_SUBSCRIBED: 29,
    Code.KEY_UNAVAILABLE: 56,
    Code.SEAL_BROKEN: 2,
    Code.SEALED: 44,
    # Producers hear these of the rules of a queue. A full queue that refuses is a policy, and clients do not retry; one
    # that makes them wait ends with TIMED_OUT, and they do.
    Code.QUEUE_FULL: 44,  # POLICY_VIOLATION
    Code.REPEATED_SEND: 87,  # INVALID_RECORD; clients take DUPLICATE_SEQUENCE_NUMBER for success.
    # What else only queues refuse never reaches this door; the nearest word if it does.
    Code.UNKNOWN_QUEUE: 3,
    Code.QUEUE_DELETED_RECENTLY: 36,
    Code.QUEUE_EXISTS: 36,
    Code.INVALID_RECEIPT: 42,
    Code.RECEIPT_OF_OTHER_VERSION: 42,
    Code.RECEIPT_SUPERSEDED: 121,  # INVALID_RECORD_STATE
    Code.NOT_IN_FLIGHT: 121,
    Code.TOO_MANY_IN_FLIGHT: 42,
    Code.MOVE_RUNNING: 42,
    Code.MOVE_UNKNOWN: 42,
    Code.PURGE_RUNNING: 42,
    Code.NOT_KEPT: 42,
    Code.UNKNOWN_MESSAGE: 42,
    Code.MESSAGE_LEASED: 42,
    Code.UNKNOWN_EXCHANGE: 42,
    Code.UNKNOWN_VIRTUAL_HOST: 42,
    Code.EXCHANGE_IN_USE: 42,
    Code.ACCESS_REFUSED: 31,  # CLUSTER_AUTHORIZATION_FAILED; topics, groups and ids have codes of their own.
    Code.UNKNOWN_ENTRY: 91,  # RESOURCE_NOT_FOUND
    Code.ENTRY_EXISTS: 92,  # DUPLICATE_RESOURCE
    Code.ENTRY_IN_USE: 42,
    Code.QUEUE_IN_USE: 42,
    Code.QUEUE_NOT_EMPTY: 42,
    Code.OUT_OF_ORDER_SEQUENCE: 45,
    Code.DUPLICATE_SEQUENCE: 46,
    Code.UNKNOWN_PRODUCER: 59,
    Code.INVALID_PRODUCER_EPOCH: 47,
    Code.PRODUCER_FENCED: 90,
    Code.INVALID_PRODUCER_MAPPING: 49,
    Code.INVALID_TRANSACTION_STATE: 48,
    Code.INVALID_TRANSACTION_TIMEOUT: 50,
    Code.CONCURRENT_TRANSACTIONS: 51,
    Code.TRANSACTION_UNKNOWN: 105,
    Code.TRANSACTION_ABORTABLE: 120,
    Code.OPERATION_NOT_ATTEMPTED: 55,
}


def error_of(code: Code | None) -> int:
    """Kafka's number for a refusal; 0 for none."""
    return NONE if code is None else ERROR_OF[code]


def fenced_as(code: Code | None, knows_fencing: bool) -> Code | None:
    """Older versions of the transaction APIs know a fenced producer only by its epoch."""
    if code is Code.PRODUCER_FENCED and not knows_fencing:
        return Code.INVALID_PRODUCER_EPOCH
    return code
