"""What a queue promises, one promise a test."""

from __future__ import annotations

import pytest

from longhall.errors import Code
from longhall.queues.events import Died, LaneOpened, Recounted
from longhall.queues.outcomes import GONE, LENGTH, UNREADABLE, Candidate, Overflow, Status
from longhall.queues.queue import Queue
from longhall.queues.settings import DeadLetters, QueueSettings
from tests.queues.desk import QUEUE, Desk, durable


def test_an_expired_lease_makes_the_message_available_with_its_history() -> None:
    desk = Desk(QueueSettings())
    desk.send(2)
    (first,) = desk.receive(1000, lease_ms=500)
    assert desk.offsets(1499, count=5) == [1]
    assert desk.queue.next_deadline_ms() == 1500
    assert desk.queue.tick(1500)
    (again,) = desk.receive(1500)
    assert (again.candidate.offset, again.attempts, again.first_ms) == (0, 2, 1000)
    assert again.number > first.number


def test_returned_messages_are_delivered_before_the_scan_moves_on() -> None:
    desk = Desk(QueueSettings())
    desk.send(5)
    given = desk.receive(0, count=3)
    assert desk.give_back(10, given[2]) is None
    assert desk.give_back(10, given[0]) is None
    assert desk.offsets(10, count=3) == [0, 2, 3]


def test_a_late_settle_is_accepted_until_another_consumer_has_the_message() -> None:
    desk = Desk(QueueSettings())
    desk.send(2)
    late, other = desk.receive(0, count=2, lease_ms=100)
    assert desk.settle(500, late) == [None]
    assert desk.queue.state.processing_times.outlived == 1
    assert desk.queue.state.processing_times.safe_lease_ms() >= 500
    assert desk.offsets(600, count=2) == [1]
    assert desk.settle(600, other) == [Code.RECEIPT_SUPERSEDED]
    assert desk.settle(600, late) == [None]  # Again, which is fine.
    assert desk.queue.superseded == 1


def test_an_extended_lease_lasts_and_an_ended_one_cannot_be_extended() -> None:
    desk = Desk(QueueSettings())
    desk.send()
    (given,) = desk.receive(0, lease_ms=100)
    assert desk.extend(90, given, 1000) is None
    assert desk.offsets(1089) == []
    assert desk.extend(1090, given, 1000) is Code.NOT_IN_FLIGHT
    assert desk.offsets(1090) == [0]


def test_a_message_returned_with_a_delay_is_hidden_for_it() -> None:
    desk = Desk(QueueSettings())
    desk.send()
    (given,) = desk.receive(0)
    assert desk.give_back(10, given, delay_ms=50) is None
    assert (desk.queue.in_flight, desk.queue.held_back) == (0, 1)
    assert desk.offsets(59) == []
    assert desk.offsets(60) == [0]


@pytest.mark.parametrize("before", [0, 1, 2])
def test_an_unseen_delivery_is_no_attempt_and_is_redelivered_at_the_lease_end(before: int) -> None:
    desk = Desk(QueueSettings(dead_letters=DeadLetters(queue="letters", attempts_max=before + 1)))
    desk.send()
    for at in range(before):
        (given,) = desk.receive(at * 100, lease_ms=100)
    for at in range(before, 20):
        (unseen,) = desk.receive(at * 100, lease_ms=100)
        assert (unseen.attempts, unseen.first_ms) == (before + 1, 0 if before else at * 100)
        assert desk.withhold(at * 100 + 50, unseen) is None
        assert desk.withhold(at * 100 + 50, unseen) is Code.RECEIPT_SUPERSEDED
        assert (desk.queue.in_flight, desk.queue.held_back) == (0, 1)
        assert desk.offsets(at * 100 + 99) == []
        desk.queue = desk.replayed(False)
    assert len(desk.queue.history_of(0, 0)) == before
    (seen,) = desk.receive(5000)
    assert seen.attempts == before + 1
    if before:
        assert desk.settle(5000, given) == [Code.RECEIPT_SUPERSEDED]
    assert desk.offsets(10_000) == []
    assert [(death.reason, death.attempts) for death in desk.dead] == [("attempts", before + 1)]


def test_an_unseen_delivery_is_no_attempt_after_its_lease_has_ended() -> None:
    desk = Desk(QueueSettings())
    desk.send(2)
    first, second = desk.receive(0, count=2, lease_ms=100)
    desk.queue.tick(200)
    assert desk.withhold(200, first) is None
    again = desk.receive(300, count=2)
    assert [given.attempts for given in again] == [1, 2]
    assert desk.withhold(300, second) is Code.RECEIPT_SUPERSEDED


def test_forged_receipts_are_refused() -> None:
    desk = Desk(QueueSettings())
    desk.send()
    (given,) = desk.receive(0)
    receipts = [(0, 0, given.number + 1), (9, 0, given.number), (0, 0, 0)]
    assert desk.queue.decide_settle(0, receipts) == ([], [Code.INVALID_RECEIPT] * 3)


@pytest.mark.parametrize("attempts_max", [1, 2, 5])
def test_messages_die_after_exactly_attempts_max(attempts_max: int) -> None:
    desk = Desk(QueueSettings(dead_letters=DeadLetters(queue="letters", attempts_max=attempts_max)))
    desk.send()
    now_ms = 0
    for attempt in range(1, attempts_max + 1):
        (given,) = desk.receive(now_ms, lease_ms=10)
        assert given.attempts == attempt
        now_ms += 10
    assert desk.receive(now_ms) == []
    assert [(death.reason, death.attempts) for death in desk.dead] == [("attempts", attempts_max)]
    assert desk.queue.state.messages == 0


def test_expired_messages_die_undelivered() -> None:
    desk = Desk(QueueSettings())
    desk.send(200, expires_ms=100)
    desk.send(1)
    assert desk.offsets(100) == [200]
    assert len(desk.dead) == 200
    assert desk.queue.state.deaths == {"expired": 200}
    assert desk.queue.cursor(0).floor() == 200


def test_a_message_returned_repeatedly_expires_once() -> None:
    desk = Desk(QueueSettings())
    desk.send(expires_ms=5000)
    desk.send(expires_ms=5000)
    for now_ms in range(1000, 1400, 100):
        for given in desk.receive(now_ms, 2):
            desk.give_back(now_ms, given)
    outcome = desk.queue.decide_expire(6000, desk.peek)
    assert [death.offset for death in outcome.deaths] == [0, 1]
    assert all(death.attempts == 4 for death in outcome.deaths)


def test_the_bound_of_messages_in_flight_stops_the_scan() -> None:
    desk = Desk(QueueSettings(in_flight_max=3))
    desk.send(10)
    given = desk.receive(0, count=10)
    assert len(given) == 3
    assert desk.ask(1).status is Status.TOO_MANY
    desk.settle(2, given[0])
    assert desk.offsets(3, count=10) == [3]


def test_higher_priorities_are_first_and_equal_lanes_rotate() -> None:
    desk = Desk(QueueSettings(priorities=2), {1: 0, 2: 5, 3: 0})
    for lane in (1, 2, 3):
        desk.send(4, lane)
    lanes = [given.lane for given in desk.receive(0, count=4)]
    assert lanes == [2, 2, 2, 2]
    firsts = {desk.receive(0)[0].lane for _ in range(2)}
    assert firsts == {1, 3}


def test_one_by_one_waits_for_the_one_before() -> None:
    desk = Desk(QueueSettings(one_by_one=True))
    desk.send(3)
    (given,) = desk.receive(0, count=10)
    assert desk.ask(1).status is Status.BUSY
    desk.settle(2, given)
    assert desk.offsets(3) == [1]


def test_at_most_once_never_redelivers() -> None:
    desk = Desk(QueueSettings(delivery="at-most-once"))
    desk.send(2)
    assert desk.offsets(0, lease_ms=1) == [0]
    assert desk.offsets(1000, count=5) == [1]
    assert desk.queue.in_flight == desk.queue.state.messages == 0


def test_a_group_is_delivered_in_order_and_blocks_meanwhile() -> None:
    desk = Desk(QueueSettings(fifo=True))
    for group in "aabacb":
        desk.send(1, group=group)
    first = desk.receive(0, count=2)
    assert [given.candidate.offset for given in first] == [0, 1]
    assert desk.offsets(1, count=10) == [2, 5, 4]
    assert desk.give_back(2, first[0]) is None
    (again,) = desk.receive(3, count=10)
    assert again.candidate.offset == 0  # The second of them is still out, and nothing overtakes it.
    desk.settle(4, first[1])
    assert desk.offsets(5, count=10) == []
    desk.settle(6, again)
    assert desk.offsets(7, count=10) == [3]


def test_a_fifo_request_gets_as_many_messages_of_one_group_as_possible() -> None:
    desk = Desk(QueueSettings(fifo=True))
    for group in "abcabcabc":
        desk.send(1, group=group)
    assert desk.offsets(0, count=2) == [0, 3]
    assert desk.offsets(1, count=4) == [1, 4, 7, 2]
    assert desk.offsets(2, count=10) == []


def test_groups_that_were_delivered_before_follow_the_others_in_a_reply() -> None:
    desk = Desk(QueueSettings(fifo=True))
    for group in "aab":
        desk.send(1, group=group)
    first = desk.receive(0, count=2)
    for given in first:
        assert desk.give_back(1, given) is None
    assert desk.offsets(2, count=10) == [2, 0, 1]


@pytest.mark.parametrize("out", [0, 1, 2])
def test_a_fifo_group_is_available_up_to_the_first_message_that_is_out(out: int) -> None:
    desk = Desk(QueueSettings(fifo=True))
    desk.send(3, group="a")
    taken = desk.receive(0, count=3)
    for index, given in enumerate(taken):
        if index != out:
            assert desk.give_back(1, given) is None
    assert desk.offsets(2, count=10) == list(range(out))


def test_the_scan_of_a_fifo_queue_stops_when_too_much_is_passed() -> None:
    desk = Desk(QueueSettings(fifo=True), passed_max=10)
    desk.send(50, group="a")
    desk.send(1, group="b")
    (given,) = desk.receive(0)
    assert desk.ask(1, count=5).status is Status.TOO_MANY
    assert desk.queue.available_again == 10
    desk.settle(2, given)
    assert desk.offsets(3, count=12) == list(range(1, 13))


def test_a_group_with_much_in_flight_yields_to_others() -> None:
    desk = Desk(QueueSettings(fair=True))
    desk.send(20, group="loud")
    desk.receive(0, count=10)
    desk.send(2, group="quiet")
    assert {given.candidate.group for given in desk.receive(1, count=2)} == {"quiet"}
    assert desk.offsets(2, count=2) == [10, 11]  # What was passed over is next.


def test_cold_messages_are_requested() -> None:
    desk = Desk(QueueSettings())
    desk.send(4)
    desk.cold_from[0] = 2
    assert desk.offsets(0, count=4) == [0, 1]
    outcome = desk.ask(0, count=4)
    assert (outcome.status, outcome.cold_lane, outcome.cold_offset) == (Status.COLD, 0, 2)
    assert desk.offsets(0, count=4) == [2, 3]


def test_gaps_are_passed_and_lost_messages_die() -> None:
    desk = Desk(QueueSettings())
    desk.send(1)
    desk.receive(0, lease_ms=5)
    desk.logs[0] = [Candidate(1, 40, -1)]
    desk.ends[0] = 40
    assert desk.offsets(10) == []
    assert [(death.offset, death.reason) for death in desk.dead] == [(0, GONE)]
    assert desk.queue.waiting([(0, 40)]) == 0


def test_purged_messages_are_not_delivered() -> None:
    desk = Desk(QueueSettings())
    desk.send(5)
    given = desk.receive(0, count=2, lease_ms=10)
    event = desk.queue.decide_purge(1, [(0, 5)], apart_ms=60_000)
    assert not isinstance(event, Code)
    desk.write(event)
    assert desk.queue.decide_purge(2, [(0, 5)], apart_ms=60_000) is Code.PURGE_RUNNING
    assert desk.settle(3, *given) == [None, None]
    desk.send(1)
    assert desk.offsets(1000, count=10) == [5]


def test_a_rewind_redelivers_everything_except_earlier_leases() -> None:
    desk = Desk(QueueSettings(settled="keep"))
    desk.send(6)
    given = desk.receive(0, count=6)
    desk.settle(1, *given[1:])
    event = desk.queue.decide_rewind(0, 3, 4, 40)
    assert not isinstance(event, Code)
    desk.write(event)
    assert desk.settle(2, given[4]) == [Code.RECEIPT_SUPERSEDED]
    assert desk.offsets(3, count=10) == [3, 4, 5]
    assert desk.queue.state.messages == 4
    assert desk.queue.decide_rewind(0, 7, 0, 0) is Code.OFFSET_OUT_OF_RANGE
    assert durable(desk.replayed(False)) == durable(desk.queue)


def test_a_fork_is_a_separate_queue_on_the_same_log() -> None:
    desk = Desk(QueueSettings(settled="keep"))
    desk.send(4)
    desk.settle(1, *desk.receive(0, count=4))
    fork = Queue(8, desk.settings)
    fork.apply(LaneOpened(queue=8, lane=0, start=2))
    outcome = fork.decide_receive(2, 10, 1000, desk.peek)
    assert [given.candidate.offset for given in outcome.given] == [2, 3]


def test_a_full_queue_refuses_waits_or_drops_its_oldest() -> None:
    desk = Desk(QueueSettings(when_full="refuse", messages_max=3, bytes_max=1000))
    desk.send(3)
    assert desk.queue.decide_send(1, 10) is Code.QUEUE_FULL
    desk.settle(0, *desk.receive(0))
    assert desk.queue.decide_send(1, 10) is None
    desk.queue.configure(QueueSettings(when_full="wait", messages_max=3, bytes_max=1000))
    verdict = desk.queue.decide_send(2, 10)
    assert isinstance(verdict, Overflow)
    assert verdict.wait
    desk.queue.configure(QueueSettings(when_full="drop-oldest", messages_max=3, bytes_max=1000))
    assert desk.queue.decide_send(4, 10) is Code.QUEUE_FULL
    verdict = desk.queue.decide_send(3, 10)
    assert isinstance(verdict, Overflow)
    outcome = desk.queue.decide_drop(1, verdict.messages, verdict.bytes, desk.peek)
    for event in outcome.events:
        desk.write(event)
    desk.bury(outcome)
    assert [(death.offset, death.reason) for death in desk.dead] == [(1, LENGTH), (2, LENGTH)]
    assert desk.queue.decide_send(3, 10) is None


def test_one_unsettled_message_keeps_no_memory() -> None:
    desk = Desk(QueueSettings())
    desk.send(1)
    (straggler,) = desk.receive(0, lease_ms=1 << 40)
    for _ in range(50):
        desk.send(100)
        desk.settle(1, *desk.receive(1, count=100))
    cursor = desk.queue.cursor(0)
    assert (cursor.floor(), cursor.outstanding) == (0, 1)
    assert cursor.dead_ranges(0, 1 << 40) == [(1, 5001)]
    desk.settle(2, straggler)
    assert cursor.floor() == 5001


def test_a_recount_replaces_the_counts() -> None:
    desk = Desk(QueueSettings())
    desk.send(5)
    desk.write(Recounted(queue=QUEUE, messages=2, bytes=20))
    assert (desk.queue.state.messages, desk.queue.state.bytes) == (2, 20)
    desk.write(Died(queue=QUEUE, lane=0, offsets=[3], reason=GONE))  # Not outstanding: nothing happens.
    assert desk.queue.state.messages == 2


def test_a_blocked_scan_does_not_block_other_lanes() -> None:
    desk = Desk(QueueSettings(fifo=True, priorities=2), {1: 0, 2: 5}, passed_max=3)
    desk.send(4, lane=1, group="a")
    assert len(desk.receive(0, count=3, lease_ms=10)) == 3
    desk.send(1, lane=2, group="b", expires_ms=5)
    desk.send(2, lane=2, group="b")
    # The first one of lane 2 dies, and the ones behind it would have to be passed: there is no room for that.
    assert [(given.lane, given.candidate.offset) for given in desk.receive(20)] == [(1, 0)]
    assert [(given.lane, given.candidate.offset) for given in desk.receive(20)] == [(2, 1)]


def test_messages_in_a_retry_delay_count_as_in_flight() -> None:
    desk = Desk(QueueSettings(in_flight_max=2))
    desk.send(4)
    given = desk.receive(0, count=2)
    assert desk.give_back(1, given[0], delay_ms=500) is None
    assert desk.ask(2).status is Status.TOO_MANY


def test_an_unreadable_message_stays_in_its_queue_and_holds_back_its_group() -> None:
    desk = Desk(QueueSettings(fifo=True, deduplication="id"))
    for group in ("a", "b", "a", "b"):
        desk.send(1, group=group)
    desk.receive(0, count=4, lease_ms=100)
    desk.queue.tick(100)
    readable = desk.logs[0][0]
    desk.logs[0][0] = Candidate(0, 1, UNREADABLE)
    assert desk.offsets(100, count=4) == [1, 3]
    desk.logs[0][0] = readable
    assert desk.offsets(100, count=4) == [0, 2]


def test_the_scan_does_not_pass_an_unreadable_message() -> None:
    desk = Desk(QueueSettings())
    desk.send(3)
    readable = desk.logs[0][1]
    desk.logs[0][1] = Candidate(1, 2, UNREADABLE)
    assert desk.offsets(0, count=3) == [0]
    desk.logs[0][1] = readable
    assert desk.offsets(0, count=3) == [1, 2]
