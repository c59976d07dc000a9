"""A hall and other replication groups in one process: a router over several halls, each on a disk of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import msgspec

from longhall.broker.configuration import SHARE
from longhall.broker.group_steps import GroupSteps
from longhall.broker.options import HallOptions
from longhall.broker.pending import Pending, failed
from longhall.broker.placement import GroupLocation
from longhall.broker.queues.service import QueueService
from longhall.broker.queues.upkeep.side_topics import placed_side_topics
from longhall.broker.transaction_appends import Appended, TransactionBatch, append_in_transaction
from longhall.broker.transaction_markers import PartitionMarkers, write_markers
from longhall.broker.transaction_participant import SettleRequest, TransactionParticipant
from longhall.broker.transaction_verification import TransactionVerification
from longhall.cluster.placement.group_parts import GroupParts
from longhall.cluster.placement.group_topics import GroupTopics
from longhall.cluster.placement.group_transactions import CoordinatorSide, GroupSide
from longhall.cluster.placement.part_operations import ChangeParts, MeasureParts
from longhall.cluster.placement.placed_resizer import PlacedResizer
from longhall.cluster.placement.topic_operations import (
    ApplyTopic,
    ListPlacedQueues,
    ListTopics,
    NoteArchived,
    NoteDeletedQueue,
    RemovePlacedQueue,
    RemoveTopic,
)
from longhall.cluster.placement.topic_specs import spec_of
from longhall.cluster.placement.transaction_operations import (
    AppendInTransaction,
    SettleInTransaction,
    VerifyPartition,
    WriteMarkers,
)
from longhall.cluster.rpc.leader_client import OnLate
from longhall.cluster.rpc.operation import NOBODY_IN_PARTICULAR, Caller, Operation, decode_reply, encode_call
from longhall.cluster.rpc.stream import IncomingStream, OutgoingStream
from longhall.errors import Code, LonghallError
from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.node.group_process import PARTITIONS_APART
from longhall.queues.messages import Delivery, Outgoing
from longhall.service import queue_operations as ops
from longhall.service.exchanges import ExchangeService
from longhall.service.group_settles import GroupSettles
from longhall.service.local import LocalBroker
from longhall.service.outbox_calls import OutboxCalls
from longhall.service.placed_queue import placed_queue
from longhall.service.placed_queues import PlacedQueues
from longhall.service.queue_administration import QueueAdministration
from longhall.service.queue_ends import GroupQueueEnds, HallQueueEnds
from longhall.service.queue_operations import ReceiveMessages, SendMessages, SettleMessages
from longhall.service.router import Router
from longhall.service.sessions import Sessions
from simulation.world import Simulation
from tests.broker.desk import OPTIONS, Life

R = TypeVar("R")


class Near:
    """Fulfils `Groups` and `PlacementAuthority`: all groups are here. Those in `away` have no leader; of those in
    `lost` the reply never comes back.
    """

    def __init__(self, main: Life, groups: dict[int, Router]) -> None:
        self.leads = True
        self.near: list[int] = []  # In this order, where they are near at all.
        self.away: set[int] = set()
        self.lost: set[int] = set()
        self.share = 1  # Where the next one goes.
        self.leaders: dict[int, int] = {}  # By group, if it is another node than at first.
        self.spreads = False  # What has no placement is spread.
        self.asked: list[tuple[int, str]] = []
        self.cancelled = 0  # Calls that were still under way when they were cancelled.
        self._main = main
        self._groups = groups

    def is_placed(self, topic: str) -> bool:
        return bool(self._lanes(topic))

    def groups_of(self, topic: str) -> list[int]:
        return self._lanes(topic)

    def nearest(self, numbers: tuple[int, ...]) -> list[int]:
        return sorted(numbers, key=lambda number: (number not in self.near, number))

    def call(
        self,
        number: int,
        operation: Operation[R],
        caller: Caller = NOBODY_IN_PARTICULAR,
        *,
        now: bool = False,
        incarnation: bytes = b"",
        on_late: OnLate | None = None,
    ) -> Pending[R]:
        if number in self.away:
            code = Code.NOT_LEADER if now else Code.NOT_READY
            return failed(LonghallError(code, "no leader; try again"))
        self.asked.append((number, type(operation).__name__))
        pending: Pending[R] = Pending()
        pending.run(self._ask(number, operation, caller, incarnation, pending, on_late))
        return pending

    async def _ask(
        self,
        number: int,
        operation: Operation[R],
        caller: Caller,
        incarnation: bytes,
        caller_side: Pending[R],
        on_late: OnLate | None,
    ) -> R:
        """Over the wire and back, as far as bytes go."""
        served, encode = self._groups[number]._serve(9, encode_call(operation, caller, incarnation))
        try:
            await asyncio.shield(served.wait())
        except asyncio.CancelledError:
            if not served.done:
                self.cancelled += 1
                served.cancel()
                if on_late is not None:
                    served.when_done(lambda done: on_late(done.reply) if done.error is None else None)
            raise
        if number in self.lost:
            raise LonghallError(Code.TIMED_OUT, "the leader did not answer; it may have done what was asked")
        return decode_reply(operation, encode(served.result()))

    def groups(self) -> list[GroupLocation]:
        return []

    def spread(self, copies_min: int = 0) -> list[int]:
        return [self.share, *(one for one in sorted(self._groups) if one != self.share)] if self.spreads else []

    async def choose(self, placement: str, name: str) -> list[int]:
        return [self.share] if placement == SHARE else sorted(self._groups)

    async def furnish(self, name: str) -> None:
        for one in (*placed_side_topics(self._main.hall, name), name):
            await self._furnish(one)

    async def _furnish(self, name: str) -> None:
        topic = self._main.hall.catalogue.topics[name]
        for number in topic.options.wings:
            await self.call(number, ApplyTopic(spec_of(self._main.hall, topic)))

    async def write_markers(self, group: int, request: PartitionMarkers) -> list[Code | None]:
        return await self.call(group, WriteMarkers(request))

    async def settle_in_group(self, group: int, request: SettleRequest) -> Code | None:
        return await self.call(group, SettleInTransaction(request), now=True)

    async def append_in_transaction(self, group: int, batch: TransactionBatch) -> Appended:
        return await self.call(group, AppendInTransaction(batch), now=True)

    def leader(self, number: int) -> int:
        return 0 if number in self.away else self.leaders.get(number, number)

    async def open_stream(self, number: int, verb: str, body: bytes, credit: int) -> IncomingStream:
        if number in self.away:
            raise LonghallError(Code.NOT_LEADER, "no leader; try again")
        sessions = self._groups[number].sessions
        assert sessions is not None
        return wired(partial(sessions.serve, 9, body), credit)

    async def clear(self, name: str, topic_id: bytes, wings: list[int]) -> None:
        for number in wings:
            await self.call(number, RemoveTopic(name, topic_id))

    async def clear_queue(self, name: str, queue_id: bytes, wings: list[int]) -> None:
        for number in wings:
            await self.call(number, RemovePlacedQueue(name, queue_id))

    def kept(self, topic: str, partition: int) -> Any:
        raise AssertionError("no Kafka client asks here")

    def brokers(self) -> list[Any]:
        return []

    def _lanes(self, topic: str) -> list[int]:
        entry = self._main.hall.catalogue.topics.get(topic)
        return entry.options.wings if entry is not None else []


OPERATIONS: dict[str, Callable[..., Operation[Any]]] = {
    "create": ops.CreateQueue,
    "delete": ops.DeleteQueue,
    "configure": ops.ConfigureQueue,
    "switch": ops.SwitchQueue,
    "purge": ops.PurgeQueue,
    "weigh": ops.MeasureQueue,
    "tally": ops.CountQueue,
    "fork": ops.ForkQueue,
    "send": ops.SendMessages,
    "settle": ops.SettleMessages,
    "change_lease": ops.ChangeLeases,
    "receive_any": ops.ReceiveFromAny,
    "answer": ops.AnswerMessage,
    "cancel_move": ops.CancelMove,
    "rewind": ops.RewindQueue,
    "peek": ops.PeekMessages,
    "leased": ops.ListLeases,
    "search": ops.SearchMessages,
    "letters": ops.ListLetters,
    "letter": ops.ReadLetter,
    "edit_letter": ops.EditLetter,
    "start_move": ops.StartMove,
    "list_moves": ops.ListMoves,
    "begin": ops.BeginUpload,
    "add": ops.AddUploadPart,
    "finish": ops.FinishUpload,
    "abort": ops.AbortUpload,
    "read_part": ops.ReadPart,
}


class Queues:
    """The service, with a short word for each operation."""

    def __init__(self, service: Router) -> None:
        self._service = service
        self.view = service.view

    def __getattr__(self, word: str) -> Any:
        return lambda *fields, **more: self._service.dispatch(OPERATIONS[word](*fields, **more))


def wired(serve: Callable[[OutgoingStream], None], credit: int) -> IncomingStream:
    """A stream whose two sides are in this process; what one side says reaches the other in a later turn."""

    def soon(work: Callable[..., None], *arguments: Any) -> None:
        asyncio.get_running_loop().call_soon(work, *arguments)

    incoming = IncomingStream(credit, lambda more: soon(outgoing.add_credit, more), lambda: soon(outgoing.close))
    outgoing = OutgoingStream(
        credit, lambda item: soon(incoming.received, item), lambda error: soon(incoming.ended, error)
    )
    serve(outgoing)
    return incoming


class Line:
    """The client of the hall that a wing's process has. While it is `cut` the hall is away; while it is `lossy` the
    hall does what it is asked, and its replies are lost.
    """

    def __init__(self, hall: Router) -> None:
        self.cut = False
        self.lossy = False
        self._hall = hall

    def call(self, operation: Operation[R]) -> Pending[R]:
        if self.cut:
            return failed(LonghallError(Code.NOT_READY, "the hall is away; try again"))
        pending: Pending[R] = Pending()
        pending.run(self._ask(operation))
        return pending

    async def _ask(self, operation: Operation[R]) -> R:
        served, encode = self._hall._serve(9, encode_call(operation))
        reply = decode_reply(operation, encode(await served))
        if self.lossy and isinstance(operation, ops.DeliverOutbox):
            raise LonghallError(Code.TIMED_OUT, "the leader did not answer; it may have done what was asked")
        return reply


class House:
    """All of it."""

    def __init__(self, main: Life, wings: dict[int, Life]) -> None:
        self.main = main
        self.wings = wings
        self.desks = {number: QueueService(life.hall) for number, life in wings.items()}
        self.desk = QueueService(main.hall)
        routers = {number: _group(wings[number], desk) for number, desk in self.desks.items()}
        self.reach = Near(main, routers)
        main.hall.wings = self.reach
        main.hall.feature_level = 3
        broker = LocalBroker(self.desk)
        self.sessions = Sessions(self.desk.consumers)
        self.service = Router(broker, self.desk, self.sessions)
        steps = GroupSteps(main.transactor)
        GroupSettles(main.hall, self.desk, steps).register(broker)
        ExchangeService(main.hall, self.desk, self.service, steps).register(broker)
        self.queues = Queues(self.service)
        placed = self.placed = PlacedQueues(self.reach, partial(placed_queue, main.hall), self.sessions)
        self.service.place(placed)
        QueueAdministration(main.hall, self.desk, self.reach, placed).register(broker)
        self.resizer = PlacedResizer(main.hall, self.reach, self.desk.resizer)
        self.desk.consumers.join(HallQueueEnds(self.service))
        for group in self.desks.values():
            group.consumers.join(GroupQueueEnds(self.service.dispatch))

        coordinator = CoordinatorSide(main.hall, main.transactor)
        broker.also(VerifyPartition, lambda op, caller: coordinator.verify(op))
        for life in wings.values():
            life.hall.transaction_verifier = TransactionVerification(life.hall, GroupSide(life.hall, self))
        self.desk.outbox.connect(OutboxCalls(self.service.dispatch))
        self.lines = {number: Line(self.service) for number in wings}
        for number, desk in self.desks.items():
            desk.outbox.connect(OutboxCalls(self.lines[number].call))

    def call(self, operation: VerifyPartition, caller: Caller) -> Pending[Code | None]:
        """The main hall, as a group calls it."""
        return self.service.dispatch(operation, caller)

    async def send(self, name: str, *bodies: bytes, **more: Any) -> list[str]:
        """The ids; all of them must be accepted."""
        replies = await self.service.dispatch(SendMessages(name, [Outgoing(body=body, **more) for body in bodies]))
        assert [one.code for one in replies] == [None] * len(bodies), replies
        return [one.message_id for one in replies]

    async def receive(self, name: str, count_max: int = 10, wait_ms: int = 0, lease_ms: int = 30_000) -> list[Delivery]:
        return await self.service.dispatch(ReceiveMessages(name, count_max, wait_ms, lease_ms))

    async def drain(self, name: str) -> list[bytes]:
        """Everything that can be received, settled."""
        bodies: list[bytes] = []
        while found := await self.receive(name):
            receipts = [one.receipt for one in found]
            assert await self.service.dispatch(SettleMessages(name, receipts)) == [None] * len(found)
            bodies += [one.body for one in found]
        return bodies


def _group(life: Life, queues: QueueService) -> Router:
    """The service of a group's process."""
    topics = GroupTopics(life.hall, queues)
    broker = LocalBroker(queues)
    broker.also(ApplyTopic, lambda op, caller: topics.apply(op.spec))
    broker.also(RemoveTopic, lambda op, caller: topics.remove(op.name, op.topic_id))
    broker.also(ListTopics, lambda op, caller: topics.list())
    broker.also(RemovePlacedQueue, lambda op, caller: topics.remove_queue(op.name, op.queue_id))
    broker.also(ListPlacedQueues, lambda op, caller: topics.list_queues())
    broker.also(NoteDeletedQueue, lambda op, caller: topics.note_deleted(op.name))
    broker.also(NoteArchived, lambda op, caller: topics.note_archived(op.name, op.topic_id, op.rows))
    participant = TransactionParticipant(life.hall)
    broker.also(WriteMarkers, lambda op, caller: write_markers(life.hall, op.markers))
    broker.also(SettleInTransaction, lambda op, caller: participant.carry_out(op.request))
    broker.also(AppendInTransaction, lambda op, caller: append_in_transaction(life.hall, op.batch))
    parts = GroupParts(life.hall, queues.resizer)
    broker.also(MeasureParts, lambda op, caller: parts.measure(op))
    broker.also(ChangeParts, lambda op, caller: parts.change(op))
    router = Router(broker, queues, Sessions(queues.consumers))
    ExchangeService(life.hall, queues, router).register(broker)
    router.store(topics)
    return router


def live(play: Callable[[House], Coroutine[Any, Any, None]], wings: int = 3, seed: int = 1) -> None:
    """Play with a hall of so many wings."""
    simulation = Simulation(seed)

    async def inside() -> None:
        lives: list[Life] = []
        for number in range(wings + 1):
            host = simulation.host(f"hall{number}")
            host.faults.cold_read_chance = 0.0
            life = Life(host.boot(BACKGROUND_JOBS), _options(number))
            await life.hall.commits.durable()
            lives.append(life)
        house = House(lives[0], dict(enumerate(lives[1:], 1)))
        for desk in (house.desk, *house.desks.values()):
            desk.start()
        house.resizer.start()
        await play(house)
        house.resizer.close()
        for link in list(house.sessions.links.values()):
            link.close()
        for desk in (house.desk, *house.desks.values()):
            await desk.stop()

    simulation.run(inside())


def _options(number: int) -> HallOptions:
    return msgspec.structs.replace(OPTIONS, wing=number, first_partition=number * PARTITIONS_APART + 1)
