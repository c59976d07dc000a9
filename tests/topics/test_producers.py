"""The producer table, compared with a naive model that stores everything, and its replay."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from longhall.errors import Code
from longhall.records.batch import CONTROL, TRANSACTIONAL, BatchHeader
from longhall.topics.producers import PRODUCERS_MAX, SEQUENCE_MAX, Duplicate, ProducerTable
from tests.examples import examples


def batch(
    producer_id: int = 7,
    epoch: int = 0,
    sequence: int = 0,
    count: int = 1,
    *,
    transactional: bool = False,
    control: bool = False,
    timestamp_ms: int = 1000,
) -> BatchHeader:
    attributes = (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    return BatchHeader(
        0, 100, 0, 0, attributes, count - 1, timestamp_ms, timestamp_ms, producer_id, epoch, sequence, count
    )


def marker(producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    return batch(producer_id, epoch, -1, transactional=True, control=True)


class Partition:
    """A log of headers beside the table, to replay from."""

    def __init__(self) -> None:
        self.table = ProducerTable()
        self.log: list[tuple[BatchHeader, int, bool | None]] = []
        self.end = 0

    def produce(self, header: BatchHeader) -> Code | Duplicate | None:
        outcome = self.table.decide(header)
        if outcome is None:
            self.log.append((header, self.end, None))
            self.table.apply(header, self.end, 0)
            self.end += header.last_offset_delta + 1
        return outcome

    def end_transaction(self, committed: bool, producer_id: int = 7, epoch: int = 0) -> None:
        header = marker(producer_id, epoch)
        self.log.append((header, self.end, committed))
        self.table.apply_marker(header, self.end, committed, 0, 0)
        self.end += 1

    def replayed(self) -> ProducerTable:
        table = ProducerTable()
        for header, offset, committed in self.log:
            if committed is None:
                table.apply(header, offset, 0)
            else:
                table.apply_marker(header, offset, committed, 0, 0)
        return table


def test_a_retry_gets_the_offset_of_the_first_request() -> None:
    partition = Partition()
    assert partition.produce(batch(sequence=0, count=3)) is None
    assert partition.produce(batch(sequence=3, count=2, timestamp_ms=1234)) is None
    again = partition.produce(batch(sequence=3, count=2))
    assert isinstance(again, Duplicate)
    assert (again.base_offset, again.timestamp_ms) == (3, 1234)
    assert partition.end == 5


def test_five_batches_are_remembered_and_an_older_retry_is_out_of_order() -> None:
    partition = Partition()
    for sequence in range(6):
        assert partition.produce(batch(sequence=sequence)) is None
    assert isinstance(partition.produce(batch(sequence=1)), Duplicate)
    assert partition.produce(batch(sequence=0)) is Code.OUT_OF_ORDER_SEQUENCE


def test_a_gap_is_refused() -> None:
    partition = Partition()
    partition.produce(batch(sequence=0))
    assert partition.produce(batch(sequence=2)) is Code.OUT_OF_ORDER_SEQUENCE


def test_an_unknown_producer_may_continue_with_any_sequence() -> None:
    assert Partition().produce(batch(sequence=12_345)) is None


def test_sequences_wrap() -> None:
    partition = Partition()
    assert partition.produce(batch(sequence=SEQUENCE_MAX - 1, count=2)) is None
    assert partition.produce(batch(sequence=1)) is Code.OUT_OF_ORDER_SEQUENCE
    assert partition.produce(batch(sequence=0)) is None
    inside = Partition()
    assert inside.produce(batch(sequence=SEQUENCE_MAX, count=3)) is None  # MAX, 0, 1
    assert inside.produce(batch(sequence=2)) is None


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    partition = Partition()
    partition.produce(batch(epoch=3, sequence=0))
    assert partition.produce(batch(epoch=4, sequence=1)) is Code.OUT_OF_ORDER_SEQUENCE
    assert partition.produce(batch(epoch=4, sequence=0)) is None
    assert partition.produce(batch(epoch=3, sequence=1)) is Code.INVALID_PRODUCER_EPOCH


def test_a_marker_with_a_raised_epoch_fences_and_restarts_sequences() -> None:
    partition = Partition()
    partition.produce(batch(sequence=0, transactional=True))
    partition.end_transaction(True, epoch=1)
    assert partition.produce(batch(sequence=1, transactional=True)) is Code.INVALID_PRODUCER_EPOCH
    assert partition.produce(batch(epoch=1, sequence=1, transactional=True)) is Code.OUT_OF_ORDER_SEQUENCE
    assert partition.produce(batch(epoch=1, sequence=0, transactional=True)) is None


def test_batches_that_no_client_may_send_are_refused() -> None:
    table = ProducerTable()
    assert table.decide(batch(control=True)) is Code.INVALID_REQUEST
    assert table.decide(batch(producer_id=-1, transactional=True)) is Code.INVALID_REQUEST
    assert table.decide(batch(sequence=-1)) is Code.INVALID_REQUEST
    assert table.decide(batch(producer_id=-1, epoch=-1, sequence=-1)) is None


def test_plain_batches_are_refused_inside_a_transaction() -> None:
    partition = Partition()
    partition.produce(batch(sequence=0, transactional=True))
    assert partition.produce(batch(sequence=1)) is Code.INVALID_TRANSACTION_STATE


def test_verification_is_needed_only_for_the_first_batch_of_a_transaction() -> None:
    partition = Partition()
    first = batch(sequence=0, transactional=True)
    assert partition.table.needs_verification(first)
    assert not partition.table.needs_verification(batch(sequence=0))
    partition.produce(first)
    assert not partition.table.needs_verification(batch(sequence=1, transactional=True))
    assert partition.table.needs_verification(batch(epoch=1, sequence=0, transactional=True))
    before = partition.table.verification_guard(7)
    partition.end_transaction(True)
    assert partition.table.verification_guard(7) != before
    assert partition.table.needs_verification(batch(sequence=1, transactional=True))


def test_a_marker_voids_the_guard_of_its_producer_alone_also_when_it_is_forgotten() -> None:
    partition = Partition()
    table = partition.table
    guards = [table.verification_guard(7), table.verification_guard(8)]
    partition.produce(batch(sequence=0, transactional=True))
    assert [table.verification_guard(7), table.verification_guard(8)] == guards
    partition.end_transaction(True)
    marked = table.verification_guard(7)
    assert (marked > guards[0], table.verification_guard(8)) == (True, guards[1])
    assert table.expire(10**15, 1) == 1
    assert table.verification_guard(7) >= marked


def test_a_marker_of_an_earlier_request_or_coordinator_is_refused() -> None:
    partition = Partition()
    table = partition.table
    partition.produce(batch(sequence=0, transactional=True))
    assert table.decide_marker(7, 0, 0, 5) is None
    partition.end_transaction(True)
    table.note_request(7, 5)
    partition.produce(batch(sequence=1, transactional=True))
    assert table.decide_marker(7, 0, 0, 4) is Code.NOT_LEADER  # It was delayed, and is about the transaction before.
    assert table.decide_marker(7, 0, 0, 5) is Code.NOT_LEADER
    assert table.decide_marker(7, 0, 0, 6) is None
    assert table.decide_marker(7, 0, 1, 1) is None  # A new coordinator counts anew.
    assert table.decide_marker(7, 0, -1, 9) is Code.NOT_LEADER


def test_readers_stop_at_the_oldest_open_transaction() -> None:
    partition = Partition()
    partition.produce(batch(producer_id=-1, epoch=-1, sequence=-1, count=4))
    partition.produce(batch(1, transactional=True))
    partition.produce(batch(2, transactional=True))
    assert partition.table.first_unstable_offset == 4
    assert partition.table.last_stable_offset(6) == 4
    assert partition.table.last_stable_offset(3) == 3
    partition.end_transaction(True, 1)
    assert partition.table.first_unstable_offset == 5
    assert partition.table.last_stable_offset(6) == 4  # The marker at 6 is not below the high watermark yet.
    assert partition.table.last_stable_offset(7) == 5
    partition.end_transaction(False, 2)
    assert partition.table.first_unstable_offset is None
    assert partition.table.last_stable_offset(8) == 8


def test_many_unread_ended_transactions_stay_bounded_and_safe() -> None:
    partition = Partition()
    for sequence in range(200):
        partition.produce(batch(sequence=sequence, transactional=True))
        partition.end_transaction(True)
    assert len(partition.table._ending) <= 65
    assert partition.table.last_stable_offset(partition.end - 1) <= partition.end - 2
    assert partition.table.last_stable_offset(partition.end) == partition.end


def test_aborted_ranges_are_found_and_trimmed_with_the_log() -> None:
    partition = Partition()
    partition.produce(batch(1, transactional=True))  # 0
    partition.produce(batch(2, transactional=True))  # 1
    partition.end_transaction(False, 2)  # 2
    partition.end_transaction(False, 1)  # 3
    partition.produce(batch(3, transactional=True))  # 4
    partition.end_transaction(True, 3)  # 5
    table = partition.table
    assert table.aborted_between(0, 6) == [(1, 0), (2, 1)]
    assert table.aborted_between(3, 6) == [(1, 0)]
    assert table.aborted_between(0, 1) == [(1, 0)]
    assert table.aborted_between(4, 6) == []
    table.truncate_to(3)
    assert table.aborted_between(0, 6) == [(1, 0)]
    table.truncate_to(4)
    assert table.aborted_between(0, 6) == []


def test_an_open_transaction_below_the_log_start_does_not_move_readers_below_it() -> None:
    partition = Partition()
    partition.produce(batch(1, count=10, transactional=True))
    partition.table.truncate_to(5)
    assert partition.table.last_stable_offset(10) == 5
    assert partition.table.first_unstable_offset == 5


def test_idle_producers_expire_but_not_inside_a_transaction() -> None:
    table = ProducerTable()
    table.apply(batch(1), 0, 100)
    table.apply(batch(2, transactional=True), 1, 100)
    table.apply(batch(3), 2, 900)
    assert table.expire(1100, 1000) == 1
    assert sorted(active.producer_id for active in table.active()) == [2, 3]


def test_many_producers_are_bounded_and_recent_and_open_ones_stay() -> None:
    table = ProducerTable()
    table.apply(batch(0, transactional=True), 0, 0)
    for producer_id in range(1, PRODUCERS_MAX + 10):
        table.apply(batch(producer_id), producer_id, 0)
    assert len(table) <= PRODUCERS_MAX
    ids = {active.producer_id for active in table.active()}
    assert 0 in ids
    assert PRODUCERS_MAX + 9 in ids
    assert 1 not in ids


def test_markers_of_deposed_coordinators_are_refused() -> None:
    table = ProducerTable()
    assert table.decide_marker(7, 0, 0) is None
    table.apply_marker(marker(7, 5), 0, True, 3, 0)
    assert table.decide_marker(7, 4, 3) is Code.INVALID_PRODUCER_EPOCH
    assert table.decide_marker(7, 5, 2) is Code.NOT_LEADER
    assert table.decide_marker(7, 5, 3) is None


def test_describe_shows_the_open_transaction() -> None:
    table = ProducerTable()
    table.apply(batch(9, 2, 4, 3, transactional=True), 50, 0)
    (line,) = table.active()
    assert (line.producer_id, line.epoch, line.last_sequence, line.transaction_start_offset) == (9, 2, 6, 50)


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans(), st.integers(0, 3)), max_size=30))
def test_snapshot_and_restore_are_inverse(steps: list[tuple[int, int, bool, int]]) -> None:
    partition = Partition()
    next_sequence: dict[tuple[int, int], int] = {}
    for producer_id, epoch, transactional, ending in steps:
        sequence = next_sequence.get((producer_id, epoch), 0)
        if partition.produce(batch(producer_id, epoch, sequence, transactional=transactional)) is None:
            next_sequence[producer_id, epoch] = sequence + 1
        if ending < 2 and partition.table.decide_marker(producer_id, epoch, 0) is None:
            partition.end_transaction(ending == 1, producer_id, epoch)
    restored = ProducerTable()
    restored.restore(partition.table.snapshot(), 0)
    assert restored.snapshot() == partition.table.snapshot()
    assert restored.first_unstable_offset == partition.table.first_unstable_offset


class Model(RuleBasedStateMachine):
    """The naive model stores the whole log and computes every answer from it."""

    def __init__(self) -> None:
        super().__init__()
        self.partition = Partition()

    def walk(self) -> tuple[dict[int, int], list[tuple[int, int, int]]]:
        """Open transactions, and aborted ones as (producer id, first offset, last offset)."""
        opened: dict[int, int] = {}
        aborted = []
        for header, offset, committed in self.partition.log:
            if committed is None:
                if header.is_transactional:
                    opened.setdefault(header.producer_id, offset)
            elif header.producer_id in opened:
                first = opened.pop(header.producer_id)
                if not committed:
                    aborted.append((header.producer_id, first, offset))
        return opened, aborted

    def expected(self, header: BatchHeader) -> str:
        mine = [entry for entry in self.partition.log if entry[0].producer_id == header.producer_id]
        if not mine:
            return "accepted"
        epoch = max(entry[0].producer_epoch for entry in mine)
        if header.producer_epoch < epoch:
            return "fenced"
        batches = [h for h, _, end in mine if end is None and h.producer_epoch == header.producer_epoch]
        if header.producer_epoch > epoch and header.base_sequence != 0:
            return "disorder"
        for old in batches[-5:]:
            if (old.base_sequence, old.record_count) == (header.base_sequence, header.record_count):
                return "duplicate"
        if header.base_sequence != sum(old.record_count for old in batches):
            return "disorder"
        if header.producer_id in self.walk()[0] and not header.is_transactional:
            return "state"
        return "accepted"

    @rule(
        producer_id=st.integers(0, 2),
        epoch=st.sampled_from([0, 0, 0, 0, 1, 2]),
        back=st.sampled_from([0, 0, 0, 0, 1, 4]),
        count=st.integers(1, 2),
        transactional=st.sampled_from([True, True, True, False]),
    )
    def produce(self, producer_id: int, epoch: int, back: int, count: int, transactional: bool) -> None:
        mine = [h for h, _, end in self.partition.log if end is None and h.producer_id == producer_id]
        sequence = sum(h.record_count for h in mine if h.producer_epoch == epoch) - back
        known = any(entry[0].producer_id == producer_id for entry in self.partition.log)
        header = batch(producer_id, epoch, max(0, sequence) if known else 0, count, transactional=transactional)
        expected = self.expected(header)
        outcome = self.partition.produce(header)
        names = {
            Code.INVALID_PRODUCER_EPOCH: "fenced",
            Code.OUT_OF_ORDER_SEQUENCE: "disorder",
            Code.INVALID_TRANSACTION_STATE: "state",
        }
        if outcome is None:
            assert expected == "accepted"
        elif isinstance(outcome, Duplicate):
            assert expected == "duplicate"
        else:
            assert expected == names[outcome]

    @rule(producer_id=st.integers(0, 2), bump=st.booleans(), committed=st.booleans())
    def end(self, producer_id: int, bump: bool, committed: bool) -> None:
        mine = [h.producer_epoch for h, _, _ in self.partition.log if h.producer_id == producer_id]
        if mine:
            self.partition.end_transaction(committed, producer_id, max(mine) + bump)

    @invariant()
    def readers_see_what_the_model_sees(self) -> None:
        opened, aborted = self.walk()
        table, end = self.partition.table, self.partition.end
        assert table.first_unstable_offset == (min(opened.values()) if opened else None)
        assert table.last_stable_offset(end) == min([end, *opened.values()])
        for low in range(0, end + 1, 3):
            for high in range(low, end + 1, 4):
                expected = {(who, first) for who, first, last in aborted if last >= low and first < high}
                assert set(table.aborted_between(low, high)) == expected

    @invariant()
    def replay_gives_the_same(self) -> None:
        assert self.partition.replayed().snapshot() == self.partition.table.snapshot()


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
