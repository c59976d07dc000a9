"""The transaction coordinator, as producers and administrators see it."""

from __future__ import annotations

import pytest

from longhall.errors import Code
from longhall.topics.decisions import Decision, EndRequest, InitRequest
from longhall.topics.settings import DAY_MS, TransactionSettings
from longhall.topics.transaction import EPOCH_MAX, State, Transaction
from longhall.topics.transactions import Transactions

MINUTE_MS = 60_000


class Coordinator:
    """Transactions whose decisions are applied at once, as a shard does."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.transactions = Transactions(settings)
        self.now_ms = 1_000
        self.next_id = 100

    def do(self, decision: Decision) -> Decision:
        for event in decision.events:
            self.transactions.apply(event)
        self.next_id += decision.took_fresh_id
        return decision

    def init(self, expected: tuple[int, int] = (-1, -1), transactional_id: str = "t") -> Decision:
        request = InitRequest(
            transactional_id=transactional_id,
            timeout_ms=MINUTE_MS,
            fresh_producer_id=self.next_id,
            expected_producer_id=expected[0],
            expected_producer_epoch=expected[1],
        )
        return self.do(self.transactions.decide_init(request, self.now_ms))

    def add(self, who: Decision, *partitions: int, groups: tuple[str, ...] = ()) -> Decision:
        named = [("topic", partition) for partition in partitions]
        decision = self.transactions.decide_add("t", who.producer_id, who.producer_epoch, self.now_ms, named, groups)
        return self.do(decision)

    def end(self, who: Decision, committed: bool = True, raises: bool = False) -> Decision:
        request = EndRequest(
            transactional_id="t",
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            committed=committed,
            raises_epoch=raises,
            fresh_producer_id=self.next_id,
        )
        return self.do(self.transactions.decide_end(request, self.now_ms))

    def write_markers(self) -> None:
        for markers in self.transactions.unfinished():
            self.do(self.transactions.decide_markers_written(markers, self.now_ms))

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms
        for event in self.transactions.tick(self.now_ms):
            self.transactions.apply(event)

    def state(self) -> str:
        described = self.transactions.describe_transaction("t")
        return "Dead" if described is None else described.state

    def verify(self, who: Decision, partition: int) -> Code | None:
        return self.transactions.verify_partition("t", who.producer_id, who.producer_epoch, "topic", partition)


def at_epoch(coordinator: Coordinator, epoch: int) -> Decision:
    """A producer whose epochs are nearly exhausted."""
    coordinator.init()
    coordinator.transactions._transactions["t"].producer_epoch = epoch - 1
    return coordinator.init()


def test_the_docstring_is_the_transition_table() -> None:
    assert Transaction.__doc__ is not None
    lines = [line.strip().strip("|").split("|") for line in Transaction.__doc__.splitlines() if "|" in line]
    assert {(State(row[0].strip()), State(row[2].strip())) for row in lines[2:]} == Transaction.TRANSITIONS


def test_an_id_goes_through_every_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: set[tuple[State, State]] = set()
    transition = Transaction.transition

    def record(transaction: Transaction, state: State) -> None:
        walked.add((transaction.state, state))
        transition(transaction, state)

    monkeypatch.setattr(Transaction, "transition", record)
    for committed in (True, False):
        for then in ("add", "init", "abort", "expire"):
            coordinator = Coordinator()
            who = coordinator.init()
            coordinator.add(who, 1)
            coordinator.end(who, committed)
            coordinator.write_markers()
            if then == "add":
                coordinator.add(who, 1)
            elif then == "init":
                coordinator.init()
            elif then == "abort":
                coordinator.end(who, committed=False, raises=True)
            else:
                coordinator.advance(8 * DAY_MS)
    coordinator = Coordinator()
    coordinator.end(coordinator.init(), committed=False, raises=True)
    coordinator = Coordinator()
    coordinator.init()
    coordinator.advance(8 * DAY_MS)
    assert walked == Transaction.TRANSITIONS


def test_a_transaction_from_beginning_to_end() -> None:
    coordinator = Coordinator()
    who = coordinator.init()
    assert (who.producer_id, who.producer_epoch) == (100, 0)
    assert coordinator.verify(who, 1) is Code.TRANSACTION_ABORTABLE
    assert coordinator.add(who, 1, 2, groups=("g",)).code is None
    assert coordinator.verify(who, 1) is None
    assert coordinator.transactions.verify_group("t", who.producer_id, who.producer_epoch, "g") is None
    assert coordinator.transactions.verify_group("t", who.producer_id, 0, "h") is Code.TRANSACTION_ABORTABLE
    assert coordinator.add(who, 1).events == ()  # Already added: nothing to write.
    assert coordinator.end(who).code is None
    assert coordinator.state() == "PrepareCommit"
    (markers,) = coordinator.transactions.unfinished()
    assert markers.committed
    assert markers.partitions == (("topic", 1), ("topic", 2))
    assert markers.groups == ("g",)
    assert (markers.producer_id, markers.producer_epoch) == (100, 0)
    assert coordinator.add(who, 3).code is Code.CONCURRENT_TRANSACTIONS
    assert coordinator.verify(who, 1) is Code.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.state() == "CompleteCommit"
    assert coordinator.transactions.unfinished() == []
    assert coordinator.add(who, 3).code is None
    assert coordinator.verify(who, 1) is Code.TRANSACTION_ABORTABLE


def test_a_repeated_end_gets_the_same_answer() -> None:
    coordinator = Coordinator()
    who = coordinator.init()
    assert coordinator.end(who).code is Code.INVALID_TRANSACTION_STATE
    coordinator.add(who, 1)
    coordinator.end(who)
    assert coordinator.end(who).code is Code.CONCURRENT_TRANSACTIONS
    assert coordinator.end(who, committed=False).code is Code.INVALID_TRANSACTION_STATE
    coordinator.write_markers()
    assert coordinator.end(who).code is None
    assert coordinator.end(who, committed=False).code is Code.INVALID_TRANSACTION_STATE


def test_a_new_producer_fences_the_old_one() -> None:
    coordinator = Coordinator()
    old = coordinator.init()
    new = coordinator.init()
    assert (new.producer_id, new.producer_epoch) == (old.producer_id, old.producer_epoch + 1)
    assert coordinator.add(old, 1).code is Code.PRODUCER_FENCED
    assert coordinator.end(old).code is Code.PRODUCER_FENCED
    assert coordinator.verify(old, 1) is Code.PRODUCER_FENCED
    assert coordinator.add(new, 1).code is None


def test_an_open_transaction_is_aborted_before_its_id_is_taken() -> None:
    coordinator = Coordinator()
    old = coordinator.init()
    coordinator.add(old, 1)
    assert coordinator.init().code is Code.CONCURRENT_TRANSACTIONS
    (markers,) = coordinator.transactions.unfinished()
    assert not markers.committed
    assert markers.producer_epoch == old.producer_epoch + 1
    assert coordinator.end(old).code is Code.PRODUCER_FENCED
    assert coordinator.init().code is Code.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    new = coordinator.init()
    assert new.code is None
    assert new.producer_epoch == old.producer_epoch + 2


def test_unknown_producers_are_refused() -> None:
    coordinator = Coordinator()
    who = coordinator.init()
    stranger = Decision(producer_id=999, producer_epoch=0)
    assert coordinator.add(stranger, 1).code is Code.INVALID_PRODUCER_MAPPING
    assert coordinator.end(stranger).code is Code.INVALID_PRODUCER_MAPPING
    verify = coordinator.transactions.verify_partition
    assert verify("none", who.producer_id, 0, "topic", 1) is Code.INVALID_PRODUCER_MAPPING


def test_invalid_requests_are_refused() -> None:
    transactions = Transactions()
    for name, timeout_ms, code in (
        ("", 1000, Code.INVALID_REQUEST),
        ("t", 0, Code.INVALID_TRANSACTION_TIMEOUT),
        ("t", DAY_MS, Code.INVALID_TRANSACTION_TIMEOUT),
    ):
        request = InitRequest(transactional_id=name, timeout_ms=timeout_ms, fresh_producer_id=1)
        assert transactions.decide_init(request, 0).code is code


def test_tables_are_bounded() -> None:
    coordinator = Coordinator(TransactionSettings(transactional_ids_max=1, partitions_max=2))
    who = coordinator.init()
    assert coordinator.init(transactional_id="other").code is Code.OVERLOADED
    assert coordinator.add(who, 1, 2).code is None
    assert coordinator.add(who, 3).code is Code.OVERLOADED


def test_a_producer_recovers_with_its_id_and_epoch() -> None:
    coordinator = Coordinator()
    who = coordinator.init()
    bumped = coordinator.init((who.producer_id, who.producer_epoch))
    assert bumped.producer_epoch == who.producer_epoch + 1
    missed = coordinator.init((who.producer_id, who.producer_epoch))  # The answer was lost.
    assert missed.code is None
    assert missed.producer_epoch > bumped.producer_epoch
    assert coordinator.init((who.producer_id, 7)).code is Code.PRODUCER_FENCED
    assert coordinator.init((999, 0)).code is Code.PRODUCER_FENCED


def test_a_producer_recovers_during_its_transaction() -> None:
    coordinator = Coordinator()
    who = coordinator.init()
    coordinator.add(who, 1)
    assert coordinator.init((who.producer_id, who.producer_epoch)).code is Code.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.init((who.producer_id, who.producer_epoch)).code is None


def test_a_late_recovery_does_not_abort_the_transaction_of_its_successor() -> None:
    coordinator = Coordinator()
    who = coordinator.init()
    bumped = coordinator.init((who.producer_id, who.producer_epoch))
    coordinator.add(bumped, 1)
    assert coordinator.init((who.producer_id, who.producer_epoch)).code is Code.PRODUCER_FENCED
    assert coordinator.state() == "Ongoing"


def test_when_epochs_are_exhausted_there_is_a_new_producer_id() -> None:
    coordinator = Coordinator()
    who = at_epoch(coordinator, EPOCH_MAX - 1)
    assert who.producer_epoch == EPOCH_MAX - 1
    fresh = coordinator.init((who.producer_id, who.producer_epoch))
    assert (fresh.producer_id, fresh.producer_epoch) == (101, 0)
    missed = coordinator.init((who.producer_id, who.producer_epoch))
    assert (missed.producer_id, missed.producer_epoch) == (101, 1)
    assert coordinator.add(who, 1).code is Code.INVALID_PRODUCER_MAPPING


def test_the_last_epoch_can_still_be_fenced() -> None:
    coordinator = Coordinator()
    who = at_epoch(coordinator, EPOCH_MAX - 1)
    coordinator.add(who, 1)
    coordinator.init()
    coordinator.write_markers()
    assert coordinator.init().producer_id != who.producer_id


def test_the_epoch_is_raised_with_each_transaction() -> None:
    coordinator = Coordinator()
    who = coordinator.init()
    coordinator.add(who, 1)
    after = coordinator.end(who, raises=True)
    assert (after.producer_id, after.producer_epoch) == (who.producer_id, who.producer_epoch + 1)
    (markers,) = coordinator.transactions.unfinished()
    assert markers.producer_epoch == after.producer_epoch
    assert coordinator.end(who, raises=True).code is Code.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    again = coordinator.end(who, raises=True)
    assert (again.code, again.producer_epoch) == (None, after.producer_epoch)
    assert coordinator.end(who, committed=False, raises=True).code is Code.INVALID_TRANSACTION_STATE
    assert coordinator.add(who, 1).code is Code.PRODUCER_FENCED
    assert coordinator.add(after, 1).code is None
    assert coordinator.end(who, raises=True).code is Code.PRODUCER_FENCED


def test_an_empty_abort_raises_the_epoch_but_an_empty_commit_is_refused() -> None:
    coordinator = Coordinator()
    who = coordinator.init()
    assert coordinator.end(who, committed=True, raises=True).code is Code.INVALID_TRANSACTION_STATE
    after = coordinator.end(who, committed=False, raises=True)
    assert after.producer_epoch == who.producer_epoch + 1
    coordinator.write_markers()
    assert coordinator.state() == "CompleteAbort"
    assert coordinator.end(after, committed=False, raises=True).producer_epoch == who.producer_epoch + 2


def test_raising_past_the_last_epoch_gives_a_new_id_once_the_markers_are_written() -> None:
    coordinator = Coordinator()
    who = at_epoch(coordinator, EPOCH_MAX - 1)
    coordinator.add(who, 1)
    after = coordinator.end(who, raises=True)
    assert (after.producer_id, after.producer_epoch) == (101, 0)
    (markers,) = coordinator.transactions.unfinished()
    assert (markers.producer_id, markers.producer_epoch) == (who.producer_id, EPOCH_MAX)
    assert coordinator.end(who, raises=True).code is Code.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    again = coordinator.end(who, raises=True)
    assert (again.code, again.producer_id, again.producer_epoch) == (None, 101, 0)
    assert coordinator.add(after, 1).code is None


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced() -> None:
    coordinator = Coordinator()
    who = coordinator.init()
    coordinator.add(who, 1)
    coordinator.advance(MINUTE_MS - 1)
    coordinator.add(who, 2)  # Adding does not extend the timeout.
    assert coordinator.state() == "Ongoing"
    coordinator.advance(1)
    assert coordinator.state() == "PrepareAbort"
    assert coordinator.end(who).code is Code.PRODUCER_FENCED
    coordinator.write_markers()
    assert coordinator.init((who.producer_id, who.producer_epoch)).code is Code.PRODUCER_FENCED
    assert coordinator.init().code is None


def test_an_administrator_aborts_a_hanging_transaction() -> None:
    coordinator = Coordinator()
    abort = coordinator.transactions.decide_force_abort
    assert abort("t", 0).code is Code.TRANSACTION_UNKNOWN
    who = coordinator.init()
    assert abort("t", 0).code is Code.INVALID_TRANSACTION_STATE
    coordinator.add(who, 1)
    assert coordinator.do(abort("t", coordinator.now_ms)).code is None
    assert coordinator.state() == "PrepareAbort"
    assert coordinator.end(who).code is Code.PRODUCER_FENCED


def test_unused_ids_expire() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.advance(7 * DAY_MS - 1)
    assert coordinator.state() == "Empty"
    coordinator.advance(1)
    assert len(coordinator.transactions) == 0
    assert coordinator.transactions.next_deadline_ms() is None


def test_listing_filters() -> None:
    coordinator = Coordinator()
    coordinator.init(transactional_id="idle")
    who = coordinator.init()
    coordinator.add(who, 1)
    coordinator.advance(30_000)
    listed = coordinator.transactions.list_transactions

    def names(**filters: object) -> list[str]:
        return [line.transactional_id for line in listed(coordinator.now_ms, **filters)]  # type: ignore[arg-type]

    assert names() == ["idle", "t"]
    assert names(states=["Ongoing"]) == ["t"]
    assert names(producer_ids=[100]) == ["idle"]
    assert names(duration_min_ms=29_000) == ["t"]
    assert names(duration_min_ms=30_000) == []
    described = coordinator.transactions.describe_transaction("t")
    assert described is not None
    assert (described.started_ms, described.partitions) == (1_000, (("topic", 1),))


def test_a_late_report_of_markers_changes_nothing() -> None:
    coordinator = Coordinator()
    who = coordinator.init()
    coordinator.add(who, 1)
    coordinator.end(who, raises=True)
    (old,) = coordinator.transactions.unfinished()
    coordinator.write_markers()
    after = Decision(producer_id=who.producer_id, producer_epoch=1)
    coordinator.add(after, 1)
    coordinator.end(after, raises=True)
    assert coordinator.transactions.decide_markers_written(old, 0).events == ()
    assert coordinator.state() == "PrepareCommit"
