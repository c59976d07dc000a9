"""Publish: messages go through exchanges to their queues, and are appended to all of them in one atomic write.

    a publication    its answer
    no exchange      UNKNOWN_EXCHANGE; nothing of it is stored
    no queue         accepted, and not routed
    queues           accepted when every queue has it durably; the refusal of one queue is the answer, though others
                     may have it

A message with several queues is appended to all of them in one atomic write, unless its copies have more than
TOGETHER_BYTES_MAX. Queues with a bound, and messages that are cut, take the longer way of `send`, queue by queue.
Queues that other replication groups store are left to the caller.
"""

from __future__ import annotations

from typing import Any, Final, final

import msgspec

from longhall.broker.hall import Hall
from longhall.broker.pending import Pending
from longhall.broker.queues.consumers.registry import ConsumerRegistry
from longhall.broker.queues.dead_letters.exchange_letters import route_letter
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.sending.batch_send import send_batch
from longhall.broker.queues.sending.rules import record_of
from longhall.broker.queues.sending.send import send
from longhall.broker.queues.write import together
from longhall.broker.waiting import Acknowledgeable, when_acknowledged
from longhall.errors import Code, LonghallError
from longhall.exchanges.properties import decode_properties, decode_stored, headers_of
from longhall.queues.envelope import RANDOM_BYTES, decode_record, new_message_id
from longhall.queues.messages import Accepted, Outgoing, WriteBack
from longhall.queues.outcomes import LENGTH

TOGETHER_BYTES_MAX: Final = 1024 * 1024  # Of one atomic write.
RECORD_BYTES: Final = 256  # A record has about so much beside its body and its properties.
AT_ONCE_MS: Final = 1  # A time to live up to this means: now or never.


class Publication(msgspec.Struct, array_like=True):
    """One message for an exchange. `keys` are its routing key and those of CC and BCC."""

    exchange: str
    keys: list[str]
    message: Outgoing


class Published(msgspec.Struct, array_like=True, omit_defaults=True):
    """The answer to one publication."""

    routed: int = 0  # The number of queues.
    code: Code | None = None
    reason: str = ""


def shorter_life(own_ms: int, queue_ms: int) -> int:
    """The time to live of a message with its own (below 0: none) in a queue with another (0: none)."""
    return min(own_ms, queue_ms) if own_ms >= 0 and queue_ms else own_ms if own_ms >= 0 else queue_ms


@final
class _Run:
    """Consecutive messages with the same queues, and the size of all copies."""

    __slots__ = ("messages", "queues", "size_bytes")

    def __init__(self, queues: list[RunningQueue]) -> None:
        self.queues = queues
        self.messages: list[tuple[int, Outgoing]] = []
        self.size_bytes = 0


@final
class Publishing:
    """Publications of one call: routed at once, then appended."""

    def __init__(
        self, hall: Hall, stager: DelayStager, consumers: ConsumerRegistry, host: str, publications: list[Publication]
    ) -> None:
        self._hall = hall
        self._stager = stager
        self._consumers = consumers
        self._host = host
        self.answers = [Published() for _ in publications]
        self.elsewhere: dict[str, list[tuple[int, Outgoing]]] = {}  # By queue, for other replication groups.
        self._runs: list[_Run] = []  # Consecutive messages with the same queues.
        for at, publication in enumerate(publications):
            self._route(at, publication)

    def _exists(self, name: str) -> bool:
        return name in self._hall.catalogue.queues.by_name

    def _route(self, at: int, publication: Publication) -> None:
        topology = self._hall.catalogue.exchanges
        headers: dict[str, Any] = {}
        message = publication.message
        if message.amqp and topology.wants_headers(self._host, publication.exchange):
            headers = headers_of(decode_properties(decode_stored(message.amqp)[2]))
        found = topology.route(self._host, publication.exchange, publication.keys, headers, self._exists)
        if isinstance(found, Code):
            self.answers[at].code = found
            return
        exchange = topology.exchange(self._host, publication.exchange)
        if exchange is not None and exchange.declared.internal:
            self.answers[at].code = Code.INVALID_REQUEST
            self.answers[at].reason = "the exchange is internal"
            return
        here: list[RunningQueue] = []
        for name in found:
            queue = self._hall.running_queue(name)
            if queue is None:
                continue
            self.answers[at].routed += 1
            if queue.settings.wings:
                self.elsewhere.setdefault(name, []).append((at, self._for_queue(queue, message)))
            else:
                here.append(queue)
        if here:
            self._add(at, message, here)

    def _add(self, at: int, message: Outgoing, queues: list[RunningQueue]) -> None:
        size_bytes = (len(message.body) + len(message.amqp) + RECORD_BYTES) * len(queues)
        run = self._runs[-1] if self._runs else None
        if (
            run is None
            or run.queues != queues
            or (len(queues) > 1 and run.size_bytes + size_bytes > TOGETHER_BYTES_MAX)
        ):
            run = _Run(queues)
            self._runs.append(run)
        run.size_bytes += size_bytes
        run.messages.append((at, message))

    def _for_queue(self, queue: RunningQueue, message: Outgoing) -> Outgoing:
        """The message with its time to live in this queue: the shorter one of the two."""
        own_ms, queue_ms = message.time_to_live_ms, queue.settings.time_to_live_ms
        if own_ms < 0 and queue_ms != AT_ONCE_MS:
            return message
        lives_ms = shorter_life(own_ms, queue_ms)
        if lives_ms <= AT_ONCE_MS:
            lives_ms = 0 if self._consumers.would_push(queue) else AT_ONCE_MS
        return msgspec.structs.replace(message, time_to_live_ms=lives_ms)

    def write_backs(self) -> list[WriteBack]:
        """What goes to queues of this hall, for one atomic write, in the order of the publications."""
        return [
            WriteBack(queue=queue.entry.name, messages=[self._for_queue(queue, message) for _, message in run.messages])
            for run in self._runs
            for queue in run.queues
        ]

    def append(self) -> Pending[list[Published]]:
        """Append what goes to queues of this hall; done when everything may be acknowledged."""
        slow: list[tuple[RunningQueue, list[tuple[int, Outgoing]]]] = []
        quick: dict[RunningQueue, None] = {}
        for run in self._runs:
            # One write for a message with several queues. A copy of more than a frame cannot be one.
            if len(run.queues) > 1 and run.size_bytes <= TOGETHER_BYTES_MAX:
                with together(self._hall):
                    self._append_run(run, slow, quick)
            else:
                self._append_run(run, slow, quick)
        pending: Pending[list[Published]] = Pending()
        pending.decide(self.answers)
        if slow:
            pending.run(self._append_slowly(slow, list(quick)))
        elif quick:
            _Joined(self._hall, list(quick), pending)
        else:
            pending.complete(self.answers)
        return pending

    def _append_run(
        self,
        run: _Run,
        slow: list[tuple[RunningQueue, list[tuple[int, Outgoing]]]],
        quick: dict[RunningQueue, None],
    ) -> None:
        for queue in run.queues:
            some = [(at, self._for_queue(queue, message)) for at, message in run.messages]
            accepted = send_batch(self._hall, self._stager, queue, [message for _, message in some])
            if accepted is None:
                slow.append((queue, some))
            else:
                quick[queue] = None
                self.answer(queue, some, accepted)

    async def _append_slowly(
        self, slow: list[tuple[RunningQueue, list[tuple[int, Outgoing]]]], quick: list[RunningQueue]
    ) -> list[Published]:
        under_way = [
            (queue, some, send(self._hall, self._stager, queue, [one for _, one in some])) for queue, some in slow
        ]
        for queue, some, pending in under_way:
            try:
                self.answer(queue, some, await pending)
            except LonghallError as error:
                for at, _ in some:
                    self._refuse(at, error.code, str(error))
        if quick:
            joined: Pending[list[Published]] = Pending()
            joined.decide(self.answers)
            _Joined(self._hall, quick, joined)
            await joined
        return self.answers

    def answer(self, queue: RunningQueue, some: list[tuple[int, Outgoing]], accepted: list[Accepted]) -> None:
        """Take what a queue says to its messages; what it has refused may be a dead message."""
        for (at, message), one in zip(some, accepted, strict=True):
            if one.code is None or one.code is Code.UNKNOWN_QUEUE:  # A queue that is gone counts as done.
                continue
            self._refuse(at, one.code, one.message)
            amqp = queue.settings.amqp
            if one.code is Code.QUEUE_FULL and amqp is not None and amqp.letters_refused:
                message_id = new_message_id(self._hall.world.entropy.bytes(RANDOM_BYTES))
                record = record_of(queue, message, message_id, self._hall.time.now_ms(), 0)
                with together(self._hall):
                    route_letter(self._hall, queue, record, decode_record(record, queue.number), LENGTH)

    def _refuse(self, at: int, code: Code, reason: str) -> None:
        self.answers[at].code = code
        self.answers[at].reason = reason


@final
class _Joined(Acknowledgeable):
    """Completes a reply when the sends to several queues may be acknowledged."""

    def __init__(self, hall: Hall, queues: list[RunningQueue], pending: Pending[list[Published]]) -> None:
        self._pending = pending
        waits = {(queue.shard.number, queue.acknowledgers): queue for queue in queues}
        self._left = len(waits)
        for queue in waits.values():
            when_acknowledged(hall, queue.shard, self, queue.acknowledgers)

    def committed(self, value: int) -> None:
        self._left -= 1
        if not self._left:
            self._pending.committed(0)

    def refused(self) -> None:
        self._pending.refused()
