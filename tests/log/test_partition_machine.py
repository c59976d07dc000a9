"""The log of one partition as a state machine, compared with a list of its batches."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from longhall.errors import Code
from longhall.log.layout import segment_path
from longhall.records.batch import BatchHeader, parse_header
from tests.examples import examples
from tests.log.partitiondesk import (
    PARTITION,
    append,
    batch_at,
    bytes_of,
    new_host,
    open_log,
    read,
)


class PartitionMachine(RuleBasedStateMachine):
    """Random operations, each compared with a list of the expected batches."""

    def __init__(self) -> None:
        super().__init__()
        self.host = new_host()
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.entries: list[tuple[bytes, int, int]] = []  # Entries of the write-ahead log since the last snapshot.
        self.trimmed: list[tuple[int, int]] = []  # Number of entries before the trim, and its offset; -1: a close.
        self.now_ms = 0

    @initialize()
    def begin(self) -> None:
        self.log = open_log(self.host)
        self.saved = self.log.snapshot()

    @rule(
        size=st.integers(0, 1_500),
        records=st.integers(1, 3),
        direct=st.booleans(),
        pause_ms=st.sampled_from((0, 9, 11_000)),
    )
    def append(self, size: int, records: int, direct: bool, pause_ms: int) -> None:
        self.now_ms += pause_ms
        batch = batch_at(self.log.next_offset, size, records, timestamp_ms=self.now_ms)
        flags, position = append(self.log, batch, direct=direct, now_ms=self.now_ms)
        self.entries.append((batch, flags, position))
        self.batches.append((parse_header(batch, 0), batch))

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.tail_bytes == 0

    @precondition(lambda self: self.log.tail_bytes)
    @rule()
    def flush_behind(self) -> None:
        before = self.log.tail_bytes
        self.left = 0
        if self.log.flush_behind(self.leave):
            assert self.log.is_behind
        assert self.log.tail_bytes == before

    def leave(self, size_bytes: int) -> None:
        self.left += size_bytes

    @rule()
    def arrive(self) -> None:
        before, self.left = self.log.tail_bytes, 0
        self.log._files.disk.finish_writes()
        assert not self.log.is_behind
        assert self.left == before - self.log.tail_bytes

    @rule(share=st.floats(0, 1))
    def trim(self, share: float) -> None:
        offset = self.log.start_offset + int((self.log.next_offset - self.log.start_offset) * share)
        disk = self.log._files.disk
        for segment in self.log.advance_start(offset):
            path = segment_path(PARTITION, segment.base_offset)
            self.log._files.forget(path)
            if disk.exists(path) and not self.entries:
                disk.remove(path)
        self.trimmed.append((len(self.entries), offset))

    @rule()
    def close(self) -> None:
        self.log.close_active()
        self.trimmed.append((len(self.entries), -1))

    @rule()
    def checkpoint(self) -> None:
        self.log.flush()
        self.log.save_active_index(0)
        self.saved = self.log.snapshot()
        self.entries = []
        self.trimmed = []

    @rule()
    def restart(self) -> None:
        """Restart as recovery does: restore the snapshot and replay every entry after it."""
        self.log = open_log(self.host)
        self.log.restore(self.saved)
        trims = list(self.trimmed)
        for at, (batch, flags, position) in enumerate(self.entries):
            while trims and trims[0][0] == at:
                self.replay_event(trims.pop(0)[1])
            if position < 0:
                self.log.replay_batch(parse_header(batch, 0), batch, flags, self.now_ms)
            else:
                self.log.replay_reference(parse_header(batch, 0), position, flags, self.now_ms)
        for _, offset in trims:
            self.replay_event(offset)

    def replay_event(self, offset: int) -> None:
        if offset < 0:
            self.log.close_active()
        else:
            self.log.advance_start(offset)

    @rule(cold=st.sampled_from((0.0, 0.3, 1.0)))
    def weather(self, cold: float) -> None:
        self.host.faults.cold_read_chance = cold

    @precondition(lambda self: self.batches)
    @rule(share=st.floats(0, 1), bytes_max=st.integers(0, 6_000), limit=st.floats(0, 1))
    def look(self, share: float, bytes_max: int, limit: float) -> None:
        start, end = self.log.start_offset, self.log.next_offset
        offset = start + int((end - start) * share)
        ends = [start] + [header.next_offset for header, _ in self.batches if header.next_offset > start]
        limit_offset = ends[int((len(ends) - 1) * limit)]
        data = bytes_of(read(self.log, offset, bytes_max, limit_offset))
        expected = [
            batch
            for header, batch in self.batches
            if header.next_offset > offset and header.base_offset < limit_offset and offset < limit_offset
        ]
        assert b"".join(expected).startswith(data)
        assert bool(data) == bool(expected)

    @invariant()
    def numbers(self) -> None:
        log = self.log
        assert log.next_offset == (self.batches[-1][0].next_offset if self.batches else 0)
        assert log.start_offset <= log.next_offset
        if log.start_offset > 0 and log.start_offset < log.next_offset:
            assert read(log, log.start_offset - 1).code is Code.OFFSET_OUT_OF_RANGE
        assert log.tail_bytes == sum(len(stored) for _, stored, _ in log._tail)
        assert len(log._files) <= 3


TestPartitionMachine = PartitionMachine.TestCase
TestPartitionMachine.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
