"""Everything that can be refused, by one code each.

A code exists only if some caller would act differently on it. On hot paths a `decide_*` returns the code itself as its
refusal; elsewhere a `LonghallError` carries it. Every door owns one table from these codes to its own dialect.
Bugs are not here: they are assertions.
"""

from __future__ import annotations

import enum
from typing import Final


class Code(enum.Enum):
    """Why a request was refused. The value is the plain word that logs and `-o json` show."""

    # What was asked cannot be right, however often it is asked again.
    INVALID_REQUEST = "invalid-request"
    INVALID_NAME = "invalid-name"
    INVALID_CONFIGURATION = "invalid-configuration"
    INVALID_PARTITION_COUNT = "invalid-partition-count"
    INVALID_REPLICATION = "invalid-replication"
    INVALID_REPLICA_ASSIGNMENT = "invalid-replica-assignment"
    INVALID_TIMESTAMP = "invalid-timestamp"
    INVALID_COMMIT_SIZE = "invalid-commit-size"
    CORRUPT_MESSAGE = "corrupt-message"
    MESSAGE_TOO_LARGE = "message-too-large"
    UNSUPPORTED_FORMAT = "unsupported-format"
    UNSUPPORTED_VERSION = "unsupported-version"
    KEY_REQUIRED = "key-required"  # A compacted topic takes no message without a key.
    OFFSET_OUT_OF_RANGE = "offset-out-of-range"

    # Things that are there, or are not.
    UNKNOWN_TOPIC = "unknown-topic"
    UNKNOWN_TOPIC_ID = "unknown-topic-id"
    TOPIC_EXISTS = "topic-exists"
    TOPIC_IN_USE = "topic-in-use"
    NOT_ARCHIVED = "not-archived"  # The topic gives up no message that no archive has.

    # Storage.
    STORAGE_FULL = "storage-full"
    STORAGE_DAMAGED = "storage-damaged"
    OVERLOADED = "overloaded"  # The memory budget is spent: come back later.
    OVER_QUOTA = "over-quota"  # More is sent to the topic or queue than it may get: come back later.
    NOT_READY = "not-ready"  # Starting, draining or recovering.
    TIMED_OUT = "timed-out"
    FENCED_LEADER_EPOCH = "fenced-leader-epoch"
    UNKNOWN_LEADER_EPOCH = "unknown-leader-epoch"
    NOT_LEADER = "not-leader"
    NOT_COORDINATOR = "not-coordinator"  # The same of a group or a transaction: another node looks after it.
    NOT_CONTROLLER = "not-controller"  # The same of the catalogue.
    NOT_ENOUGH_REPLICAS = "not-enough-replicas"  # Too few hosts are in sync for what is asked to be safe.
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = "not-enough-replicas-after-append"  # The same, but it is there already.
    COMMIT_BACKLOG = "commit-backlog"  # Too much waits for its commit or a checkpoint: come back in a moment.

    # Consumer groups.
    INVALID_GROUP_ID = "invalid-group-id"
    INVALID_SESSION_TIMEOUT = "invalid-session-timeout"
    INCONSISTENT_PROTOCOL = "inconsistent-protocol"
    MEMBER_ID_REQUIRED = "member-id-required"
    UNKNOWN_MEMBER = "unknown-member"
    FENCED_INSTANCE = "fenced-instance"
    ILLEGAL_GENERATION = "illegal-generation"
    FENCED_MEMBER_EPOCH = "fenced-member-epoch"  # The member gives up its partitions and joins again.
    STALE_MEMBER_EPOCH = "stale-member-epoch"  # The member repeats the request with its current epoch.
    UNRELEASED_INSTANCE = "unreleased-instance"  # Another member uses the instance id and has not left.
    UNSUPPORTED_ASSIGNOR = "unsupported-assignor"
    INVALID_REGULAR_EXPRESSION = "invalid-regular-expression"
    REBALANCE_IN_PROGRESS = "rebalance-in-progress"
    GROUP_FULL = "group-full"
    GROUP_NOT_EMPTY = "group-not-empty"
    GROUP_UNKNOWN = "group-unknown"
    GROUP_SUBSCRIBED = "group-subscribed"  # Offsets of a topic that members still read are not deleted.
    OFFSET_METADATA_TOO_LARGE = "offset-metadata-too-large"
    UNSTABLE_OFFSETS = "unstable-offsets"  # Offsets of an open transaction are pending.

    # Queues.
    UNKNOWN_QUEUE = "unknown-queue"
    QUEUE_EXISTS = "queue-exists"  # With other settings.
    QUEUE_DELETED_RECENTLY = "queue-deleted-recently"  # For doors that do not want a name to be used again at once.
    QUEUE_FULL = "queue-full"
    QUEUE_MOVED = "queue-moved"  # Another replication group has it, or will have it in a moment: find it again.
    INVALID_RECEIPT = "invalid-receipt"  # Not one of ours, or of another queue.
    RECEIPT_OF_OTHER_VERSION = "receipt-of-other-version"  # Well formed, but not as this version writes them.
    RECEIPT_SUPERSEDED = "receipt-superseded"  # The message has been given to somebody else since.
    NOT_IN_FLIGHT = "not-in-flight"
    TOO_MANY_IN_FLIGHT = "too-many-in-flight"
    REPEATED_SEND = "repeated-send"
    MOVE_RUNNING = "move-running"
    MOVE_UNKNOWN = "move-unknown"
    PURGE_RUNNING = "purge-running"
    NOT_KEPT = "not-kept"  # The queue does not keep what is settled: there is nothing to go back to.
    UNKNOWN_MESSAGE = "unknown-message"
    MESSAGE_LEASED = "message-leased"  # Somebody works on it: not to be edited or moved now.

    # Sealing.
    KEY_UNKNOWN = "key-unknown"  # No provider has the master key, or the data key of a record was destroyed.
    KEY_DISABLED = "key-disabled"
    KEY_DENIED = "key-denied"
    KEY_INVALID_STATE = "key-invalid-state"  # It is to be deleted, for example.
    KEY_INVALID_USAGE = "key-invalid-usage"  # It is for signing, not for encryption.
    KEY_NOT_SUBSCRIBED = "key-not-subscribed"  # The account has no key service.
    KEY_UNAVAILABLE = "key-unavailable"  # The key service does not answer: come back later.
    SEAL_BROKEN = "seal-broken"  # A record was altered, or is not where it was written.
    SEALED = "sealed"  # What is asked needs clear text, and the broker has none.

    # Exchanges.
    UNKNOWN_EXCHANGE = "unknown-exchange"
    UNKNOWN_VIRTUAL_HOST = "unknown-virtual-host"
    EXCHANGE_IN_USE = "exchange-in-use"  # It has bindings, and is to be deleted only without.
    QUEUE_IN_USE = "queue-in-use"  # It has consumers, or one that wants it for itself.
    QUEUE_NOT_EMPTY = "queue-not-empty"

    # The directory of users, and what they may do.
    ACCESS_REFUSED = "access-refused"  # The client is known, and has no permission.
    UNKNOWN_ENTRY = "unknown-entry"  # There is no tenant, user, access key or token of this name.
    ENTRY_EXISTS = "entry-exists"
    ENTRY_IN_USE = "entry-in-use"  # A tenant that has users is not removed.

    # Producers and transactions.
    OUT_OF_ORDER_SEQUENCE = "out-of-order-sequence"
    DUPLICATE_SEQUENCE = "duplicate-sequence"
    UNKNOWN_PRODUCER = "unknown-producer"
    INVALID_PRODUCER_EPOCH = "invalid-producer-epoch"
    PRODUCER_FENCED = "producer-fenced"
    INVALID_PRODUCER_MAPPING = "invalid-producer-mapping"
    INVALID_TRANSACTION_STATE = "invalid-transaction-state"
    INVALID_TRANSACTION_TIMEOUT = "invalid-transaction-timeout"
    CONCURRENT_TRANSACTIONS = "concurrent-transactions"
    TRANSACTION_UNKNOWN = "transaction-unknown"
    TRANSACTION_ABORTABLE = "transaction-abortable"
    OPERATION_NOT_ATTEMPTED = "operation-not-attempted"


# The master key, or the key service, refuses its use; a repetition does not help.
KEY_REFUSALS: Final = (
    Code.KEY_UNKNOWN,
    Code.KEY_DISABLED,
    Code.KEY_DENIED,
    Code.KEY_INVALID_STATE,
    Code.KEY_INVALID_USAGE,
    Code.KEY_NOT_SUBSCRIBED,
)
# Another node leads, or the replication group has too few replicas at the moment.
GROUP_NOT_READY: Final = (
    Code.NOT_LEADER,
    Code.NOT_COORDINATOR,
    Code.NOT_CONTROLLER,
    Code.NOT_ENOUGH_REPLICAS,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Code.COMMIT_BACKLOG,
    Code.FENCED_LEADER_EPOCH,
    Code.UNKNOWN_LEADER_EPOCH,
)

_RETRIABLE = frozenset(
    {
        Code.CORRUPT_MESSAGE,
        Code.STORAGE_FULL,
        Code.OVERLOADED,
        Code.OVER_QUOTA,
        Code.NOT_READY,
        Code.TIMED_OUT,
        *GROUP_NOT_READY,
        Code.UNKNOWN_TOPIC,
        Code.UNKNOWN_TOPIC_ID,
        Code.REBALANCE_IN_PROGRESS,
        Code.UNSTABLE_OFFSETS,
        Code.CONCURRENT_TRANSACTIONS,
        Code.KEY_UNAVAILABLE,
    }
)


class LonghallError(Exception):
    """A refusal outside the hot paths: a code to act on and a sentence to read."""

    def __init__(self, code: Code, message: str = "") -> None:
        super().__init__(message or code.value)
        self.code = code

    @property
    def retriable(self) -> bool:
        """True if the same request may succeed later, without a change."""
        return self.code in _RETRIABLE
