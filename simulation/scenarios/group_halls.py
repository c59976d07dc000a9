"""Several replication groups of one replica each: a hall and wings, without doors, coordinator and network.

A group is a hall in a process of its own. It may be killed or lose its power at any moment, and starts again from its
disk, as a new leader starts from its log. Calls between groups may be lost before or after they are carried out; in
some scenarios half of those that are lost before arrive seconds later. So a run costs a fraction of one with whole
nodes, and a fault meets a message between two groups far more often.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar, final

import msgspec

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import SHARE
from longhall.broker.feature_gates import NEWEST
from longhall.broker.group_coordinator import GroupCoordinator
from longhall.broker.group_steps import GroupSteps
from longhall.broker.hall import Hall
from longhall.broker.options import HallOptions
from longhall.broker.pending import Pending
from longhall.broker.queues.service import QueueService
from longhall.broker.recovery import identify, recover
from longhall.broker.transaction_appends import Appended, TransactionBatch, append_in_transaction
from longhall.broker.transaction_coordinator import TransactionCoordinator
from longhall.broker.transaction_markers import PartitionMarkers, write_markers
from longhall.broker.transaction_participant import SettleRequest, TransactionParticipant
from longhall.broker.transaction_verification import TransactionVerification
from longhall.broker.waiting import committed
from longhall.cluster.placement.group_furnisher import GroupFurnisher
from longhall.cluster.placement.group_moves import serve_moves
from longhall.cluster.placement.group_topics import GroupTopics
from longhall.cluster.placement.group_transactions import CoordinatorSide, GroupSide
from longhall.cluster.placement.partition_mover import PartitionMover
from longhall.cluster.placement.topic_operations import (
    ApplyTopic,
    ListPlacedQueues,
    ListTopics,
    NoteArchived,
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
from longhall.cluster.rpc.stream import IncomingStream
from longhall.errors import Code, LonghallError
from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.names import CATALOGUE_SHARD
from longhall.node.group_process import PARTITIONS_APART
from longhall.service.group_settles import GroupSettles
from longhall.service.local import LocalBroker
from longhall.service.outbox_calls import OutboxCalls
from longhall.service.placed_queue import placed_queue
from longhall.service.placed_queues import PlacedQueues
from longhall.service.queue_administration import QueueAdministration
from longhall.service.router import Router
from longhall.service.sessions import Sessions
from simulation.loop import PowerCut, Process
from simulation.world import SimulatedWorld, Simulation

CALL_S: Final = 3.0  # A call without a reply is given up after this time.
DELAYED: Final = 0.5  # The share of lost calls that arrive later, in scenarios with late calls,
DELAY_S_MAX: Final = 9.0  # so long at most after they were made.
OPTIONS: Final = HallOptions(
    shards=2, wal_file_bytes=16 * 1024 * 1024, queue_segment_bytes=50_000, disk_reserve_bytes=0
)
MAIN: Final = 0
CALM_S: Final = 1.0  # Between two faults.
LOSSES: Final = 0.1
COPY_BYTES_A_SECOND: Final = 1_000_000

Q = TypeVar("Q")
R = TypeVar("R")


@final
class GroupHall:
    """One group. Its objects are replaced at every start."""

    def __init__(self, halls: GroupHalls, simulation: Simulation, number: int) -> None:
        self.number = number
        self.host = simulation.host(f"group{number}")
        self.queues: QueueService | None = None
        self.router: Router | None = None
        self.hall: Hall | None = None
        self.mover: PartitionMover | None = None  # Of the hall,
        self.transactor: TransactionCoordinator | None = None  # and its coordinator of transactions.
        self._halls = halls
        self._opening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start from the disk; returns when the group serves, or when its power was cut again."""
        world = self.host.boot(BACKGROUND_JOBS)
        self._opening = world.process.start(self._open(world))
        await asyncio.wait({self._opening, world.process.ended}, return_when=asyncio.FIRST_COMPLETED)
        if self._opening.done() and not isinstance(self._opening.exception(), PowerCut):
            self._opening.result()

    def end(self, *, power: bool) -> None:
        """Kill the process, or cut its power."""
        self.queues = self.router = self.hall = self.mover = self.transactor = None
        if power:
            self.host.cut_power()
        else:
            self.host.kill()

    async def _open(self, world: SimulatedWorld) -> None:
        options = msgspec.structs.replace(OPTIONS, wing=self.number, first_partition=self.number * PARTITIONS_APART + 1)
        identity = identify(world.disk, world.entropy, options)
        hall = Hall(world, msgspec.structs.replace(options, shards=identity.shards))
        hall.queue_secret = bytes.fromhex(identity.secret)
        hall.feature_level = NEWEST
        recover(hall)
        await hall.commits.durable()
        queues = QueueService(hall)
        broker = LocalBroker(queues)
        router = Router(broker, queues)
        if self.number == MAIN:
            self._serve_all(hall, queues, broker, router)
        else:
            topics = GroupTopics(hall, queues)
            broker.also(ApplyTopic, lambda op, caller: topics.apply(op.spec))
            broker.also(RemoveTopic, lambda op, caller: topics.remove(op.name, op.topic_id))
            broker.also(ListTopics, lambda op, caller: topics.list())
            broker.also(RemovePlacedQueue, lambda op, caller: topics.remove_queue(op.name, op.queue_id))
            broker.also(ListPlacedQueues, lambda op, caller: topics.list_queues())
            broker.also(NoteArchived, lambda op, caller: topics.note_archived(op.name, op.topic_id, op.rows))
            router.store(topics)
            serve_moves(hall, broker)
            participant = TransactionParticipant(hall)
            broker.also(SettleInTransaction, lambda op, caller: participant.carry_out(op.request))
            broker.also(AppendInTransaction, lambda op, caller: append_in_transaction(hall, op.batch))
            broker.also(WriteMarkers, lambda op, caller: write_markers(hall, op.markers))
            client = _Client(self._halls)
            hall.transaction_verifier = TransactionVerification(hall, GroupSide(hall, client))
            queues.outbox.connect(OutboxCalls(client.call))
        queues.start()
        self.hall, self.queues, self.router = hall, queues, router

    def _serve_all(self, hall: Hall, queues: QueueService, broker: LocalBroker, router: Router) -> None:
        """The hall has the catalogue of everything."""
        groups = _Groups(self._halls, hall)
        hall.wings = groups  # type: ignore[assignment]  # Only what queues need.
        placed = PlacedQueues(groups, partial(placed_queue, hall), Sessions(queues.consumers))
        router.place(placed)
        QueueAdministration(hall, queues, groups, placed).register(broker)
        self.mover = PartitionMover(hall, groups, _sure, COPY_BYTES_A_SECOND)
        self.mover.start()
        self.transactor = TransactionCoordinator(hall, GroupCoordinator(hall))
        self.transactor.start()
        coordinator = CoordinatorSide(hall, self.transactor)
        broker.also(VerifyPartition, lambda op, caller: coordinator.verify(op))
        GroupSettles(hall, queues, GroupSteps(self.transactor)).register(broker)
        queues.outbox.connect(OutboxCalls(router.dispatch))


@final
class GroupHalls:
    """All groups, and the calls between them. `losses` is the chance that a call or its reply is lost."""

    def __init__(self, simulation: Simulation, wings: int) -> None:
        self.groups = {number: GroupHall(self, simulation, number) for number in range(wings + 1)}
        self.losses = 0.0
        self.late_calls = False  # True if calls that were given up may be carried out later.
        self.shares = 0  # The placement `share` goes to each wing in turn.
        self._chance: random.Random = simulation.stream("calls")

    async def ask(self, operation: Operation[R]) -> R:
        """An operation of a client, which the hall routes."""
        router = self.groups[MAIN].router
        if router is None:
            raise LonghallError(Code.NOT_READY, "the hall is down")
        return await self._carry_out(MAIN, lambda: router.dispatch(operation), operation)

    async def call(self, number: int, operation: Operation[R], incarnation: bytes = b"") -> R:
        """An operation of one group at another."""
        router = self.groups[number].router
        if router is None:
            raise LonghallError(Code.NOT_READY, "the group is down")
        body = encode_call(operation, NOBODY_IN_PARTICULAR, incarnation)
        return await self._carry_out(number, lambda: router._serve(9, body)[0], operation)

    async def _carry_out(self, number: int, begin: Any, operation: Operation[R]) -> R:
        async def serve() -> Any:
            return msgspec.msgpack.encode(await begin())

        return decode_reply(operation, await self.inside(number, serve))

    async def transact(self, work: Callable[[TransactionCoordinator], Coroutine[Any, Any, Q]]) -> Q:
        """Work of a client with the coordinator of transactions, which the hall leads."""
        transactor = self.groups[MAIN].transactor
        if transactor is None:
            raise LonghallError(Code.NOT_READY, "the hall is down")
        found: Q = await self.inside(MAIN, lambda: work(transactor))
        return found

    async def inside(self, number: int, serve: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run it in the process of the group, whether or not the caller lives to see the reply."""
        process = self.groups[number].host.process
        assert process is not None
        await asyncio.sleep(self._chance.uniform(0.0005, 0.01))
        if self._chance.random() < self.losses or not process.alive:
            if self.late_calls and self._chance.random() < DELAYED:
                delay_s = self._chance.uniform(0.0, DELAY_S_MAX)
                asyncio.get_running_loop().call_later(delay_s, _arrive, process, serve)
            await asyncio.sleep(CALL_S)
            raise _unknown()
        task = process.start(serve())
        await asyncio.wait({task, process.ended}, timeout=CALL_S, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() or self._chance.random() < self.losses or isinstance(task.exception(), PowerCut):
            raise _unknown()
        return task.result()


async def break_groups(halls: GroupHalls, simulation: Simulation, seconds: float, losses: float = LOSSES) -> int:
    """Kill a group or cut its power, about once a second, and lose calls; returns the number of faults."""
    chance = simulation.stream("faults")
    loop, faults = asyncio.get_running_loop(), 0
    ends_s = loop.time() + seconds
    halls.losses = losses
    while loop.time() < ends_s:
        await asyncio.sleep(chance.expovariate(1 / CALM_S))
        group = halls.groups[chance.randrange(len(halls.groups))]
        simulation.trace.note("fault", f"group {group.number}")
        faults += 1
        group.end(power=chance.random() < 0.6)
        await asyncio.sleep(chance.uniform(0.0, 0.5))
        await group.start()
    halls.losses = 0.0
    return faults


def _arrive(process: Process, serve: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Carry out a call for which nobody waits any more, if the process that it was sent to still lives."""
    if process.alive:
        process.start(serve()).add_done_callback(_ignore)


def _ignore(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _unknown() -> LonghallError:
    return LonghallError(Code.TIMED_OUT, "there was no reply; it may have been carried out")


@final
class _Client:
    """The hall as a wing sees it."""

    def __init__(self, halls: GroupHalls) -> None:
        self._halls = halls

    def call(self, operation: Operation[R], caller: Caller = NOBODY_IN_PARTICULAR) -> Pending[R]:
        pending: Pending[R] = Pending()
        pending.run(self._halls.call(MAIN, operation))
        return pending


@final
class _Groups:
    """The wings as the hall sees them. Fulfils `Groups` and `PlacementAuthority`."""

    def __init__(self, halls: GroupHalls, hall: Hall) -> None:
        self.leads = True
        self._halls = halls
        self._hall = hall
        self._furnisher = GroupFurnisher(hall, self, self._confirm)

    async def _confirm(self) -> None:
        """A hall of one replica is never deposed."""

    def is_placed(self, topic: str) -> bool:
        entry = self._hall.catalogue.topics.get(topic)
        return entry is not None and bool(entry.options.wings)

    def groups_of(self, topic: str) -> list[int]:
        entry = self._hall.catalogue.topics.get(topic)
        return entry.options.wings if entry is not None else []

    def nearest(self, numbers: tuple[int, ...]) -> list[int]:
        return list(numbers)

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
        pending: Pending[R] = Pending()
        pending.run(self._halls.call(number, operation, incarnation))
        return pending

    def leader(self, number: int) -> int:
        return number

    async def open_stream(self, number: int, verb: str, body: bytes, credit: int) -> IncomingStream:
        raise LonghallError(Code.NOT_LEADER, "these groups have no consumers")

    async def write_markers(self, group: int, request: PartitionMarkers) -> list[Code | None]:
        return await self._halls.call(group, WriteMarkers(request))

    async def settle_in_group(self, group: int, request: SettleRequest) -> Code | None:
        return await self._halls.call(group, SettleInTransaction(request))

    async def append_in_transaction(self, group: int, batch: TransactionBatch) -> Appended:
        return await self._halls.call(group, AppendInTransaction(batch))

    def spread(self, copies_min: int = 0) -> list[int]:
        return []

    async def choose(self, placement: str, name: str) -> list[int]:
        wings = [number for number in self._halls.groups if number != MAIN]
        if placement != SHARE:
            return wings
        self._halls.shares += 1
        return [wings[self._halls.shares % len(wings)]]

    async def furnish(self, name: str) -> None:
        topic = self._hall.catalogue.topics[name]
        for number in sorted({*topic.options.wings} - {MAIN}):
            await self.tell(number, topic)

    async def tell(self, number: int, topic: Topic) -> None:
        spec = spec_of(self._hall, topic)
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        await self._furnisher.apply(number, spec)

    def copies_min(self, number: int) -> int:
        return 1

    async def clear(self, name: str, topic_id: bytes, wings: list[int]) -> None:
        for number in wings:
            await self.call(number, RemoveTopic(name, topic_id))

    async def clear_queue(self, name: str, queue_id: bytes, wings: list[int]) -> None:
        for number in wings:
            await self.call(number, RemovePlacedQueue(name, queue_id))


async def _sure() -> None:
    """A hall of one replica leads as long as it lives."""
