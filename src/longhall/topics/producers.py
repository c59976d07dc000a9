"""The producers of one partition and its open transactions.

One table per partition. `decide` reads, `apply` alone mutates, and replaying the batch headers of the log through
`apply` rebuilds the table. It knows neither the log nor the coordinator; the broker asks the coordinator when
`needs_verification` says so.

A partition without any idempotent batch needs no table: the broker creates it at first use.
"""

from __future__ import annotations

from array import array
from typing import Any, Final, final

from longhall.errors import Code
from longhall.records.batch import BatchHeader

NO_PRODUCER: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1

# A client keeps at most five requests in flight, so a retry is never older than this.
BATCHES_KEPT: Final = 5

# Beyond this the producers idle for longest are removed, an eighth at once, so that a flood of ids stays bounded.
PRODUCERS_MAX: Final = 16_384

# Ended transactions that are listed separately until their marker is committed.
ENDING_MAX: Final = 64

_FIELDS_PER_BATCH: Final = 4  # base sequence, last sequence, base offset, timestamp
_FIELDS_PER_ABORT: Final = 4  # producer id, first offset, last offset, last stable offset


@final
class Duplicate:
    """The batch is in the log already: the answer repeats that of the first request."""

    def __init__(self, base_offset: int, timestamp_ms: int) -> None:
        self.base_offset = base_offset
        self.timestamp_ms = timestamp_ms


@final
class ActiveProducer:
    """One row of DescribeProducers."""

    def __init__(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        last_timestamp_ms: int,
        coordinator_epoch: int,
        transaction_start_offset: int,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_sequence = last_sequence
        self.last_timestamp_ms = last_timestamp_ms
        self.coordinator_epoch = coordinator_epoch
        self.transaction_start_offset = transaction_start_offset


@final
class _Producer:
    """The state of one producer id. `batches` is flat: four numbers per batch, oldest first."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[int] = []
        self.last_offset = NO_OFFSET
        self.last_timestamp_ms = -1
        self.transaction_start_offset = NO_OFFSET
        self.coordinator_epoch = -1
        self.touched_ms = 0  # Not durable: when this process last saw it, so that old timestamps cause no early expiry.
        self.marker_count = 0  # Not durable: the markers that this process has applied,
        self.request_number = -1  # and the number of the coordinator's last request for one.

    def last_sequence(self) -> int:
        return self.batches[-3] if self.batches else NO_SEQUENCE

    def duplicate_of(self, base_sequence: int, last_sequence: int) -> Duplicate | None:
        batches = self.batches
        at = len(batches) - _FIELDS_PER_BATCH
        while at >= 0:
            if batches[at] == base_sequence and batches[at + 1] == last_sequence:
                return Duplicate(batches[at + 2], batches[at + 3])
            at -= _FIELDS_PER_BATCH
        return None


@final
class ProducerTable:
    """Sequences, epochs, open transactions and aborted ranges of one partition."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        # Producer id to first offset. Offsets only grow, so the insertion order is the order of offsets.
        self._open: dict[int, int] = {}
        # First offset and marker offset of ended transactions whose marker may not be committed yet. Not durable:
        # everything in a recovered or restored table is committed.
        self._ending: list[tuple[int, int]] = []
        self._aborted: array[int] = array("q")
        self._start_offset = 0
        self._markers_forgotten = 0  # Of producers that were removed.

    def __len__(self) -> int:
        return len(self._producers)

    # Deciding

    def decide(self, header: BatchHeader) -> Code | Duplicate | None:
        """None: append the batch. A Duplicate: answer with that and append nothing. A Code: refuse."""
        producer_id = header.producer_id
        if header.is_control:
            return Code.INVALID_REQUEST  # Only the broker writes markers.
        if producer_id < 0:
            return Code.INVALID_REQUEST if header.is_transactional else None
        sequence = header.base_sequence
        if sequence < 0 or header.producer_epoch < 0:
            return Code.INVALID_REQUEST
        producer = self._producers.get(producer_id)
        if producer is None:
            # Its state may have expired or been truncated with the log, so any sequence may be the next one.
            return None
        if header.producer_epoch < producer.epoch:
            return Code.INVALID_PRODUCER_EPOCH
        if header.producer_epoch > producer.epoch:
            if sequence != 0:
                return Code.OUT_OF_ORDER_SEQUENCE
        else:
            last = producer.last_sequence()
            if sequence != (0 if last == SEQUENCE_MAX else last + 1):
                duplicate = producer.duplicate_of(sequence, header.last_sequence)
                return Code.OUT_OF_ORDER_SEQUENCE if duplicate is None else duplicate
        if producer.transaction_start_offset >= 0 and not header.is_transactional:
            return Code.INVALID_TRANSACTION_STATE
        return None

    def needs_verification(self, header: BatchHeader) -> bool:
        """True if the coordinator must first confirm that this partition is part of the ongoing transaction.

        A marker may overtake the answer of another process: see `verification_guard`.
        """
        if not header.is_transactional:
            return False
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return True
        return producer.transaction_start_offset < 0 or producer.epoch != header.producer_epoch

    def verification_guard(self, producer_id: int) -> int:
        """A number that rises with every marker of the producer. The caller reads it before it asks the coordinator;
        the answer is void if the number has risen meanwhile, because the transaction that it is about may have ended.
        """
        producer = self._producers.get(producer_id)
        return self._markers_forgotten + (producer.marker_count if producer is not None else 0)

    def decide_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, request_number: int = -1
    ) -> Code | None:
        """Why a coordinator may not end a transaction here; None if it may. A repeat for one that is not open is
        harmless.

        Coordinators in other processes number their requests: NOT_LEADER for one that a later request of the same
        coordinator has overtaken, because it could end the next transaction of the producer.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if producer_epoch < producer.epoch:
            return Code.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < producer.coordinator_epoch:
            return Code.NOT_LEADER
        if 0 <= request_number <= producer.request_number and coordinator_epoch == producer.coordinator_epoch:
            return Code.NOT_LEADER
        return None

    # Applying

    def note_request(self, producer_id: int, request_number: int) -> None:
        """Note the number of the request whose marker was just applied."""
        producer = self._producers.get(producer_id)
        if producer is not None:
            producer.request_number = request_number

    def apply(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Apply an ordinary batch appended at `base_offset`. `now_ms` has no durable effect."""
        if header.producer_id < 0 or header.is_control:
            return
        producer = self._producer(header.producer_id, header.producer_epoch)
        batches = producer.batches
        if len(batches) >= BATCHES_KEPT * _FIELDS_PER_BATCH:
            del batches[:_FIELDS_PER_BATCH]
        batches.append(header.base_sequence)
        batches.append(header.last_sequence)
        batches.append(base_offset)
        batches.append(header.max_timestamp_ms)
        producer.last_offset = base_offset + header.last_offset_delta
        producer.last_timestamp_ms = header.max_timestamp_ms
        producer.touched_ms = now_ms
        if header.is_transactional and producer.transaction_start_offset < 0:
            producer.transaction_start_offset = base_offset
            self._open[header.producer_id] = base_offset

    def apply_marker(
        self, header: BatchHeader, base_offset: int, committed: bool, coordinator_epoch: int, now_ms: int
    ) -> None:
        """Apply a marker appended at `base_offset`: it ends the producer's transaction, if one is open here."""
        producer_id = header.producer_id
        producer = self._producer(producer_id, header.producer_epoch)
        producer.marker_count += 1
        first_offset = producer.transaction_start_offset
        producer.transaction_start_offset = NO_OFFSET
        producer.coordinator_epoch = coordinator_epoch
        producer.last_offset = base_offset
        producer.last_timestamp_ms = header.max_timestamp_ms
        producer.touched_ms = now_ms
        if first_offset < 0:
            return
        del self._open[producer_id]
        self._ending.append((first_offset, base_offset))
        if len(self._ending) > ENDING_MAX:
            # The last stable offset was not requested in a while; one range over all of them is safe, only coarser.
            self._ending = [(min(ending[0] for ending in self._ending), base_offset)]
        if not committed:
            stable = self._first_open()
            if stable < 0:
                stable = base_offset + 1
            self._aborted.extend((producer_id, first_offset, base_offset, stable))

    def _producer(self, producer_id: int, epoch: int) -> _Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            if len(self._producers) >= PRODUCERS_MAX:
                self._remove_idlest()
            producer = _Producer(epoch)
            self._producers[producer_id] = producer
        elif producer.epoch != epoch:
            # Sequences start again with every epoch.
            producer.epoch = epoch
            producer.batches.clear()
        return producer

    def _remove_idlest(self) -> None:
        """Remove the producers whose last write is oldest. It depends on offsets alone, so a replay removes the same
        ones.
        """
        idle = [
            (producer.last_offset, producer_id)
            for producer_id, producer in self._producers.items()
            if producer.transaction_start_offset < 0
        ]
        idle.sort()
        for _, producer_id in idle[: PRODUCERS_MAX // 8]:
            self._markers_forgotten += self._producers.pop(producer_id).marker_count

    # Reading

    def _first_open(self) -> int:
        for first_offset in self._open.values():
            return first_offset
        return NO_OFFSET

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None when none is open."""
        first_offset = self._first_open()
        return None if first_offset < 0 else max(first_offset, self._start_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset up to which every transaction has ended with a marker below the high watermark."""
        stable = high_watermark
        first_offset = self._first_open()
        if 0 <= first_offset < stable:
            stable = first_offset
        if self._ending:
            self._ending = [ending for ending in self._ending if ending[1] >= high_watermark]
            for ending in self._ending:
                if ending[0] < stable:
                    stable = ending[0]
        return max(stable, self._start_offset)

    def aborted_between(self, fetch_offset: int, upper_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of each aborted transaction that a reader of this range must skip."""
        aborted = self._aborted
        at = self._first_abort_ending_at(fetch_offset) * _FIELDS_PER_ABORT
        found: list[tuple[int, int]] = []
        while at < len(aborted):
            if aborted[at + 1] < upper_offset:
                found.append((aborted[at], aborted[at + 1]))
            if aborted[at + 3] >= upper_offset:
                break  # All that ended later began at or after this stable offset.
            at += _FIELDS_PER_ABORT
        found.sort(key=_first_offset_of)
        return found

    def aborted_ranges(self) -> list[tuple[int, int, int]]:
        """Producer id, first offset and marker offset of every aborted transaction in the table."""
        aborted = self._aborted
        return [(aborted[at], aborted[at + 1], aborted[at + 2]) for at in range(0, len(aborted), _FIELDS_PER_ABORT)]

    def _first_abort_ending_at(self, offset: int) -> int:
        """The index of the first aborted range whose marker is at or after `offset`; they are in marker order."""
        low = 0
        high = len(self._aborted) // _FIELDS_PER_ABORT
        while low < high:
            middle = (low + high) // 2
            if self._aborted[middle * _FIELDS_PER_ABORT + 2] < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def active(self) -> list[ActiveProducer]:
        """All producers of the table, as DescribeProducers returns them."""
        return [
            ActiveProducer(
                producer_id,
                producer.epoch,
                producer.last_sequence(),
                producer.last_timestamp_ms,
                producer.coordinator_epoch,
                producer.transaction_start_offset,
            )
            for producer_id, producer in self._producers.items()
        ]

    # Expiry

    def expire(self, now_ms: int, idle_ms: int) -> int:
        """Remove producers that were idle for `idle_ms` and have no open transaction; returns how many."""
        gone = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.transaction_start_offset < 0 and now_ms - producer.touched_ms >= idle_ms
        ]
        for producer_id in gone:
            self._markers_forgotten += self._producers.pop(producer_id).marker_count
        return len(gone)

    def truncate_to(self, start_offset: int) -> None:
        """Note the log's new start. Producers stay, so that their retries are recognised; ended ranges below are
        removed.
        """
        if start_offset <= self._start_offset:
            return
        self._start_offset = start_offset
        cut = self._first_abort_ending_at(start_offset)
        del self._aborted[: cut * _FIELDS_PER_ABORT]

    # Snapshots

    def rows_since(self, offset: int) -> list[list[Any]]:
        """The producers that wrote at or after this offset, by their ids."""
        rows = [_row_of(number, one) for number, one in self._producers.items() if one.last_offset >= offset]
        rows.sort(key=_first_of)
        return rows

    def snapshot(self) -> dict[str, Any]:
        """The table as builtins, for `restore`."""
        return {
            "start": self._start_offset,
            "aborted": self._aborted.tolist(),
            "producers": [_row_of(number, producer) for number, producer in self._producers.items()],
        }

    def restore(self, state: dict[str, Any], now_ms: int) -> None:
        """Restore the result of `snapshot`. The idle time of every producer begins now."""
        self._start_offset = int(state["start"])
        self._aborted = array("q", [int(number) for number in state["aborted"]])
        self._ending = []
        self._producers = {}
        opened: list[tuple[int, int]] = []
        for row in state["producers"]:
            producer = _Producer(int(row[1]))
            producer.last_offset = int(row[2])
            producer.last_timestamp_ms = int(row[3])
            producer.transaction_start_offset = int(row[4])
            producer.coordinator_epoch = int(row[5])
            producer.batches = [int(number) for number in row[6]]
            producer.touched_ms = now_ms
            self._producers[int(row[0])] = producer
            if producer.transaction_start_offset >= 0:
                opened.append((producer.transaction_start_offset, int(row[0])))
        opened.sort()
        self._open = {producer_id: first_offset for first_offset, producer_id in opened}


def _row_of(producer_id: int, producer: _Producer) -> list[Any]:
    return [
        producer_id,
        producer.epoch,
        producer.last_offset,
        producer.last_timestamp_ms,
        producer.transaction_start_offset,
        producer.coordinator_epoch,
        list(producer.batches),
    ]


def _first_of(row: list[Any]) -> int:
    return int(row[0])


def _first_offset_of(aborted: tuple[int, int]) -> int:
    return aborted[1]
