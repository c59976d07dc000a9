"""The running verbs of queues against a naive model, under arbitrary requests, times, restarts and power cuts.

The model is a list of messages. What must hold: nothing acknowledged is lost; nothing is given out while leased, before
it is due, after it was settled, purged or has expired, or past what blocks its FIFO group; attempts are exact and end
among the dead letters; repeats within the window get the first answer; and all of it after a crash as before. A call
that a power cut interrupted may have happened or not: then the model waits and sees.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from longhall.broker.checkpoint import checkpoint
from longhall.broker.queues.service import QueueService as Queues
from longhall.errors import Code, LonghallError
from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.queues.messages import Accepted, Delivery, Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings
from simulation.loop import PowerCut
from tests.broker.desk import Desk, Life
from tests.examples import examples

ATTEMPTS_MAX = 3
PLAIN, LINES, LETTERS = "plain", "lines", "letters"
GROUPS = ("a", "b")
LATE_MS = 400  # How long after it is due a message may still be on its way: a sync may take 300 here.
GIVEN_MAX = 40

Ask = Callable[[Queues], Awaitable[Any]]


class Message:
    """One message of the model. `sure` is False while its presence is unknown."""

    def __init__(self, queue: str, body: bytes, group: str, now_ms: int, delay_ms: int, live_ms: int) -> None:
        self.queue = queue
        self.body = body
        self.group = group
        self.due_ms = now_ms + delay_ms
        self.told_ms = now_ms  # When its sender heard of it.
        self.expires_ms = self.due_ms + live_ms if live_ms else 1 << 62
        self.sure = True
        self.gone = False
        self.attempts = 0
        self.hidden_until_ms = 0
        self.receipt = ""
        self.dead = False  # It has been seen among the dead letters.
        self.moved = False  # A redrive may have brought it back since.
        self.stays = 0  # How often it was seen in another place than before.

    def is_doomed(self, now_ms: int) -> bool:
        return self.attempts >= ATTEMPTS_MAX or self.expires_ms <= now_ms


async def _asked(question: Ask, queues: Queues) -> Any:
    return await question(queues)


class DeskMachine(RuleBasedStateMachine):
    """See the module."""

    @initialize(seed=st.integers(0, 1 << 16))
    def start(self, seed: int) -> None:
        self.host = Desk(seed)
        self.messages: dict[bytes, Message] = {}
        self.given: list[tuple[Message, str, str, int]] = []  # With queue, receipt and number of the stay.
        self.repeats: dict[str, tuple[str, int]] = {}
        self.paused: set[str] = set()
        self.purged_ms = -(1 << 62)
        self.life: Life | None = None
        self.boot()
        letters = DeadLetters(queue=LETTERS, attempts_max=ATTEMPTS_MAX)
        self.ask(lambda queues: queues.create(LETTERS, QueueSettings()))
        self.ask(lambda queues: queues.create(PLAIN, QueueSettings(dead_letters=letters)))
        self.ask(lambda queues: queues.create(LINES, QueueSettings(fifo=True, deduplication="id")))

    # The hall and its lives

    def boot(self) -> None:
        self.world = self.host.host.boot(BACKGROUND_JOBS)

        async def begin() -> tuple[Life, Queues]:
            life = Life(self.world, self.host.options)
            await life.hall.commits.durable()
            queues = Queues(life.hall)
            queues.start()
            return life, queues

        self.life, self.queues = self.run(begin())

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        async def outside() -> Any:
            task = self.world.process.start(coroutine)
            await asyncio.wait({task, self.world.process.ended}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() and not isinstance(task.exception(), PowerCut) else None

        result = self.host.simulation.run(outside())
        assert self.host.simulation.loop.failures == []
        assert self.host.simulation.loop.unheard() == []
        return result

    def ask(self, question: Ask) -> Any:
        return self.run(_asked(question, self.queues))

    def now_ms(self) -> int:
        assert self.life is not None
        return self.life.hall.time.now_ms()

    @rule()
    def save(self) -> None:
        assert self.life is not None
        self.run(checkpoint(self.life.hall))

    @rule(how=st.sampled_from(["kill", "cut", "stop", "stop"]), queue=st.sampled_from([PLAIN, PLAIN, LINES]))
    def restart_and_receive(self, how: str, queue: str) -> None:
        self.restart(how)
        self.receive(queue, 10, 5_000)

    def restart(self, how: str) -> None:
        if how == "stop":
            self.save()
            self.run(self.queues.stop())
        (self.host.host.cut_power if how == "cut" else self.host.host.kill)()
        self.boot()

    def interrupted(self, question: Ask, changes: int) -> Any:
        """Ask while the power is about to fail; None if it did before there was an answer."""
        self.host.host.faults.cut_after_changes = changes
        answer = self.ask(question)
        self.host.host.faults.cut_after_changes = -1
        if not self.world.process.alive:
            self.boot()
        return answer

    @rule(ms=st.sampled_from([1, 500, 2_000, 6_000, 75_000, 301_000]))
    def pass_time(self, ms: int) -> None:
        self.run(asyncio.sleep(ms / 1000))

    # Sending

    @rule(
        count=st.integers(1, 5),
        delay_ms=st.sampled_from([0, 0, 0, 1, 800, 70_000]),
        live_ms=st.sampled_from([0, 0, 0, 1_500]),
    )
    def send(self, count: int, delay_ms: int, live_ms: int) -> None:
        messages = [self.note(PLAIN, "", delay_ms, live_ms) for _ in range(count)]
        for accepted in self.ask(
            lambda queues: queues.send(PLAIN, [_outgoing(one, delay_ms, live_ms) for one in messages])
        ):
            assert accepted.code is None
        for message in messages:
            message.told_ms = self.now_ms()

    @rule(changes=st.integers(0, 3), delay_ms=st.sampled_from([0, 500]))
    def send_and_cut(self, changes: int, delay_ms: int) -> None:
        message = self.note(PLAIN, "", delay_ms, 0)
        answer = self.interrupted(lambda queues: queues.send(PLAIN, [_outgoing(message, delay_ms, 0)]), changes)
        message.sure = answer is not None
        message.told_ms = self.now_ms()

    @rule(group=st.sampled_from(GROUPS), again=st.booleans(), name=st.integers(0, 3))
    def send_in_line(self, group: str, again: bool, name: int) -> None:
        """`again` uses one of four ids over and over."""
        message = self.note(LINES, group, 0, 0)
        identity = f"id-{name}" if again else message.body.decode()
        outgoing = _outgoing(message, 0, 0)
        outgoing.deduplication_id = identity
        now_ms = self.now_ms()
        (accepted,) = self.ask(lambda queues: queues.send(LINES, [outgoing]))
        assert isinstance(accepted, Accepted)
        assert accepted.code is None
        first = self.repeats.get(identity)
        if first is not None and now_ms < first[1] + 300_000:
            assert (accepted.message_id, accepted.repeated) == (first[0], True)
            del self.messages[message.body]
        else:
            assert not accepted.repeated
            self.repeats[identity] = (accepted.message_id, self.now_ms())

    def note(self, queue: str, group: str, delay_ms: int, live_ms: int) -> Message:
        body = b"m%d" % len(self.messages) if queue == PLAIN else b"%b%d" % (group.encode(), len(self.messages))
        while body in self.messages:
            body += b"'"
        message = self.messages[body] = Message(queue, body, group, self.now_ms(), delay_ms, live_ms)
        return message

    # Receiving

    @rule(queue=st.sampled_from([PLAIN, PLAIN, LINES]), count=st.integers(1, 10))
    def consume(self, queue: str, count: int) -> None:
        self.receive(queue, count, 5_000)

    @rule(queue=st.sampled_from([PLAIN, LINES, LETTERS]))
    def consume_and_give_back(self, queue: str) -> None:
        """Again and again: this is how messages come to die."""
        for message in self.receive(queue, 2, 5_000):
            changes = [(message.receipt, 0)]
            assert self.ask(partial(Queues.change_lease, name=queue, changes=changes)) == [None]
            message.hidden_until_ms = 0

    def receive(self, queue: str, count: int, lease_ms: int) -> list[Message]:
        asked_ms = self.now_ms()
        before = list(self.messages.values())
        deliveries = self.ask(lambda queues: queues.receive(queue, count, 0, lease_ms, ""))
        assert len(deliveries) <= count
        assert not (deliveries and queue in self.paused)
        if not deliveries and queue not in self.paused:
            assert not [one.body for one in before if self.must_come(queue, one, asked_ms)]
        return [self.take(queue, delivery, deliveries, lease_ms) for delivery in deliveries]

    def take(self, queue: str, delivery: Delivery, together: list[Delivery], lease_ms: int) -> Message:
        message = self.messages[delivery.body]
        now_ms = self.now_ms()
        message.sure = True
        assert not message.gone
        assert message.hidden_until_ms <= now_ms
        assert message.due_ms <= now_ms
        if queue == LETTERS:
            assert message.dead or message.is_doomed(now_ms), "it died too early"
            if not message.dead:
                message.attempts = 0
                message.stays += 1
            message.dead, message.moved = True, False
        elif message.moved and delivery.attempts <= message.attempts:
            message.dead, message.moved, message.attempts = False, False, 0
            message.expires_ms = 1 << 62
            message.stays += 1
        if queue != LETTERS:
            assert message.queue == queue
            assert not message.dead
            assert message.attempts < ATTEMPTS_MAX or queue == LINES
        assert delivery.attempts == message.attempts + 1
        if queue == LINES:
            self.check_line(message, [one.body for one in together])
        message.attempts += 1
        message.receipt = delivery.receipt
        message.hidden_until_ms = now_ms + lease_ms - LATE_MS
        self.given = [*self.given[-GIVEN_MAX:], (message, queue, delivery.receipt, message.stays)]
        return message

    def check_line(self, message: Message, together: list[bytes]) -> None:
        """Whatever came before it in its group is gone, or comes with it and before it."""
        for other in self.messages.values():
            if other is message:
                return
            if other.queue == LINES and other.group == message.group and other.sure and not other.gone:
                assert other.body in together[: together.index(message.body)], "it was overtaken"

    def must_come(self, queue: str, message: Message, now_ms: int) -> bool:
        """Whether an empty answer would be wrong."""
        if message.gone or not message.sure or message.moved or message.hidden_until_ms + 2 * LATE_MS > now_ms:
            return False
        if message.queue == LINES == queue:
            return not any(
                other.queue == LINES and other.group == message.group and other.hidden_until_ms + 2 * LATE_MS > now_ms
                for other in self.messages.values()
                if not other.gone
            )
        if queue == LETTERS:
            return message.dead
        # It may be due while its own send still waits for the disk, and is moved after that.
        due = max(message.due_ms, message.told_ms) + LATE_MS <= now_ms
        return message.queue == queue == PLAIN and due and not message.dead and not message.is_doomed(now_ms)

    # What consumers say

    @precondition(lambda self: self.given)
    @rule(pick=st.integers(0, GIVEN_MAX), what=st.sampled_from(["settle", "settle", "settle", "extend", "return"]))
    def say(self, pick: int, what: str) -> None:
        message, queue, receipt, stay = self.given[pick % len(self.given)]
        current = receipt == message.receipt and not message.gone
        if what == "settle":
            (code,) = self.ask(lambda queues: queues.settle(queue, [receipt]))
            self.hear_settle(message, code, current, stay)
            return
        lease_ms = 9_000 if what == "extend" else 0
        leased = current and message.sure and message.hidden_until_ms > self.now_ms() and not message.moved
        (code,) = self.ask(lambda queues: queues.change_lease(queue, [(receipt, lease_ms)]))
        assert code is None or not leased
        assert code is not None or current
        if code is None:
            message.hidden_until_ms = self.now_ms() + lease_ms - LATE_MS if lease_ms else 0

    def hear_settle(self, message: Message, code: Code | None, current: bool, stay: int) -> None:
        if current and code is None:
            if message.hidden_until_ms > self.now_ms() or message.queue == LINES:
                message.gone = True
            else:
                message.sure = False  # Late: it was settled, unless it had died meanwhile.
        elif current:
            assert code is Code.RECEIPT_SUPERSEDED
            assert message.moved, "nobody else has it"
        else:
            left = stay != message.stays or message.moved or message.is_doomed(self.now_ms())
            assert message.gone or not message.sure or code is not None or left, "an old receipt settled it"

    @precondition(lambda self: self.given)
    @rule(pick=st.integers(0, GIVEN_MAX), changes=st.integers(0, 2))
    def settle_and_cut(self, pick: int, changes: int) -> None:
        message, queue, receipt, stay = self.given[pick % len(self.given)]
        current = receipt == message.receipt and not message.gone
        answer = self.interrupted(lambda queues: queues.settle(queue, [receipt]), changes)
        if answer is not None:
            self.hear_settle(message, answer[0], current, stay)
        elif current:
            message.sure = False

    # The queue as a thing

    @rule(what=st.sampled_from(["plain", "lines", "purge", "redrive", "redrive", "crash"]))
    def manage(self, what: str) -> None:
        if what == "purge":
            self.purge()
        elif what in (PLAIN, LINES):
            self.switch(what)
        else:
            self.redrive(what == "crash")

    def switch(self, queue: str) -> None:
        paused = queue not in self.paused
        self.ask(lambda queues: queues.switch(queue, paused))
        self.paused ^= {queue}

    def purge(self) -> None:
        async def question(queues: Queues) -> Code | None:
            try:
                await queues.purge(PLAIN)
            except LonghallError as error:
                return error.code
            return None

        now_ms = self.now_ms()
        code = self.ask(question)
        assert (code is Code.PURGE_RUNNING) == (now_ms < self.purged_ms + 60_000)
        if code is not None:
            return
        self.purged_ms = now_ms
        for message in self.messages.values():
            if message.queue == PLAIN and (message.moved or not message.dead):
                # What is doomed may be among the dead letters already, which nobody purged; what was moved is back.
                if message.is_doomed(self.now_ms()) or message.moved:
                    message.sure = False
                else:
                    message.gone = True

    def redrive(self, crash: bool) -> None:
        def question(queues: Queues) -> Coroutine[Any, Any, Any]:
            return queues.start_move(LETTERS, "", 0)

        if crash:
            self.interrupted(question, 4)
        else:
            self.ask(question)
        self.run(asyncio.sleep(1.0))
        assert all(task.state == "COMPLETED" for task in self.queues.moves(LETTERS))
        for message in self.messages.values():
            if message.queue == PLAIN and (message.dead or message.is_doomed(self.now_ms())):
                message.moved = True

    def teardown(self) -> None:
        if hasattr(self, "host"):
            try:
                self.come_to_an_end()
            finally:
                self.bury_the_dead()

    def bury_the_dead(self) -> None:
        """Coroutines of killed processes run their last words when they are collected: now, and on no other's loop."""
        self.host.simulation.close()
        del self.host, self.world, self.life, self.queues
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        gc.collect()
        sys.unraisablehook = hook

    def come_to_an_end(self) -> None:
        """Everything comes out, once, and nothing is left."""
        for queue in list(self.paused):
            self.switch(queue)
        for _ in range(12):
            self.pass_time(40_000)
            for queue in (PLAIN, LINES, LETTERS):
                while found := self.receive(queue, 10, 5_000):
                    receipts = [message.receipt for message in found]
                    codes = self.ask(partial(Queues.settle, name=queue, receipts=receipts))
                    assert codes == [None] * len(found)
                    for message in found:
                        message.gone = True
            if all(message.gone or not message.sure for message in self.messages.values()):
                break
        assert [one.body for one in self.messages.values() if one.sure and not one.gone] == []
        self.restart("cut")
        for queue in (PLAIN, LINES, LETTERS):
            assert self.receive(queue, 10, 5_000) == []
            depth = self.queues.depth(queue)
            assert (depth.available, depth.in_flight, depth.delayed) == (0, 0, 0)


def _outgoing(message: Message, delay_ms: int, live_ms: int) -> Outgoing:
    return Outgoing(body=message.body, group=message.group, delay_ms=delay_ms, time_to_live_ms=live_ms)


TestDesk = DeskMachine.TestCase
TestDesk.settings = hypothesis.settings(max_examples=examples(40), stateful_step_count=60, deadline=None)
TestDesk.pytestmark = [pytest.mark.filterwarnings("ignore::RuntimeWarning"), pytest.mark.timeout(900)]
