"""A producer of many records: batched, compressed, in order, each exactly once as far as the hall can tell.

    send ----> backlog of its partition ----> one batch in flight ----> acknowledged, or failed for good

A batch without a response is sent again with the same sequence numbers, so that the hall recognises it. If the timeout
ends without a response, the outcome is unknown: its records fail, and the producer continues under a new identity,
because the sequence of the old one may have a gap. Within a transaction such a failure leaves only abort.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, final

from longhall.client.backlog import Backlog, Sent, Waiting, size_of
from longhall.client.groups import Committed, Membership, Place
from longhall.client.records import Placed
from longhall.client.refusals import Refused, Unreachable
from longhall.client.transactions import TIMEOUT_MS, Identity
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.errors import Code, LonghallError
from longhall.records.batch import Record, build_batch
from longhall.records.compression import NONE
from longhall.records.partitioner import partition_for
from longhall.records.record import Headers
from longhall.world.ports import Clock

if TYPE_CHECKING:
    from longhall.client.hall import Hall

_NOBODY: Final = Identity(-1, -1)
RISING_FEATURE: Final = "transaction.version"
RISING_LEVEL: Final = 2  # From this level on the epoch rises with each transaction, and writing is joining.


class Options(NamedTuple):
    """The settings of a producer. Sizes are of records before compression."""

    acks: int = -1
    linger_ms: int = 5
    batch_bytes_max: int = 512 * 1024
    buffer_bytes_max: int = 32 * 1024 * 1024
    compression: int = NONE
    idempotent: bool = True
    transactional_id: str | None = None
    transaction_timeout_ms: int = TIMEOUT_MS
    delivery_timeout_ms: int = 120_000
    create_topics: bool = True
    first_partition: int = 0  # Where records without a key begin, modulo the number of partitions.


@final
class Producer:
    """A producer for one loop. Close it to be sure that everything was sent."""

    def __init__(self, hall: Hall, clock: Clock, options: Options | None = None) -> None:
        self._hall = hall
        self._clock = clock
        self._options = options or Options()
        self._backlogs: dict[Place, Backlog] = {}
        self._next_partition: dict[str, int] = {}
        self._buffered_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._identity: Identity | None = None
        self._identifying = asyncio.Lock()
        self._open = False  # A transaction.
        self._joined: set[Place] = set()
        self._touched = False  # The transaction has something in it.
        self._failure: LonghallError | None = None  # Aborting makes it good.
        self._fenced: LonghallError | None = None  # Nothing makes it good: another producer holds the id.
        self._rising = False

    # Sending.

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[Sent]:
        """Wait until there is room, and return a future with the place of the record."""
        self._check_fenced()
        if self._options.transactional_id is not None and not self._open:
            raise LonghallError(Code.INVALID_TRANSACTION_STATE, "Begin a transaction before sending.")
        if self._failure is not None:
            raise LonghallError(Code.TRANSACTION_ABORTABLE, f"Abort this transaction first: {self._failure}")
        if partition is None:
            partition = await self._choose(topic, key)
        record = Record(-1, self._clock.wall_ms() if timestamp_ms is None else timestamp_ms, key, value, headers)
        size = size_of(record)
        while self._buffered_bytes and self._buffered_bytes + size > self._options.buffer_bytes_max:
            self._room.clear()
            await self._room.wait()
        sent: asyncio.Future[Sent] = asyncio.get_running_loop().create_future()
        sent.add_done_callback(_seen)
        self._put((topic, partition), Waiting(record, sent, size))
        return sent

    async def _choose(self, topic: str, key: bytes | None) -> int:
        create = self._options.create_topics
        described = await self._hall.persist(lambda: self._hall.topic(topic, create=create))
        count = len(described.partitions)
        if key is not None:
            return partition_for(key, count)
        return self._next_partition.setdefault(topic, self._options.first_partition) % count

    def _put(self, place: Place, waiting: Waiting) -> None:
        backlog = self._backlogs.get(place)
        if backlog is None:
            backlog = self._backlogs[place] = Backlog(place)
        backlog.put(waiting)
        self._buffered_bytes += waiting.size_bytes
        if backlog.sender is not None:
            return  # It takes what has come in as soon as its batch is acknowledged.
        if backlog.waiting_bytes >= self._options.batch_bytes_max or self._options.linger_ms == 0:
            self._start(backlog)
        elif backlog.timer is None:
            loop = asyncio.get_running_loop()
            backlog.timer = loop.call_later(self._options.linger_ms / 1000, self._start, backlog)

    def _start(self, backlog: Backlog) -> None:
        if backlog.timer is not None:
            backlog.timer.cancel()
            backlog.timer = None
        if backlog.sender is None and backlog.waiting:
            backlog.sender = asyncio.get_running_loop().create_task(self._drain(backlog))

    async def _drain(self, backlog: Backlog) -> None:
        try:
            while backlog.waiting:
                batch = backlog.take(self._options.batch_bytes_max)
                # Records without a key go on to the next partition batch by batch.
                self._next_partition[backlog.place[0]] = backlog.place[1] + 1
                await self._deliver(backlog, batch)
                self._buffered_bytes -= sum(each.size_bytes for each in batch)
                self._room.set()
        finally:
            backlog.sender = None

    async def _deliver(self, backlog: Backlog, batch: list[Waiting]) -> None:
        try:
            self._check_fenced()
            if self._failure is not None:
                raise self._failure
            placed = await self._place(backlog, [each.record for each in batch])
        except LonghallError as failure:
            self._give_up(failure)
            _fail(batch, failure)
            return
        except asyncio.CancelledError:
            _fail(batch, Unreachable("The producer was stopped before the record was acknowledged."))
            raise
        for index, each in enumerate(batch):
            if not each.sent.done():
                offset = placed.base_offset + index if placed.base_offset >= 0 else -1
                each.sent.set_result(Sent(backlog.place[0], backlog.place[1], offset))

    async def _place(self, backlog: Backlog, records: list[Record]) -> Placed:
        topic, partition = backlog.place
        transactional_id = self._options.transactional_id
        identity = await self._identify() if self._options.idempotent or transactional_id else _NOBODY
        if transactional_id is not None and not self._rising and backlog.place not in self._joined:
            await self._hall.transactions.add_partitions(transactional_id, identity, [backlog.place])
            self._joined.add(backlog.place)
        self._touched = True
        sequence = backlog.sequence(identity) if identity is not _NOBODY else -1
        batch = build_batch(
            records,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
            compression=self._options.compression,
            transactional=transactional_id is not None,
        )
        try:
            placed = await self._hall.persist(
                lambda: self._hall.records.produce(
                    topic,
                    partition,
                    batch,
                    acks=self._options.acks,
                    transactional_id=transactional_id,
                    joins_by_writing=self._rising,
                    create=self._options.create_topics,
                ),
                patience_ms=self._options.delivery_timeout_ms,
            )
        except Refused as refusal:
            if refusal.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                raise
            placed = Placed(-1, -1, -1)  # It is there, from a try whose answer was lost; the hall forgot where.
        backlog.advance(len(records))
        return placed

    async def _identify(self) -> Identity:
        async with self._identifying:
            if self._identity is None:
                options = self._options
                self._identity = await self._hall.transactions.identify(
                    options.transactional_id, options.transaction_timeout_ms
                )
            return self._identity

    def _give_up(self, failure: LonghallError) -> None:
        if failure.code is Code.PRODUCER_FENCED:
            self._fenced = failure
        elif self._options.transactional_id is None:
            self._identity = None
        else:
            self._failure = failure

    def _check_fenced(self) -> None:
        if self._fenced is not None:
            raise self._fenced

    async def flush(self) -> None:
        """Wait until everything that was sent so far is acknowledged or has failed."""
        for backlog in self._backlogs.values():
            self._start(backlog)
        while senders := [backlog.sender for backlog in self._backlogs.values() if backlog.sender is not None]:
            await asyncio.wait(senders)
            for backlog in self._backlogs.values():
                self._start(backlog)

    async def close(self) -> None:
        """Send what is left. An open transaction is aborted."""
        await self.flush()
        if self._open and self._fenced is None:
            await self.abort()

    # Transactions.

    async def begin(self) -> None:
        """Start a transaction; the first one fences an earlier holder of the transactional id."""
        assert self._options.transactional_id is not None, "a transactional producer needs a transactional id"
        self._check_fenced()
        if self._open:
            raise LonghallError(Code.INVALID_TRANSACTION_STATE, "A transaction is open already.")
        await self._identify()
        connection = await self._hall.connection()
        self._rising = connection.features.get(RISING_FEATURE, 0) >= RISING_LEVEL
        self._open, self._touched, self._failure = True, False, None
        self._joined.clear()

    async def send_offsets(
        self, group_id: str, offsets: dict[Place, Committed], membership: Membership | None = None
    ) -> None:
        """Make a group's offsets part of the transaction."""
        transactional_id, identity = self._current()
        if not self._rising:
            await self._hall.transactions.add_offsets(transactional_id, identity, group_id)
        self._touched = True
        await self._hall.transactions.commit_offsets(
            transactional_id, identity, group_id, offsets, membership or Membership(), rising=self._rising
        )

    async def commit(self) -> None:
        """Commit the transaction. After an error only `abort` is possible."""
        await self.flush()
        self._check_fenced()
        if self._failure is not None:
            raise LonghallError(Code.TRANSACTION_ABORTABLE, f"Abort this transaction: {self._failure}")
        transactional_id, identity = self._current()
        if self._touched:
            try:
                self._identity = await self._hall.transactions.end(
                    transactional_id, identity, commit=True, rising=self._rising
                )
            except LonghallError as failure:
                self._give_up(failure)
                raise
        self._open = False

    async def abort(self) -> None:
        """Abort the transaction."""
        await self.flush()
        self._check_fenced()
        transactional_id, identity = self._current()
        transactions = self._hall.transactions
        try:
            if self._failure is not None:
                # How far the hall came is not known. A new epoch ends the transaction and starts the sequences afresh.
                timeout_ms = self._options.transaction_timeout_ms
                self._identity = await transactions.identify(transactional_id, timeout_ms, identity)
            elif self._touched:
                self._identity = await transactions.end(transactional_id, identity, commit=False, rising=self._rising)
        except LonghallError as failure:
            self._give_up(failure)
            raise
        self._open = False
        self._failure = None

    def _current(self) -> tuple[str, Identity]:
        if not self._open or self._options.transactional_id is None or self._identity is None:
            raise LonghallError(Code.INVALID_TRANSACTION_STATE, "No transaction is open.")
        return self._options.transactional_id, self._identity


def _fail(batch: list[Waiting], failure: LonghallError) -> None:
    for each in batch:
        if not each.sent.done():
            each.sent.set_exception(failure)


def _seen(sent: asyncio.Future[Sent]) -> None:
    """Retrieve the exception of a result that is not awaited, so that the loop does not log it."""
    if not sent.cancelled():
        sent.exception()
