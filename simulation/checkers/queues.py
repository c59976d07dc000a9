"""The oracle of queues: raises a Violation where no correct queue could have behaved as clients saw it behave.

Lost           an acknowledged message that no client tried to settle or purge is found at the end
Leased         no client gets a message before the lease of another delivery has certainly ended, in any queue
Settled        a message settled under a valid lease is never delivered again, nor one that was purged before
Stale          a receipt that a later delivery superseded changes nothing
Early, late    a delay never ends early; an expired message is not delivered
Attempts       each delivery counts one; a gap needs a receive without an answer, or, in several wings, a receive that
               got the messages of another wing; a message dies after exactly N of both
Order          in a FIFO group no message overtakes an unsettled one, and one deduplication id is stored once
Whole          the body is what was sent, to the last byte
Moves          a message moves between queues only by dead-lettering or a redrive, and exists once

Deliveries must be reported in the order in which the node decided them: clients give up an answer before its lease can
end. Every body is sent under one key. In a cluster a request that a client gave up may still be carried out for
`linger_s`.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterable
from typing import final

from simulation.checkers.messages import ANY, NEVER, SLACK_S, Law, Message
from simulation.checkers.sends import Outcome
from simulation.checkers.violation import Violation, demand


@final
class QueueOracle:
    """All queues of a run: one oracle, because messages move between queues."""

    def __init__(
        self, laws: Iterable[Law], *, linger_s: float = 0.0, slack_s: float = SLACK_S, drift_max: float = 0.0
    ) -> None:
        """`drift_max` is the drift of the hosts' clocks, in seconds a second: no node measures a delay or a lease more
        exactly than its clock runs.
        """
        self.laws = {law.name: law for law in laws}
        self.messages: dict[str, Message] = {}
        self.sends = 0
        self.acknowledged = 0
        self.delivered = 0
        self.settled = 0
        self.dead = 0
        self.moves = 0
        # By queue and group: messages that may still be delivered.
        self._lines: dict[tuple[str, str], dict[int, Message]] = {}
        self._linger_s = linger_s
        self._slack_s = slack_s
        self._drift_max = drift_max
        self._lost_receives: dict[str, list[float]] = {queue: [] for queue in self.laws}  # When each was given up.
        self._purges_until_s: dict[str, float] = {}  # A purge that was given up may be carried out until then.
        self._swallowed: dict[str, int] = dict.fromkeys(self.laws, 0)
        self._moved_s: dict[str, float] = {}  # By source: when a redrive was first requested.
        self._strict: dict[str, Message] = {}
        self._paused_s: dict[str, float] = {}

    # Sending.

    def sending(
        self, key: str, queue: str, asked_s: float, delay_s: float = 0.0, group: str = "", number: int = -1
    ) -> Message:
        """A message is about to be sent for the first time."""
        assert key not in self.messages, key
        message = self.messages[key] = Message(key, queue, group, number, asked_s, delay_s)
        message.purge_possible = asked_s < self._purges_until_s.get(queue, 0.0)
        self.sends += 1
        if group:
            self._lines.setdefault((queue, group), {})[number] = message
        return message

    def marked(self, message: Message, body: str) -> None:
        """Record the checksum of the body."""
        message.mark = zlib.crc32(body.encode())

    def opened(self, key: str, body: str) -> None:
        """A consumer read the body."""
        message = self.messages[key]
        demand(message.mark in (0, zlib.crc32(body.encode())), f"{message} has another body than was sent")

    def sent(self, message: Message, message_id: str, now_s: float) -> None:
        """The send was acknowledged, perhaps as a duplicate."""
        if message.outcome is not Outcome.ACKNOWLEDGED:
            message.outcome = Outcome.ACKNOWLEDGED
            message.acknowledged_s = now_s
            self.acknowledged += 1
        if message_id:
            self._same_id(message, message_id)

    def refused(self, message: Message) -> None:
        if message.outcome is Outcome.OPEN:
            message.outcome = Outcome.REFUSED

    def lost_sight(self, message: Message) -> None:
        if message.outcome is Outcome.OPEN:
            message.outcome = Outcome.UNKNOWN

    def _same_id(self, message: Message, message_id: str) -> None:
        if message.at == message.home and not message.message_id:
            message.message_id = message_id
        known = message.message_id
        demand(known in ("", message_id), f"{message} exists more than once: as {known} and as {message_id}")

    # Receiving.

    def unanswered(self, queue: str, count: int, now_s: float) -> None:
        """A receive of so many got no answer: it may have leased messages or, in an at-most-once queue, consumed
        them.
        """
        self._lost_receives[queue].append(now_s)
        self._swallowed[queue] += count

    def _lost_since(self, queue: str, since_s: float) -> int:
        """The number of receives without an answer that can have leased something after this time."""
        times = self._lost_receives[queue]
        return len(times) - bisect_left(times, since_s - self._linger_s)

    def received(
        self, queue: str, answer: list[tuple[str, str, int]], asked_s: float, arrived_s: float, lease_s: float
    ) -> list[int]:
        """The messages of one answer, in order: key, message id, attempts. Returns a ticket for each."""
        demand(
            not answer or asked_s <= self._paused_s.get(queue, NEVER),
            f"{queue} delivered {answer[:1]} although it was paused",
        )
        # Messages that other wings offered this receiver were given back; that counts as an attempt.
        if self.laws[queue].is_spread:
            self._lost_receives[queue].append(arrived_s)
        together = {key for key, _, _ in answer}
        demand(len(together) == len(answer), f"{queue}: one answer has a message twice: {answer}")
        for key, message_id, attempts in answer:
            message = self.messages.get(key)
            if message is None:
                raise Violation(f"{queue} delivered {key}, which was never sent")
            where = f"{queue} delivered {message} at {arrived_s:.3f}"
            demand(message.outcome is not Outcome.REFUSED, f"{where}: its send was refused")
            self._may_come(where, queue, message, asked_s, arrived_s)
            self._find_place(where, queue, message, message_id, arrived_s)
            self._same_id(message, message_id)
            self._counts(where, queue, message, attempts)
            message.heard_s = message.leased_from_s = arrived_s
            hidden_s = lease_s + (self.laws[queue].wait_s(attempts) if self.laws[queue].lapses else 0.0)
            message.leased_until_s = asked_s + hidden_s - self._slack_of(hidden_s)
            self.delivered += 1
            if self.laws[queue].one_by_one:
                self._is_alone(where, queue, message)
        if self.laws[queue].fifo:
            self._in_line(queue, answer, together)
        return [self.messages[key].deliveries for key, _, _ in answer]

    def _slack_of(self, duration_s: float) -> float:
        """By how much the end of this duration may differ between the node and the oracle."""
        return self._slack_s + duration_s * self._drift_max

    def _may_come(self, where: str, queue: str, message: Message, asked_s: float, arrived_s: float) -> None:
        law = self.laws[queue]
        demand(asked_s <= message.settled_s, f"{where}: it was settled at {message.settled_s:.3f}")
        demand(asked_s <= message.purged_s, f"{where}: it was purged at {message.purged_s:.3f}")
        demand(
            arrived_s >= message.leased_until_s,
            f"{where}: it is leased to another consumer until {message.leased_until_s:.3f}",
        )
        slack_s = self._slack_of(message.delay_s)
        demand(arrived_s >= message.due_s - slack_s, f"{where}: it is due at {message.due_s:.3f}")
        if law.time_to_live_s and queue == message.home:
            life_s = message.delay_s + law.time_to_live_s
            ends_s = message.acknowledged_s + life_s
            demand(asked_s <= ends_s + self._slack_of(life_s), f"{where}: it expired at {ends_s:.3f}")
        demand(
            not (law.at_most_once and message.deliveries),
            f"{where}: it was delivered before, and the queue is at-most-once",
        )

    def _find_place(self, where: str, queue: str, message: Message, message_id: str, arrived_s: float) -> None:
        """Check that the message is in the queue where it was last seen, or that it can have moved here."""
        law = self.laws[message.at]
        is_new = message.message_id not in ("", message_id)  # A redrive sends it anew, perhaps back to the same queue.
        if message.at == queue and not (is_new and law.dead in self._moved_s):
            return
        source = message.at
        if law.dead:
            self._has_died(where, message, law)
            source = law.dead
        if source != queue:
            asked_s = self._moved_s.get(source, NEVER)
            demand(asked_s <= arrived_s, f"{where}: it was in {source} and was not moved")
            message.message_id = ""
        message.moved_to(queue)
        if queue == law.dead:  # A dead letter has its attempts; one that died of another cause may have any number.
            message.attempts = ANY if law.kills else law.attempts_max

    def _has_died(self, where: str, message: Message, law: Law) -> None:
        self.dead += 1
        lost = self._lost_since(law.name, message.entered_s)
        demand(
            law.kills or law.attempts_max - message.seen <= lost,
            f"{where}: it died in {law.name} after {message.seen} deliveries of {law.attempts_max},"
            f" and only {lost} receives got no answer",
        )

    def _counts(self, where: str, queue: str, message: Message, attempts: int) -> None:
        law = self.laws[queue]
        lost = self._lost_since(queue, message.heard_s)
        before = message.attempts
        demand(attempts > before, f"{where}: it is attempt {attempts}, and attempt {before} was seen earlier")
        demand(
            before == ANY or attempts - before - 1 <= lost,
            f"{where}: attempt {attempts} follows {before}, and only {lost} receives got no answer",
        )
        if law.attempts_max:
            demand(attempts <= law.attempts_max, f"{where}: it is attempt {attempts} of {law.attempts_max}")
        message.attempts = attempts
        message.deliveries += 1
        message.seen += 1

    def _is_alone(self, where: str, queue: str, message: Message) -> None:
        other = self._strict.get(queue)
        self._strict[queue] = message
        if other is None or other is message or other.may_be_gone:
            return
        overlap_s = min(other.leased_until_s, message.leased_until_s) - max(other.leased_from_s, message.leased_from_s)
        demand(overlap_s <= 0, f"{where}: {other} is still leased, and the queue delivers one at a time")

    def _in_line(self, queue: str, answer: list[tuple[str, str, int]], together: set[str]) -> None:
        last: dict[str, int] = {}
        for key, _, _ in answer:
            message = self.messages[key]
            number = message.number
            demand(number > last.get(message.group, -1), f"{queue}: {answer} is not in the order of its groups")
            last[message.group] = number
            line = self._lines.get((message.home, message.group), {})
            for other in line.values():
                if other.number >= number:
                    break
                if other.key in together or other.at != queue or self._may_have_died(other):
                    continue
                raise Violation(f"{queue}: {message} overtook {other} in its group")

    def _may_have_died(self, message: Message) -> bool:
        law = self.laws[message.at]
        lost = self._lost_since(message.at, message.heard_s)
        return law.attempts_max > 0 and message.attempts + lost >= law.attempts_max

    # Settling and changing leases.

    def is_current(self, key: str, ticket: int) -> bool:
        """True if no later delivery is known."""
        return self.messages[key].deliveries == ticket

    def changing(self, key: str, ticket: int, until_s: float) -> None:
        """A change of the lease's end is about to be requested."""
        if self.is_current(key, ticket):
            message = self.messages[key]
            message.leased_until_s = min(message.leased_until_s, until_s - self._slack_s)

    def changed(self, key: str, ticket: int, until_s: float, *, was_current: bool) -> None:
        """The node acknowledged the change of the lease."""
        message = self.messages[key]
        demand(was_current, f"{message}: its lease was changed by a receipt that had been superseded")
        if self.is_current(key, ticket):
            message.leased_until_s = until_s - self._slack_s

    def settling(self, key: str, ticket: int) -> None:
        """A settle is about to be requested. A superseded receipt settles nothing."""
        if self.is_current(key, ticket):
            message = self.messages[key]
            message.settle_tried = True
            self._leave_line(message)

    def settled_now(self, key: str, ticket: int, now_s: float) -> None:
        """The node acknowledged the settle. It may do so for a late receipt whose message another consumer has: that
        proves nothing.

        A FIFO queue refuses a late settle; a dead letter has left its queue as well.
        """
        message = self.messages[key]
        law = self.laws[message.at]
        certain = (law.fifo and not law.dead) or now_s < message.leased_until_s
        if self.is_current(key, ticket) and certain and message.settled_s == NEVER:
            self.settled += 1
            message.settled_s = now_s

    def _leave_line(self, message: Message) -> None:
        if message.group:
            self._lines[message.home, message.group].pop(message.number, None)

    # Purges, moves and pauses.

    def purging(self, queue: str) -> list[Message]:
        """A purge is about to be requested; returns the messages that are certainly in the queue now, or were
        settled.
        """
        return [
            message
            for message in self.messages.values()
            if message.at == queue and message.outcome is Outcome.ACKNOWLEDGED
        ]

    def purged(self, queue: str, sure: list[Message], now_s: float) -> None:
        """The node acknowledged the purge: earlier messages are gone, and those sent meanwhile may be."""
        self._purge_may_have_met(queue)
        for message in sure:
            message.purged_s = min(message.purged_s, now_s)

    def purge_lost(self, queue: str, now_s: float) -> None:
        """A purge got no answer: it may have happened, or may happen soon."""
        self._purge_may_have_met(queue)
        self._purges_until_s[queue] = now_s + self._linger_s

    def _purge_may_have_met(self, queue: str) -> None:
        """Mark every message sent until now as possibly purged."""
        for message in self.messages.values():
            if message.at == queue:
                message.purge_possible = True

    def moving(self, source: str, now_s: float) -> None:
        """A redrive is about to be requested."""
        self._moved_s.setdefault(source, now_s)
        self.moves += 1

    def paused(self, queue: str, now_s: float) -> None:
        """The node acknowledged the pause."""
        self._paused_s[queue] = now_s

    def resuming(self, queue: str) -> None:
        """A resume is about to be requested."""
        self._paused_s.pop(queue, None)

    # The end.

    def account(self) -> None:
        """Check after the drain: each acknowledged message was settled, or may have been settled, purged or
        consumed.
        """
        swallowed: dict[str, int] = dict.fromkeys(self.laws, 0)
        for message in self.messages.values():
            if message.outcome is not Outcome.ACKNOWLEDGED or message.may_be_gone:
                continue
            law = self.laws[message.home]
            if law.at_most_once:
                swallowed[message.home] += message.deliveries == 0
                continue
            if law.kills and not law.dead:
                continue
            raise Violation(f"{message} was acknowledged at {message.acknowledged_s:.3f} and is nowhere")
        for queue, count in swallowed.items():
            lost = self._swallowed[queue]
            demand(count <= lost, f"{queue}: {count} are gone, and only {lost} can have been consumed unseen")
