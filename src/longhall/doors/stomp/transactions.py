"""Transactions of one connection: what SEND, ACK and NACK do in one waits for COMMIT.

BEGIN     a name that is not in use
COMMIT    the messages are appended and the deliveries are ended, in one atomic write
ABORT     the messages are dropped; the deliveries can be ended again
"""

from __future__ import annotations

from typing import Final, final

from longhall.doors.amqp.publish_batches import MESSAGE_OVERHEAD_BYTES
from longhall.doors.amqp.unacknowledged import Unacknowledged
from longhall.doors.stomp.errors import StompError
from longhall.doors.stomp.publisher import SentMessage
from longhall.doors.stomp.wire.frames import StompFrame
from longhall.service.exchange_operations import SETTLE

TRANSACTIONS_MAX: Final = 16
FRAMES_MAX: Final = 1024  # Of one transaction.
TRANSACTION_BYTES_MAX: Final = 32 * 1024 * 1024  # Of all open transactions of a connection.


@final
class StompTransaction:
    """The frames that wait for COMMIT, in the order of arrival."""

    __slots__ = ("ends", "frames", "messages", "size_bytes")

    def __init__(self) -> None:
        self.messages: list[SentMessage] = []
        self.ends: list[tuple[int, list[Unacknowledged]]] = []  # How, and which deliveries.
        self.frames = 0
        self.size_bytes = 0

    def settles(self, number: int) -> bool:
        """True if an earlier ACK of the transaction ends the delivery."""
        return any(how == SETTLE and any(one.number == number for one in ended) for how, ended in self.ends)


@final
class StompTransactions:
    """The open transactions of one connection, by name."""

    def __init__(self) -> None:
        self._open: dict[str, StompTransaction] = {}

    def begin(self, frame: StompFrame) -> None:
        """BEGIN"""
        name = _name(frame)
        if name in self._open:
            raise StompError("Bad transaction", f'Transaction has already begun: "{name}"\n')
        if len(self._open) >= TRANSACTIONS_MAX:
            text = f"A connection has at most {TRANSACTIONS_MAX} transactions\n"
            raise StompError("Transaction limit exceeded", text)
        self._open[name] = StompTransaction()

    def end(self, frame: StompFrame) -> StompTransaction:
        """Remove the transaction of COMMIT or ABORT."""
        transaction = self._find(_name(frame))
        del self._open[frame.headers["transaction"]]
        return transaction

    def of(self, frame: StompFrame) -> StompTransaction | None:
        """The transaction of SEND, ACK or NACK, which counts one more frame; None outside of transactions."""
        name = frame.headers.get("transaction")
        if name is None:
            return None
        transaction = self._find(name)
        size_bytes = len(frame.body) + MESSAGE_OVERHEAD_BYTES
        if transaction.frames >= FRAMES_MAX:
            raise StompError("Bad transaction", f"A transaction has at most {FRAMES_MAX} frames\n")
        if sum(one.size_bytes for one in self._open.values()) + size_bytes > TRANSACTION_BYTES_MAX:
            raise StompError("Bad transaction", f"Transactions have at most {TRANSACTION_BYTES_MAX} bytes\n")
        transaction.frames += 1
        transaction.size_bytes += size_bytes
        return transaction

    def clear(self) -> None:
        """Abort all: the connection is gone."""
        self._open.clear()

    def _find(self, name: str) -> StompTransaction:
        transaction = self._open.get(name)
        if transaction is None:
            raise StompError("Bad transaction", f'Invalid transaction identifier: "{name}"\n')
        return transaction


def _name(frame: StompFrame) -> str:
    name = frame.headers.get("transaction")
    if name is None:
        raise StompError("Missing transaction", f"\"{frame.command}\" must include a 'transaction' header\n")
    return name
