"""The oracles themselves: each must find a violation, and accept what may happen."""

from __future__ import annotations

import pytest

from simulation.checkers import Violation
from simulation.checkers.log import LogOracle
from simulation.checkers.sends import Outcome, Place, Transaction
from simulation.checkers.topic_state import (
    RECORD_OVERHEAD_BYTES,
    KeyOracle,
    OffsetOracle,
    RetentionOracle,
    TopicOracle,
    TransactionalOffsetOracle,
)

HERE = Place("t", 0)


def test_permitted_outcomes_are_accepted() -> None:
    oracle = LogOracle()
    first = oracle.sending(HERE, "w", 0, [b"a", b"b"])
    unknown = oracle.sending(HERE, "w", 1, [b"c"])
    third = oracle.sending(HERE, "w", 2, [b"d"])
    refused = oracle.sending(HERE, "w", 3, [b"e"])
    oracle.sent(first, 0)
    oracle.sent(first, 0)
    oracle.lost_sight(unknown)
    oracle.sent(third, 3)
    oracle.refused(refused)
    oracle.seen(HERE, 2, b"c", stable=False)
    entries = [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    oracle.settle(HERE, 0, entries, entries)


@pytest.mark.parametrize(
    "entries",
    [
        [(0, b"a"), (2, b"c"), (3, b"d")],  # An acknowledged value is missing.
        [(0, b"a"), (1, b"b"), (2, b"d"), (3, b"c")],  # It is at another offset.
        [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"), (4, b"c")],  # It is stored twice.
        [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"), (4, b"e")],  # It was refused.
        [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"), (4, b"x")],  # It was never sent.
        [(0, b"a"), (1, b"b"), (3, b"d")],  # A reader had read it.
    ],
)
def test_violations_in_a_log_are_found(entries: list[tuple[int, bytes]]) -> None:
    oracle = LogOracle()
    oracle.sent(oracle.sending(HERE, "w", 0, [b"a", b"b"]), 0)
    oracle.lost_sight(oracle.sending(HERE, "w", 1, [b"c"]))
    oracle.sent(oracle.sending(HERE, "w", 2, [b"d"]), 3)
    oracle.refused(oracle.sending(HERE, "w", 3, [b"e"]))
    oracle.seen(HERE, 2, b"c", stable=False)
    with pytest.raises(Violation):
        oracle.settle(HERE, 0, entries, entries)


def test_deleted_records_may_be_gone_and_order_is_checked() -> None:
    oracle = LogOracle()
    oracle.sent(oracle.sending(HERE, "w", 0, [b"a"]), 0)
    oracle.sent(oracle.sending(HERE, "w", 1, [b"b"]), 1)
    oracle.settle(HERE, 1, [(1, b"b")], [(1, b"b")])
    other = LogOracle()
    other.lost_sight(other.sending(HERE, "w", 0, [b"a"]))
    other.lost_sight(other.sending(HERE, "w", 1, [b"b"]))
    with pytest.raises(Violation):
        other.settle(HERE, 0, [(0, b"b"), (1, b"a")], [])


def transaction(oracle: LogOracle, outcome: Outcome, commit: bool) -> Transaction:
    made = oracle.beginning("x")
    oracle.sent(oracle.sending(HERE, "w", 0, [b"a"], made), 0)
    oracle.sent(oracle.sending(HERE, "w", 1, [b"b"], made), 1)
    made.outcome = outcome
    made.commit = commit
    return made


BOTH = [(0, b"a"), (1, b"b")]


@pytest.mark.parametrize(
    ("outcome", "commit", "visible", "holds"),
    [
        (Outcome.ACKNOWLEDGED, True, BOTH, True),
        (Outcome.ACKNOWLEDGED, True, BOTH[:1], False),
        (Outcome.ACKNOWLEDGED, True, [], False),
        (Outcome.ACKNOWLEDGED, False, [], True),
        (Outcome.ACKNOWLEDGED, False, BOTH, False),
        (Outcome.UNKNOWN, True, BOTH, True),
        (Outcome.UNKNOWN, True, [], True),
        (Outcome.UNKNOWN, True, BOTH[1:], False),
        (Outcome.UNKNOWN, False, BOTH, False),
    ],
)
def test_transactions(outcome: Outcome, commit: bool, visible: list[tuple[int, bytes]], holds: bool) -> None:
    oracle = LogOracle()
    transaction(oracle, outcome, commit)
    if holds:
        oracle.settle_transactions({HERE: visible}, {HERE: 0})
    else:
        with pytest.raises(Violation):
            oracle.settle_transactions({HERE: visible}, {HERE: 0})


def test_offsets_of_groups() -> None:
    oracle = OffsetOracle("g", HERE)
    oracle.committing(5)
    oracle.committed(5)
    oracle.committing(9)
    oracle.found(5, 5)
    oracle.found(9, 5)
    for wrong in (-1, 4, 10):
        with pytest.raises(Violation):
            oracle.found(wrong, 5)
    moving = TransactionalOffsetOracle("g")
    moving.ended(1, Outcome.ACKNOWLEDGED, True)
    moving.ended(2, Outcome.UNKNOWN, True)
    moving.ended(3, Outcome.ACKNOWLEDGED, False)
    moving.found(1)
    moving.found(2)
    for wrong in (-1, 3):
        with pytest.raises(Violation):
            moving.found(wrong)


def test_keys_retention_and_topics() -> None:
    log = LogOracle()
    keys = KeyOracle(HERE)
    for number, outcome in enumerate((Outcome.ACKNOWLEDGED, Outcome.ACKNOWLEDGED, Outcome.UNKNOWN)):
        send = log.sending(HERE, "w", number, [b"v%d" % number])
        send.outcome = outcome
        send.offset = number
        send.timestamp_ms = number * 1000
        keys.writing(b"k", b"v%d" % number, send)
    keys.settle({b"k": b"v1"})
    keys.settle({b"k": b"v2"})
    wrongs: list[dict[bytes, bytes | None]] = [{b"k": b"v0"}, {}, {b"k": None}]
    for wrong in wrongs:
        with pytest.raises(Violation):
            keys.settle(wrong)
    retention = RetentionOracle(HERE, retention_ms=1500)
    retention.settle(log.of(HERE), 1, 2000)
    with pytest.raises(Violation):
        retention.settle(log.of(HERE), 2, 2000)
    by_size = RetentionOracle(HERE, retention_bytes=2 * RECORD_OVERHEAD_BYTES)  # The unknown one may be stored.
    by_size.settle(log.of(HERE), 1, 2000)
    with pytest.raises(Violation):
        by_size.settle(log.of(HERE), 2, 2000)
    topics = TopicOracle()
    topics.created("a")
    topics.deleted("b")
    topics.unsure("c")
    topics.settle({"a", "c"})
    for names in (set(), {"a", "b"}):
        with pytest.raises(Violation):
            topics.settle(names)
