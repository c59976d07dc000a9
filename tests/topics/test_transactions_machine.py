"""Transactions under arbitrary producers, zombies and restarts.

The invariants: a transaction has exactly one outcome; only the newest producer adds to it or ends it; and the journal
replays to the same state.
"""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from longhall.topics.decisions import Decision, EndRequest, InitRequest
from longhall.topics.events import TransactionEvent, TransactionPrepared
from longhall.topics.settings import TransactionSettings
from longhall.topics.transactions import Transactions
from tests.examples import examples

SETTINGS = TransactionSettings(idle_expiry_ms=500_000)
NAMES = st.sampled_from(["a", "b"])
WHO = st.sampled_from([0, 0, 0, 1, 2])  # How many producers took the id later: mostly none, else it is a zombie.


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.transactions = Transactions(SETTINGS)
        self.journal: list[bytes] = []
        self.now_ms = 1
        self.fresh = 1
        # For each name every id and epoch ever given, the newest last.
        self.given: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
        self.open: dict[str, int] = {}  # The number of the open or prepared transaction.
        self.count = 0
        self.outcomes: dict[int, bool] = {}

    def write(self, decision_events: tuple[TransactionEvent, ...]) -> None:
        for event in decision_events:
            self.transactions.apply(event)
            self.journal.append(msgspec.msgpack.encode(event))
            if isinstance(event, TransactionPrepared) and event.transactional_id in self.open:
                number = self.open[event.transactional_id]
                assert number not in self.outcomes, "a second outcome"
                self.outcomes[number] = event.committed

    def give(self, name: str, decision: Decision) -> None:
        assert (decision.producer_id, decision.producer_epoch) not in self.given[name], "given twice"
        self.given[name].append((decision.producer_id, decision.producer_epoch))
        self.fresh += decision.took_fresh_id

    def producer(self, name: str, back: int) -> tuple[int, int]:
        given = self.given[name]
        return given[-1 - back] if back < len(given) else (-7, 0)

    @rule(name=NAMES, back=st.one_of(st.none(), WHO))
    def init(self, name: str, back: int | None) -> None:
        expected = (-1, -1) if back is None else self.producer(name, back)
        request = InitRequest(
            transactional_id=name,
            timeout_ms=60_000,
            fresh_producer_id=self.fresh,
            expected_producer_id=expected[0],
            expected_producer_epoch=expected[1],
        )
        decision = self.transactions.decide_init(request, self.now_ms)
        self.write(decision.events)
        if decision.code is None:
            self.give(name, decision)
            self.open.pop(name, None)

    @rule(name=NAMES, back=WHO, partition=st.integers(0, 3))
    def add(self, name: str, back: int, partition: int) -> None:
        who = self.producer(name, back)
        decision = self.transactions.decide_add(name, *who, self.now_ms, [("t", partition)])
        if back > 0:
            assert decision.code is not None, "a zombie was accepted"
        if decision.code is None and name not in self.open:
            self.count += 1
            self.open[name] = self.count
        self.write(decision.events)
        if back > 0:
            assert self.transactions.verify_partition(name, *who, "t", partition) is not None

    @rule(name=NAMES, back=WHO, committed=st.booleans(), raises=st.booleans())
    def end(self, name: str, back: int, committed: bool, raises: bool) -> None:
        who = self.producer(name, back)
        request = EndRequest(
            transactional_id=name,
            producer_id=who[0],
            producer_epoch=who[1],
            committed=committed,
            raises_epoch=raises,
            fresh_producer_id=self.fresh,
        )
        decision = self.transactions.decide_end(request, self.now_ms)
        if back > 0:
            assert not decision.events, "a zombie ended a transaction"
        if decision.code is None and decision.events and name not in self.open:
            self.count += 1
            self.open[name] = self.count
        self.write(decision.events)
        if decision.code is None:
            assert name not in self.open or self.outcomes[self.open[name]] == committed
            if decision.events and raises:
                self.give(name, decision)

    @rule(name=NAMES, committed=st.booleans(), raises=st.booleans(), partition=st.integers(0, 3))
    def behave(self, name: str, committed: bool, raises: bool, partition: int) -> None:
        """A whole transaction by the protocol; arbitrary requests alone would rarely make one."""
        self.add(name, 0, partition)
        self.end(name, 0, committed, raises)

    @rule()
    def write_markers(self) -> None:
        for markers in self.transactions.unfinished():
            assert self.outcomes[self.open[markers.transactional_id]] == markers.committed
            self.write(self.transactions.decide_markers_written(markers, self.now_ms).events)
            del self.open[markers.transactional_id]

    @rule(name=NAMES)
    def force_abort(self, name: str) -> None:
        self.write(self.transactions.decide_force_abort(name, self.now_ms).events)

    @rule(by_ms=st.sampled_from([1, 10_000, 60_000, 600_000]))
    def wait(self, by_ms: int) -> None:
        self.now_ms += by_ms
        before = {line.transactional_id for line in self.transactions.list_transactions(self.now_ms)}
        self.write(tuple(self.transactions.tick(self.now_ms)))
        left = {line.transactional_id for line in self.transactions.list_transactions(self.now_ms)}
        for name in before - left:
            self.given[name] = []

    @rule(name=NAMES)
    def exhaust(self, name: str) -> None:
        """Exhaust the epochs of an idle id, also in the journal, as thirty thousand producers would."""
        described = self.transactions.describe_transaction(name)
        if described is None or described.state != "Empty" or described.producer_epoch > 1000:
            return
        event = msgspec.convert(
            {
                "type": "transactional-id-set",
                "transactional_id": name,
                "producer_id": described.producer_id,
                "producer_epoch": 2**15 - 3,
                "timeout_ms": 60_000,
                "at_ms": self.now_ms,
            },
            TransactionEvent,
        )
        self.write((event,))
        self.given[name].append((described.producer_id, 2**15 - 3))

    @rule()
    def crash(self) -> None:
        self.transactions = self.replayed()

    def replayed(self) -> Transactions:
        transactions = Transactions(SETTINGS)
        for entry in self.journal:
            transactions.apply(msgspec.msgpack.decode(entry, type=TransactionEvent))
        return transactions

    @invariant()
    def the_journal_replays_to_the_same_state(self) -> None:
        snapshot = self.transactions.snapshot()
        assert self.replayed().snapshot() == snapshot
        restored = Transactions(SETTINGS)
        restored.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(snapshot)))
        assert restored.snapshot() == snapshot
        assert restored.unfinished() == self.transactions.unfinished()

    @invariant()
    def only_added_partitions_verify(self) -> None:
        for name in ("a", "b"):
            assert self.transactions.verify_partition(name, *self.producer(name, 0), "never", 0) is not None


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)
