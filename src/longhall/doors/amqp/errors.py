"""The errors of AMQP: reply codes with their names, what each closes, and the one table from our refusals to them."""

from __future__ import annotations

from typing import Final, final

from longhall.directory.access_rules import AccessAction, Kind
from longhall.errors import KEY_REFUSALS, Code, LonghallError
from longhall.exchanges.names import names_of
from longhall.front.permissions import AccessRefused

REPLY_SUCCESS: Final = 200
NO_ROUTE: Final = 312
NO_CONSUMERS: Final = 313
CONNECTION_FORCED: Final = 320
INVALID_PATH: Final = 402
ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404
RESOURCE_LOCKED: Final = 405
PRECONDITION_FAILED: Final = 406
FRAME_ERROR: Final = 501
SYNTAX_ERROR: Final = 502
COMMAND_INVALID: Final = 503
CHANNEL_ERROR: Final = 504
UNEXPECTED_FRAME: Final = 505
RESOURCE_ERROR: Final = 506
NOT_ALLOWED: Final = 530
NOT_IMPLEMENTED: Final = 540
INTERNAL_ERROR: Final = 541

NAMES: Final = {
    CONNECTION_FORCED: "CONNECTION_FORCED",
    INVALID_PATH: "INVALID_PATH",
    ACCESS_REFUSED: "ACCESS_REFUSED",
    NOT_FOUND: "NOT_FOUND",
    RESOURCE_LOCKED: "RESOURCE_LOCKED",
    PRECONDITION_FAILED: "PRECONDITION_FAILED",
    FRAME_ERROR: "FRAME_ERROR",
    SYNTAX_ERROR: "SYNTAX_ERROR",
    COMMAND_INVALID: "COMMAND_INVALID",
    CHANNEL_ERROR: "CHANNEL_ERROR",
    UNEXPECTED_FRAME: "UNEXPECTED_FRAME",
    RESOURCE_ERROR: "RESOURCE_ERROR",
    NOT_ALLOWED: "NOT_ALLOWED",
    NOT_IMPLEMENTED: "NOT_IMPLEMENTED",
    INTERNAL_ERROR: "INTERNAL_ERROR",
}
CLOSES_CHANNEL: Final = frozenset({ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED})
TEXT_BYTES_MAX: Final = 255

_BY_REPLY: Final = {
    NOT_FOUND: (
        Code.UNKNOWN_TOPIC,
        Code.UNKNOWN_TOPIC_ID,
        Code.UNKNOWN_QUEUE,
        Code.UNKNOWN_EXCHANGE,
        Code.UNKNOWN_MESSAGE,
        Code.MOVE_UNKNOWN,
        Code.GROUP_UNKNOWN,
    ),
    NOT_ALLOWED: (Code.UNKNOWN_VIRTUAL_HOST,),
    ACCESS_REFUSED: (
        Code.QUEUE_IN_USE,
        Code.ACCESS_REFUSED,
        *KEY_REFUSALS,
    ),
    PRECONDITION_FAILED: (
        Code.SEALED,
        Code.INVALID_REQUEST,
        Code.INVALID_NAME,
        Code.INVALID_CONFIGURATION,
        Code.INVALID_PARTITION_COUNT,
        Code.INVALID_REPLICATION,
        Code.INVALID_TIMESTAMP,
        Code.MESSAGE_TOO_LARGE,
        Code.TOPIC_EXISTS,
        Code.TOPIC_IN_USE,
        Code.NOT_ARCHIVED,
        Code.QUEUE_EXISTS,
        Code.QUEUE_DELETED_RECENTLY,
        Code.QUEUE_FULL,
        Code.QUEUE_NOT_EMPTY,
        Code.EXCHANGE_IN_USE,
        Code.UNKNOWN_ENTRY,
        Code.ENTRY_EXISTS,
        Code.ENTRY_IN_USE,
        Code.INVALID_RECEIPT,
        Code.RECEIPT_OF_OTHER_VERSION,
        Code.RECEIPT_SUPERSEDED,
        Code.NOT_IN_FLIGHT,
        Code.REPEATED_SEND,
        Code.MOVE_RUNNING,
        Code.PURGE_RUNNING,
        Code.NOT_KEPT,
        Code.MESSAGE_LEASED,
        Code.KEY_REQUIRED,
    ),
    RESOURCE_ERROR: (
        Code.KEY_UNAVAILABLE,
        Code.OVERLOADED,
        Code.OVER_QUOTA,
        Code.STORAGE_FULL,
        Code.TOO_MANY_IN_FLIGHT,
        Code.COMMIT_BACKLOG,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ),
    # Another leader will be found: the client connects again.
    CONNECTION_FORCED: (
        Code.NOT_READY,
        Code.QUEUE_MOVED,
        Code.TIMED_OUT,
        Code.NOT_LEADER,
        Code.NOT_COORDINATOR,
        Code.NOT_CONTROLLER,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
    ),
}

# Everything else does not occur at this door.
REPLY_OF: Final[dict[Code, int]] = {
    **dict.fromkeys(Code, INTERNAL_ERROR),
    **{code: reply for reply, codes in _BY_REPLY.items() for code in codes},
}


@final
class AmqpError(Exception):
    """An error that closes a channel or the connection, with the method that caused it if there is one."""

    def __init__(self, reply: int, text: str, method: int = 0) -> None:
        super().__init__(text)
        self.reply = reply
        self.text = f"{NAMES[reply]} - {text}"
        self.method = method

    @property
    def closes_channel(self) -> bool:
        """True if it closes only the channel."""
        return self.reply in CLOSES_CHANNEL

    @property
    def short_text(self) -> str:
        """The text within the bound of a short string."""
        return self.text.encode()[:TEXT_BYTES_MAX].decode(errors="ignore")


def error_of(error: LonghallError) -> AmqpError:
    """A refusal as an error of this door."""
    if isinstance(error, AccessRefused):
        return AmqpError(ACCESS_REFUSED, access_text(error))
    return AmqpError(REPLY_OF[error.code], str(error))


def access_text(error: AccessRefused) -> str:
    """A missing permission as RabbitMQ words it: it knows three, and says the same of what does not exist."""
    word = _PERMISSIONS.get(error.need.action, "configure")
    host, name = names_of(error.need.name)
    if error.need.kind is Kind.EXCHANGE:
        return f"{word} access to exchange '{name}' in vhost '{host}' refused for user '{error.user}'"
    return f"{word} access to {queue_text(name, host)} refused for user '{error.user}'"


_PERMISSIONS: Final = {AccessAction.READ: "read", AccessAction.WRITE: "write", AccessAction.DESCRIBE: "read"}


def precondition(text: str) -> AmqpError:
    """406."""
    return AmqpError(PRECONDITION_FAILED, text)


def queue_text(name: str, host: str) -> str:
    """A queue as RabbitMQ names it in errors."""
    return f"queue '{name}' in vhost '{host}'"


def exchange_text(name: str, host: str) -> str:
    """The same for an exchange."""
    return f"exchange '{name}' in vhost '{host}'"
