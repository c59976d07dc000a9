"""The usage meter of a leader: it counts what the entries of the log used, and notes it in the log beside them.

    count    an operation has appended its entries: its usage is added to plain counters
    note     before the frame of these entries is closed, the counters are appended to it as one entry, and are zero

So an acknowledged operation and its usage survive together, or, if neither was acknowledged, neither may: the frame is
atomic on every disk. One note serves all operations of a turn of the loop. An operation must be counted in the turn
that appended its entries, after them, and inside its atomic write if it has one.

Whom an operation is counted for is `ACCOUNT`, which the service sets around each operation, and which tasks that the
operation starts inherit. Work of Longhall itself has no account, and is not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, final

import msgspec

from longhall.broker.usage.usage_events import Row, UsageEvent, UsageNoted
from longhall.broker.usage.usage_totals import (
    BYTES_DELIVERED,
    BYTES_SENT,
    MESSAGES_DELIVERED,
    MESSAGES_SENT,
    MESSAGES_SETTLED,
    METERS,
    STORAGE,
    Key,
    UsageTotals,
)
from longhall.errors import LonghallError
from longhall.log.notes import NOTE_BYTES_MIN, Notes
from longhall.log.wal import Wal
from longhall.names import USAGE_SHARD
from longhall.shards.journal import Journal
from longhall.shards.shard import USAGE, Shard

Account = tuple[str, str, str]  # Tenant, user and door.

ACCOUNT: Final[ContextVar[Account | None]] = ContextVar("account", default=None)

_encode: Final = msgspec.msgpack.Encoder().encode


@final
class UsageMeter(Notes):
    """Counts on behalf of one hall; only a leader has entries to count."""

    def __init__(
        self,
        totals: UsageTotals,
        journal: Journal,
        kick: Callable[[], None],
        now_ms: Callable[[], int],
        may_note: Callable[[], bool],
    ) -> None:
        """`may_note` is False while some node of the cluster cannot read notes."""
        self.totals = totals
        self.noted = 0  # Notes since the start.
        self._rows: dict[Key, list[int]] = {}
        self._journal = journal
        self._wal: Wal = journal.wal
        self._shard: Shard = journal.shards[USAGE_SHARD]
        self._kick = kick
        self._now_ms = now_ms
        self._may_note = may_note

    def connect(self) -> None:
        """Let the log ask for notes from now on."""
        self._wal.notes = self
        self._journal.notes = self
        for shard in self._journal.shards:
            shard.notes = self

    # Counting

    def sent(self, resource: str, messages: int, size_bytes: int) -> None:
        """Messages of the current account were appended."""
        account = ACCOUNT.get()
        if account is not None:
            self._add(account, resource, MESSAGES_SENT, messages, BYTES_SENT, size_bytes)

    def sent_by(self, account: Account | None, resource: str, messages: int, size_bytes: int) -> None:
        """The same for an account that was known earlier than the append."""
        if account is not None:
            self._add(account, resource, MESSAGES_SENT, messages, BYTES_SENT, size_bytes)

    def delivered(self, resource: str, messages: int, size_bytes: int) -> None:
        """Messages were leased to the current account."""
        account = ACCOUNT.get()
        if account is not None:
            self._add(account, resource, MESSAGES_DELIVERED, messages, BYTES_DELIVERED, size_bytes)

    def pushed(self, account: Account | None, resource: str, messages: int, size_bytes: int) -> None:
        """Messages were leased earlier, and are pushed to a consumer of this account now. Negative numbers take back
        what the account did not get.
        """
        if account is not None:
            self._add(account, resource, MESSAGES_DELIVERED, messages, BYTES_DELIVERED, size_bytes)
            self._kick()  # This turn may have no other entry.

    def settled(self, resource: str, messages: int) -> None:
        """The current account has settled messages."""
        account = ACCOUNT.get()
        if account is not None:
            self._add(account, resource, MESSAGES_SETTLED, messages, MESSAGES_SETTLED, 0)

    def stored(self, tenant: str, resource: str, byte_seconds: int) -> None:
        """A topic had messages of a tenant. The caller lets the log be written."""
        self._add((tenant, "", ""), resource, STORAGE, byte_seconds, STORAGE, 0)

    def _add(self, account: Account, resource: str, meter: int, count: int, other: int, size: int) -> None:
        key = (account[0], account[1], account[2], resource)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = [0] * len(METERS)
        row[meter] += count
        row[other] += size
        if self._wal.open_bytes >= NOTE_BYTES_MIN:
            self.write()

    # Notes

    def is_due(self) -> bool:
        return len(self._rows) > 0 and self._wal.open_bytes >= NOTE_BYTES_MIN

    def write(self) -> None:
        if not self._rows:
            return
        counted, self._rows = self._rows, {}
        if not self._may_note():
            return
        rows: list[Row] = [(key[0], key[1], key[2], key[3], row) for key, row in counted.items()]
        try:
            self.append(UsageNoted(at_ms=self._now_ms(), rows=rows), False)
        except LonghallError:
            return  # This node leads no more: what it has not noted is not committed, and its hall is discarded.
        self.noted += 1

    def append(self, event: UsageEvent, sync: bool) -> None:
        """Append an event to the open frame, and apply it."""
        extends = not self._wal.is_held
        if extends:
            self._wal.extend()
        try:
            self._shard.append_event(USAGE, _encode(event))
        finally:
            if extends:
                self._wal.let_go()
        self._journal.touch(self._shard, sync)
        self.totals.apply(event)


@final
class Usage:
    """The usage of a hall: the state, and the meter if usage is counted."""

    def __init__(self) -> None:
        self.totals = UsageTotals()
        self.meter: UsageMeter | None = None
