"""Publish: messages go through exchanges to their queues, and are appended to all of them in one atomic write.

    a publication    its answer
    no exchange      UNKNOWN_EXCHANGE; nothing of it is stored
    no queue         accepted, and not routed
    queues           accepted when every queue has it durably; the refusal of one queue is the answer, though others
                     may have it

The messages of one call for the same queues are one batch of each, and every queue has them in the order of the call.
A message with several queues is appended to all of them in one atomic write, unless its copies have more than
TOGETHER_BYTES_MAX. Queues with a bound, and messages that are cut, take the longer way of `send`, queue by queue.

A copy for a queue that another replication group stores is in the outbox, in the same atomic write, if the message has
several queues or if earlier messages wait there. It is accepted when it is there, and its publisher is told when it has
arrived, or a moment later. Otherwise it is left to the caller, who sends it there directly.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final, final

import msgspec

from longhall.broker.feature_gates import may_use_outbox
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.pending import Acknowledgeable, Pending, when_acknowledged
from longhall.broker.queues.consumers.registry import ConsumerRegistry
from longhall.broker.queues.dead_letters.exchange_letters import route_letter
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.outbox.outbox_log import MESSAGE_BYTES_MAX, arrived, has_room, is_waiting, put
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.sending.batch_send import send, send_batch
from longhall.broker.queues.sending.publication import Publication, Published
from longhall.broker.queues.sending.rules import record_of
from longhall.broker.queues.write import together
from longhall.errors import Code, LonghallError
from longhall.exchanges.properties import decode_properties, decode_stored, headers_of
from longhall.names import OUTBOX_SHARD
from longhall.queues.envelope import RANDOM_BYTES, decode_record, new_message_id
from longhall.queues.messages import OVER, UNTIL_DELIVERED, Accepted, Outgoing, WriteBack
from longhall.queues.outbox_events import OutboxEntry
from longhall.queues.outcomes import LENGTH
from longhall.shards.shard import ALL, Shard

TOGETHER_BYTES_MAX: Final = 1024 * 1024  # Of one atomic write.
RECORD_BYTES: Final = 256  # A record has about so much beside its body and its properties.
AT_ONCE_MS: Final = 1  # A time to live up to this means: now or never.

Waits = dict[tuple[int, int], Shard]  # By number of the shard and who must have the messages.


@final
class _Run:
    """Messages with the same queues, by their places in the call, and the size of all copies."""

    __slots__ = ("has_lifetimes", "messages", "places", "queues", "size_bytes")

    def __init__(self, queues: list[RunningQueue]) -> None:
        self.queues = queues
        self.places: list[int] = []
        self.messages: list[Outgoing] = []
        self.has_lifetimes = False  # True if a message has a time to live of its own.
        self.size_bytes = 0


@final
class ElsewhereMessages:
    """Messages for one queue that another replication group stores, by their places in the call."""

    __slots__ = ("messages", "places")

    def __init__(self) -> None:
        self.places: list[int] = []
        self.messages: list[Outgoing] = []


@final
class _Route:
    """Where the messages of one call with one exchange and one routing key go."""

    __slots__ = ("code", "elsewhere", "here", "is_sealed", "queues", "reason")

    def __init__(self) -> None:
        self.code: Code | None = None
        self.reason = ""
        self.here: list[RunningQueue] = []
        self.elsewhere: list[RunningQueue] = []
        self.queues: list[RunningQueue] = []  # All of them.
        self.is_sealed = False  # True if one of them is.


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
        self.answers: list[Published] = []
        self.elsewhere: dict[str, ElsewhereMessages] = {}  # By queue, for other replication groups.
        self._through_outbox: set[str] = set()  # Queues of other groups, once a message of this call took that way.
        self._arrivals: dict[int, int] = {}  # By stream of the outbox: the offset behind the messages of this call.
        self._runs: list[_Run] = []
        self._last_runs: dict[int, _Run] = {}  # By the number of a queue.
        self._routes: dict[str, dict[str, _Route]] = {}  # By exchange and routing key: nothing changes in one call.
        for at, publication in enumerate(publications):
            self._take(at, publication)

    def _exists(self, name: str) -> bool:
        return name in self._hall.catalogue.queues.by_name

    def _take(self, at: int, publication: Publication) -> None:
        route = self._route_of(publication)
        if route.is_sealed and not publication.message.seal:
            why = "one of the queues of the message is sealed, and the message is not"
            self.answers.append(Published(0, Code.SEALED, why))
            return
        self.answers.append(Published(len(route.queues), route.code, route.reason))
        queues = route.queues
        if route.elsewhere and not self._goes_through_outbox(publication.message, route):
            queues = route.here
            for queue in route.elsewhere:
                some = self.elsewhere.get(queue.entry.name)
                if some is None:
                    some = self.elsewhere[queue.entry.name] = ElsewhereMessages()
                some.places.append(at)
                some.messages.append(self._for_queue(queue, publication.message))
        if queues:
            self._add(at, publication.message, queues)

    def _goes_through_outbox(self, message: Outgoing, route: _Route) -> bool:
        """True if the copies for other groups are stored here first."""
        hall = self._hall
        names = [queue.entry.name for queue in route.elsewhere]
        if len(route.queues) == 1 and names[0] not in self._through_outbox and not is_waiting(hall, names[0]):
            return False
        bytes_max = min(MESSAGE_BYTES_MAX, *(queue.settings.message_bytes_max for queue in route.elsewhere))
        if not may_use_outbox(hall) or len(message.body) > bytes_max or not all(has_room(hall, name) for name in names):
            return False
        self._through_outbox.update(names)
        return True

    def _route_of(self, publication: Publication) -> _Route:
        """The queues of a message: of an earlier one of this call, if it goes the same way."""
        exchange, keys = publication.exchange, publication.keys
        routes = self._routes.get(exchange)
        if routes is None:
            routes = self._routes[exchange] = {}
        route = routes.get(keys[0]) if len(keys) == 1 else None
        if route is None:
            wants_headers = self._hall.catalogue.exchanges.wants_headers(self._host, exchange)
            route = self._route(publication, wants_headers)
            if len(keys) == 1 and not wants_headers:
                routes[keys[0]] = route
        return route

    def _route(self, publication: Publication, wants_headers: bool) -> _Route:
        topology = self._hall.catalogue.exchanges
        headers: dict[str, Any] = {}
        stored = publication.message.amqp
        if stored and wants_headers:
            headers = headers_of(decode_properties(decode_stored(stored)[2]))
        route = _Route()
        found = topology.route(self._host, publication.exchange, publication.keys, headers, self._exists)
        if isinstance(found, Code):
            route.code = found
            return route
        exchange = topology.exchange(self._host, publication.exchange)
        if exchange is not None and exchange.declared.internal:
            route.code = Code.INVALID_REQUEST
            route.reason = "the exchange is internal"
            return route
        for name in found:
            queue = self._hall.running_queue(name)
            if queue is None:
                continue
            route.queues.append(queue)
            route.is_sealed = route.is_sealed or queue.is_sealed
            if queue.settings.wings or queue.is_away:
                route.elsewhere.append(queue)
            else:
                route.here.append(queue)
        return route

    def _add(self, at: int, message: Outgoing, queues: list[RunningQueue]) -> None:
        """Add a message to the last run of its queues, if no queue of them has a later run: each keeps its order."""
        size_bytes = (len(message.body) + len(message.amqp) + RECORD_BYTES) * len(queues)
        run = self._last_run(queues)
        if run is None or (len(queues) > 1 and run.size_bytes + size_bytes > TOGETHER_BYTES_MAX):
            run = _Run(queues)
            self._runs.append(run)
            for queue in queues:
                self._last_runs[queue.number] = run
        run.size_bytes += size_bytes
        run.places.append(at)
        run.messages.append(message)
        if message.time_to_live_ms >= 0:
            run.has_lifetimes = True

    def _last_run(self, queues: list[RunningQueue]) -> _Run | None:
        run = self._last_runs.get(queues[0].number)
        if run is None or (run.queues is not queues and run.queues != queues):
            return None
        for queue in queues:
            if self._last_runs.get(queue.number) is not run:
                return None
        return run

    def _for_queue(self, queue: RunningQueue, message: Outgoing, is_direct: bool = False) -> Outgoing:
        """The message with its time to live in this queue: the shorter one of the two.

        `is_direct` is True if this hall appends it now, without an outbox or a transaction between.
        """
        own_ms, queue_ms = message.time_to_live_ms, queue.settings.time_to_live_ms
        if own_ms < 0 and queue_ms != AT_ONCE_MS:
            return message
        lives_ms = min(own_ms, queue_ms) if own_ms >= 0 and queue_ms else own_ms if own_ms >= 0 else queue_ms
        if lives_ms <= AT_ONCE_MS:
            return self._at_once(queue, message, is_direct)
        return msgspec.structs.replace(message, time_to_live_ms=lives_ms)

    def _at_once(self, queue: RunningQueue, message: Outgoing, is_direct: bool) -> Outgoing:
        """The message for a consumer that waits for it, or for nobody."""
        waits = self._consumers.would_push(queue)
        if is_direct:
            lives_ms = UNTIL_DELIVERED if waits else OVER
        else:
            lives_ms = 0 if waits else AT_ONCE_MS
        return msgspec.structs.replace(message, time_to_live_ms=lives_ms)

    @property
    def is_here(self) -> bool:
        """True if this hall stores all queues of the publications."""
        return not self.elsewhere and not self._through_outbox

    def write_backs(self) -> list[WriteBack]:
        """All messages as writes for one atomic step; each queue has them in the order of the publications."""
        direct = [WriteBack(queue=name, messages=some.messages) for name, some in self.elsewhere.items()]
        return direct + [
            WriteBack(queue=queue.entry.name, messages=[self._for_queue(queue, message) for message in run.messages])
            for run in self._runs
            for queue in run.queues
        ]

    def append(self) -> Pending[list[Published]]:
        """Append what goes to queues of this hall; done when everything may be acknowledged."""
        slow: list[tuple[RunningQueue, list[int], list[Outgoing]]] = []
        quick: Waits = {}
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
            pending.run(self._append_slowly(slow, quick))
            for queue, _, _ in slow:
                queue.slow_send = pending
        elif quick:
            _Joined(self._hall, quick, pending)
        else:
            pending.complete(self.answers)
        if not self._arrivals:
            return pending
        arriving: Pending[list[Published]] = Pending()
        arriving.decide(self.answers)
        arriving.run(self._arrive(pending))
        return arriving

    async def _arrive(self, stored: Pending[list[Published]]) -> list[Published]:
        answers = await stored
        await arrived(self._hall, self._arrivals)
        return answers

    def _append_run(
        self,
        run: _Run,
        slow: list[tuple[RunningQueue, list[int], list[Outgoing]]],
        quick: Waits,
    ) -> None:
        for queue in run.queues:
            messages = run.messages
            if run.has_lifetimes or queue.settings.time_to_live_ms == AT_ONCE_MS:
                is_direct = not queue.settings.wings and not queue.is_away
                messages = [self._for_queue(queue, message, is_direct) for message in messages]
            if queue.settings.wings or queue.is_away:
                self._put(queue, run.places, messages, quick)
                continue
            accepted = send_batch(self._hall, self._stager, queue, messages)
            if accepted is None:
                slow.append((queue, run.places, messages))
            else:
                quick[queue.shard.number, queue.acknowledgers] = queue.shard
                self.answer(queue, run.places, messages, accepted)

    def _put(self, queue: RunningQueue, places: list[int], messages: list[Outgoing], quick: Waits) -> None:
        """Store messages for a queue of another group in the outbox."""
        hall = self._hall
        now_ms = hall.time.now_ms()
        for at, message in zip(places, messages, strict=True):
            code = hall.refusal or (Code.COMMIT_BACKLOG if hall.is_backed_up else None)
            if code is None and (hall.storage_full or not hall.has_room(len(message.body) + EVENT_ROOM_BYTES)):
                code = Code.STORAGE_FULL
            if code is not None:
                self._refuse(at, code, "")
                continue
            entry = OutboxEntry(
                group=message.group,
                timestamp_ms=now_ms,
                message=message,
                message_id=new_message_id(hall.world.entropy.bytes(RANDOM_BYTES)),
            )
            with nullcontext() if hall.wal.is_held else together(hall):
                stream, behind = put(hall, queue.entry.name, entry, now_ms)
                self._arrivals[stream] = behind
                if hall.usage.meter is not None:
                    hall.usage.meter.sent(queue.entry.name, 1, len(message.body))
            quick[OUTBOX_SHARD, ALL] = hall.shards[OUTBOX_SHARD]

    async def _append_slowly(
        self, slow: list[tuple[RunningQueue, list[int], list[Outgoing]]], quick: Waits
    ) -> list[Published]:
        under_way = [
            (queue, places, messages, send(self._hall, self._stager, queue, messages))
            for queue, places, messages in slow
        ]
        for queue, places, messages, pending in under_way:
            try:
                self.answer(queue, places, messages, await pending)
            except LonghallError as error:
                for at in places:
                    self._refuse(at, error.code, str(error))
        if quick:
            joined: Pending[list[Published]] = Pending()
            joined.decide(self.answers)
            _Joined(self._hall, quick, joined)
            await joined
        return self.answers

    def answer(
        self, queue: RunningQueue, places: list[int], messages: list[Outgoing], accepted: list[Accepted]
    ) -> None:
        """Take what a queue says to its messages; what it has refused may be a dead message."""
        for number, one in enumerate(accepted):
            code = one.code
            if code is None or code is Code.UNKNOWN_QUEUE:  # A queue that is gone counts as done.
                continue
            self._refuse(places[number], code, one.message)
            amqp = queue.settings.amqp
            if code is Code.QUEUE_FULL and amqp is not None and amqp.letters_refused:
                message_id = messages[number].message_id or new_message_id(self._hall.world.entropy.bytes(RANDOM_BYTES))
                record = record_of(queue, messages[number], message_id, self._hall.time.now_ms(), 0)
                with together(self._hall):
                    route_letter(self._hall, queue, record, decode_record(record, queue.number), LENGTH)

    def _refuse(self, at: int, code: Code, reason: str) -> None:
        self.answers[at].code = code
        self.answers[at].reason = reason


@final
class _Joined(Acknowledgeable):
    """Completes a reply when the sends to several queues may be acknowledged."""

    def __init__(self, hall: Hall, waits: Waits, pending: Pending[list[Published]]) -> None:
        self._pending = pending
        self._left = len(waits)
        for (_, whom), shard in waits.items():
            when_acknowledged(hall, shard, self, whom)

    def committed(self, value: int) -> None:
        self._left -= 1
        if not self._left:
            self._pending.committed(0)

    def refused(self) -> None:
        self._pending.refused()
