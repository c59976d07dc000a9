"""The oracle of queues: accepts what a correct queue does, and finds everything else."""

from __future__ import annotations

import pytest

from simulation.checkers.messages import Law, Message
from simulation.checkers.queues import QueueOracle
from simulation.checkers.violation import Violation

LAWS = [
    Law("plain"),
    Law("lines.fifo", fifo=True),
    Law("poison", attempts_max=2, dead="dead"),
    Law("dead"),
    Law("once", at_most_once=True),
    Law("strict", one_by_one=True),
    Law("short", time_to_live_s=5.0),
]
ID = "00000000-0000-8000-8000-000000000001"


@pytest.fixture
def oracle() -> QueueOracle:
    return QueueOracle(LAWS)


def sent(oracle: QueueOracle, key: str, queue: str = "plain", number: int = -1, delay_s: float = 0.0) -> Message:
    message = oracle.sending(key, queue, 0.0, delay_s, "g" if number >= 0 else "", number)
    oracle.sent(message, ID, 0.1)
    return message


def give(oracle: QueueOracle, key: str, at_s: float, attempts: int = 1, queue: str = "plain", as_id: str = ID) -> int:
    (ticket,) = oracle.received(queue, [(key, as_id, attempts)], at_s, at_s + 0.1, 3.0)
    return ticket


def test_a_correct_message_history_is_accepted(oracle: QueueOracle) -> None:
    sent(oracle, "a")
    first = give(oracle, "a", 1.0)
    second = give(oracle, "a", 4.5, attempts=2)
    assert not oracle.is_current("a", first)
    oracle.settling("a", second)
    oracle.settled_now("a", second, 5.0)
    oracle.account()
    assert (oracle.acknowledged, oracle.delivered, oracle.settled) == (1, 2, 1)


def test_an_unsettled_message_must_be_found(oracle: QueueOracle) -> None:
    sent(oracle, "a")
    with pytest.raises(Violation, match="is nowhere"):
        oracle.account()


def test_a_message_must_be_delivered_after_a_settle_with_an_old_receipt(oracle: QueueOracle) -> None:
    sent(oracle, "a")
    first = give(oracle, "a", 1.0)
    give(oracle, "a", 4.5, attempts=2)
    oracle.settling("a", first)
    oracle.settled_now("a", first, 5.0)
    with pytest.raises(Violation, match="is nowhere"):
        oracle.account()
    with pytest.raises(Violation, match="superseded"):
        oracle.changed("a", first, 9.0, was_current=False)


def test_no_other_consumer_gets_a_leased_message(oracle: QueueOracle) -> None:
    sent(oracle, "a")
    ticket = give(oracle, "a", 1.0)
    oracle.changing("a", ticket, 11.0)
    oracle.changed("a", ticket, 11.0, was_current=True)
    with pytest.raises(Violation, match="leased to another consumer until"):
        give(oracle, "a", 9.0, attempts=2)
    oracle.changing("a", ticket, 9.5)
    give(oracle, "a", 9.6, attempts=2)


def test_settled_and_purged_messages_must_not_come_back(oracle: QueueOracle) -> None:
    sent(oracle, "a")
    ticket = give(oracle, "a", 1.0)
    oracle.settling("a", ticket)
    oracle.settled_now("a", ticket, 2.0)
    with pytest.raises(Violation, match="it was settled"):
        give(oracle, "a", 9.0, attempts=2)
    sent(oracle, "b")
    oracle.purged("plain", oracle.purging("plain"), 3.0)
    with pytest.raises(Violation, match="it was purged"):
        give(oracle, "b", 4.0)


def test_a_late_settle_proves_nothing(oracle: QueueOracle) -> None:
    sent(oracle, "a")
    ticket = give(oracle, "a", 1.0)
    oracle.settling("a", ticket)
    oracle.settled_now("a", ticket, 8.0)
    assert give(oracle, "a", 9.0, attempts=2) != ticket


def test_delays_and_times_to_live(oracle: QueueOracle) -> None:
    sent(oracle, "a", delay_s=10.0)
    with pytest.raises(Violation, match="it is due"):
        give(oracle, "a", 9.0)
    sent(oracle, "b", "short")
    with pytest.raises(Violation, match="it expired"):
        give(oracle, "b", 6.0, queue="short")


def test_a_delay_ends_early_by_no_more_than_the_drift_of_the_clocks() -> None:
    oracle = QueueOracle(LAWS, drift_max=0.001)
    sent(oracle, "a", delay_s=60.0)
    give(oracle, "a", 59.85)  # The answer arrives at 59.950.
    sent(oracle, "b", delay_s=60.0)
    with pytest.raises(Violation, match="it is due"):
        give(oracle, "b", 59.82)


def test_attempts_are_consecutive_except_after_lost_answers(oracle: QueueOracle) -> None:
    sent(oracle, "a")
    with pytest.raises(Violation, match="attempt 2 follows 0"):
        give(oracle, "a", 1.0, attempts=2)
    oracle.unanswered("plain", 10, 0.5)
    give(oracle, "a", 1.0, attempts=2)
    with pytest.raises(Violation, match="attempt 2 was seen earlier"):
        give(oracle, "a", 9.0, attempts=2)


def test_a_message_dies_after_exactly_its_attempts(oracle: QueueOracle) -> None:
    sent(oracle, "a", "poison")
    give(oracle, "a", 1.0, queue="poison")
    with pytest.raises(Violation, match="after 1 deliveries of 2"):
        give(oracle, "a", 9.0, attempts=3, queue="dead")
    give(oracle, "a", 9.0, attempts=2, queue="poison")
    with pytest.raises(Violation, match="attempt 3 of 2"):
        give(oracle, "a", 19.0, attempts=3, queue="poison")
    give(oracle, "a", 29.0, attempts=3, queue="dead")
    with pytest.raises(Violation, match="was not moved"):
        give(oracle, "a", 39.0, queue="poison")
    oracle.moving("dead", 40.0)
    give(oracle, "a", 41.0, queue="poison", as_id=ID[:-1] + "2")


def test_two_ids_are_two_messages(oracle: QueueOracle) -> None:
    sent(oracle, "a")
    with pytest.raises(Violation, match="more than once"):
        give(oracle, "a", 1.0, as_id=ID[:-1] + "2")


def test_fifo_groups_are_in_order(oracle: QueueOracle) -> None:
    for number in range(3):
        sent(oracle, str(number), "lines.fifo", number)
    with pytest.raises(Violation, match="overtook"):
        give(oracle, "1", 1.0, queue="lines.fifo")


def test_a_group_is_blocked_until_its_leased_messages_are_settled(oracle: QueueOracle) -> None:
    for number in range(3):
        sent(oracle, str(number), "lines.fifo", number)
    tickets = oracle.received("lines.fifo", [("0", ID, 1), ("1", ID, 1)], 1.0, 1.1, 3.0)
    oracle.settling("0", tickets[0])
    with pytest.raises(Violation, match="overtook 1"):
        give(oracle, "2", 1.5, queue="lines.fifo")


def test_at_most_once_allows_unseen_losses_and_no_second_delivery(oracle: QueueOracle) -> None:
    sent(oracle, "a", "once")
    sent(oracle, "b", "once")
    give(oracle, "a", 1.0, queue="once")
    with pytest.raises(Violation, match="at-most-once"):
        give(oracle, "a", 9.0, attempts=2, queue="once")
    with pytest.raises(Violation, match="consumed unseen"):
        oracle.account()
    oracle.unanswered("once", 1, 0.5)
    oracle.account()


def test_one_at_a_time_and_paused_queues_are_checked(oracle: QueueOracle) -> None:
    sent(oracle, "a", "strict")
    sent(oracle, "b", "strict")
    give(oracle, "a", 1.0, queue="strict")
    with pytest.raises(Violation, match="still leased"):
        give(oracle, "b", 2.0, queue="strict")
    oracle.paused("strict", 10.0)
    with pytest.raises(Violation, match="paused"):
        give(oracle, "a", 11.0, attempts=2, queue="strict")
    oracle.resuming("strict")
    give(oracle, "a", 11.0, attempts=2, queue="strict")


def test_an_unsent_or_refused_message_is_found(oracle: QueueOracle) -> None:
    with pytest.raises(Violation, match="never sent"):
        give(oracle, "a", 1.0)
    oracle.refused(oracle.sending("b", "plain", 0.0))
    with pytest.raises(Violation, match="refused"):
        give(oracle, "b", 1.0)
