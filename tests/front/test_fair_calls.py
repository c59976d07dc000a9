"""Fair shares of calls: the tenants of a busy process take turns, and nobody waits in one that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from longhall.broker.pending import Pending
from longhall.cluster.rpc.operation import Caller, Operation
from longhall.errors import Code, LonghallError
from longhall.front.fair_calls import CALL_BYTES, COUNTED_S, FairCalls
from longhall.front.fairness import WINDOW_BYTES, Fairness
from longhall.queues.messages import Outgoing
from longhall.service.queue_operations import ReceiveMessages, SendMessages

WINDOW_CALLS = WINDOW_BYTES // CALL_BYTES
LOUD = Caller("ann", tenant="loud", door="sqs")
QUIET = Caller("bob", tenant="quiet", door="amqp")


class House:
    """A process whose broker completes calls in their order, and the loop that runs what comes later."""

    def __init__(self) -> None:
        self.fairness = Fairness()
        self.later: list[Callable[[], None]] = []
        self.fairness.later = self.later.append
        self.now_s = 1.0
        self.timers: list[Callable[[], None]] = []
        self.calls = FairCalls(self.fairness, lambda: self.now_s, lambda _, look: self.timers.append(look))
        self.begun: list[tuple[str, Operation[Any], Pending[Any]]] = []

    def carry_out(self, operation: Operation[Any], caller: Caller) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        self.begun.append((caller.tenant, operation, pending))
        return pending

    def call(self, caller: Caller, name: str = "q", size_bytes: int = 0) -> Pending[Any]:
        operation = SendMessages(name, [Outgoing(body=bytes(size_bytes))])
        return self.calls.pass_on(operation, caller, self.carry_out)

    def wait(self, seconds: float) -> None:
        """Let time pass, and run timers and what comes later."""
        self.now_s += seconds
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()
        while self.later:
            self.later.pop(0)()

    def commit(self, count: int) -> list[str]:
        """Complete the oldest calls; returns the tenants whose calls begin then."""
        done, self.begun = self.begun[:count], self.begun[count:]
        before = len(self.begun)
        for _, operation, pending in done:
            assert isinstance(operation, SendMessages)
            pending.complete(operation.queue)
        while self.later:
            self.later.pop(0)()
        return [tenant for tenant, _, _ in self.begun[before:]]


def test_nobody_waits_while_less_than_a_window_is_under_way() -> None:
    house = House()
    for _ in range(WINDOW_CALLS // 4):
        house.call(LOUD)
        house.call(QUIET)
    assert len(house.begun) == WINDOW_CALLS // 4 * 2
    assert house.fairness.waits == 0


def test_a_tenant_alone_never_waits() -> None:
    house = House()
    for _ in range(3 * WINDOW_CALLS):
        house.call(LOUD)
    assert len(house.begun) == 3 * WINDOW_CALLS
    assert not house.calls.is_behind(LOUD)


def test_the_loud_tenant_waits_for_its_own_calls_and_the_quiet_one_does_not_wait() -> None:
    house = House()
    house.call(QUIET)
    replies = [house.call(LOUD, str(number)) for number in range(3 * WINDOW_CALLS)]
    begun = len(house.begun)
    assert begun < WINDOW_CALLS + 10
    assert house.calls.is_behind(LOUD)
    for _ in range(20):
        house.call(QUIET)
    assert [tenant for tenant, _, _ in house.begun[begun:]] == ["quiet"] * 20
    while house.begun:
        house.commit(50)
    assert [reply.result() for reply in replies] == [str(number) for number in range(len(replies))]
    assert house.fairness.held_bytes == 0
    assert not house.calls.is_behind(LOUD)


def test_two_loud_tenants_have_the_same_share() -> None:
    house = House()
    for _ in range(3 * WINDOW_CALLS):
        house.call(LOUD)
        house.call(QUIET)
    begun = []
    for _ in range(20):
        begun += house.commit(40)
    assert len(begun) > 200
    assert abs(begun.count("loud") - begun.count("quiet")) <= 40


def test_large_messages_count_with_their_bytes() -> None:
    house = House()
    house.call(QUIET)
    for _ in range(40):
        house.call(LOUD, size_bytes=1 << 20)
    assert len(house.begun) < 20


def test_calls_of_a_tenant_begin_in_their_order() -> None:
    house = House()
    house.call(QUIET)
    for number in range(3 * WINDOW_CALLS):
        house.call(LOUD, f"q{number}")
    order = []
    while house.begun:
        order += [operation.queue for tenant, operation, _ in house.begun[:100] if tenant == "loud"]
        house.commit(100)
        house.call(QUIET) if len(order) < WINDOW_CALLS else None
    assert order == [f"q{number}" for number in range(3 * WINDOW_CALLS)]


def test_a_receive_that_waits_for_messages_does_not_count() -> None:
    house = House()
    for caller in (LOUD, QUIET):
        for _ in range(2 * WINDOW_CALLS):
            house.calls.pass_on(ReceiveMessages("q", 1, 20_000), caller, house.carry_out)
    assert house.fairness.held_bytes == 0
    assert not house.calls.is_behind(LOUD)


def test_a_receive_whose_client_goes_away_while_it_waits_for_its_turn_never_begins() -> None:
    house = House()
    house.call(QUIET)
    for _ in range(2 * WINDOW_CALLS):
        house.call(LOUD)
    receive = house.calls.pass_on(ReceiveMessages("q", 1, 20_000), LOUD, house.carry_out)
    receive.cancel()
    sent = house.call(LOUD, "last")
    sent.cancel()  # Without effect: what changes something is carried out.
    kinds = []
    while house.begun:
        kinds += [type(operation) for _, operation, _ in house.begun[:100]]
        house.commit(100)
    assert ReceiveMessages not in kinds
    assert sent.result() == "last"


def test_a_refusal_reaches_the_caller_of_a_call_that_waited() -> None:
    house = House()
    house.call(QUIET)
    for _ in range(2 * WINDOW_CALLS):
        house.call(LOUD)

    def refuse(operation: Operation[Any], caller: Caller) -> Pending[Any]:
        raise LonghallError(Code.NOT_READY, "the leader has changed")

    refused = house.calls.pass_on(SendMessages("q", []), LOUD, refuse)
    while house.begun:
        house.commit(100)
    with pytest.raises(LonghallError, match="the leader has changed"):
        refused.result()


def test_calls_that_hang_cost_their_tenant_its_turns_for_a_moment_only() -> None:
    house = House()
    house.call(QUIET)
    for _ in range(2 * WINDOW_CALLS):
        house.call(LOUD, "hung")
    healthy = house.call(LOUD, "healthy")
    for _ in range(20):  # Nothing of what was begun is ever done.
        house.wait(COUNTED_S)
        house.call(QUIET)
    assert [operation.queue for _, operation, _ in house.begun].count("healthy") == 1
    house.commit(len(house.begun))
    assert healthy.result() == "healthy"
    assert house.fairness.held_bytes == 0
    house.wait(1)
    assert not house.timers, "nothing is looked for while nobody waits"
