"""Queues that move between a hall and two wings: what clients notice, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from longhall.broker import partition_administration as administration
from longhall.broker.checkpoint import checkpoint
from longhall.broker.hall import Hall
from longhall.broker.partition_copy import CopyPlace
from longhall.broker.queue_copy import QueueLogs, StatePiece
from longhall.broker.queues.running_queue import RunningQueue
from longhall.cluster.placement.partition_mover import PartitionMover
from longhall.cluster.rpc.operation import Operation
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Accepted, Delivery, Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.service import queue_operations as ops
from simulation.scenarios.group_halls import MAIN, GroupHalls
from simulation.world import Simulation

QUEUE = "orders"
WAIT_S = 60.0


class House:
    """The groups, and a client of the hall."""

    def __init__(self, simulation: Simulation) -> None:
        self.halls = GroupHalls(simulation, 2)

    def hall(self, group: int) -> Hall:
        hall = self.halls.groups[group].hall
        assert hall is not None
        return hall

    def queue(self, group: int, name: str = QUEUE) -> RunningQueue:
        queue = self.hall(group).running_queue(name)
        assert queue is not None
        return queue

    @property
    def mover(self) -> PartitionMover:
        mover = self.halls.groups[MAIN].mover
        assert mover is not None
        return mover

    async def inside(self, group: int, work: Callable[[Hall], Awaitable[Any]]) -> Any:
        process = self.halls.groups[group].host.process
        assert process is not None

        async def do() -> Any:
            return await work(self.hall(group))

        return await process.start(do())

    async def ask(self, operation: Operation[Any]) -> Any:
        return await self.halls.ask(operation)

    async def create(self, name: str = QUEUE, **settings: Any) -> None:
        await self.ask(ops.CreateQueue(name, QueueSettings(**{"placement": "hall", **settings})))

    async def send(self, *bodies: str, **more: Any) -> list[Accepted]:
        messages = [Outgoing(body=body.encode(), **more) for body in bodies]
        accepted: list[Accepted] = await self.ask(ops.SendMessages(QUEUE, messages))
        assert [one.code for one in accepted] == [None] * len(bodies)
        return accepted

    async def receive(self, count: int = 10, wait_ms: int = 0, name: str = QUEUE) -> list[Delivery]:
        received: list[Delivery] = await self.ask(ops.ReceiveMessages(name, count, wait_ms=wait_ms))
        return received

    async def settle(self, *deliveries: Delivery) -> list[Code | None]:
        codes: list[Code | None] = await self.ask(ops.SettleMessages(QUEUE, [one.receipt for one in deliveries]))
        return codes

    async def begin(self, target: int, name: str = QUEUE) -> None:
        count = len(self.queue(MAIN, name).route)
        await self.inside(MAIN, lambda hall: self.mover.begin(name, dict.fromkeys(range(count), target)))

    async def move(self, target: int, name: str = QUEUE) -> None:
        await self.begin(target, name)
        await self.ended()

    async def ended(self) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                while True:
                    await asyncio.sleep(0.1)
                    if not self.mover.progress():
                        break
        except TimeoutError:
            raise AssertionError(f"the move does not end: {self.mover.progress()}") from None


def live(play: Callable[[House], Awaitable[None]], **settings: Any) -> None:
    simulation = Simulation(1)

    async def inside() -> None:
        house = House(simulation)
        for group in house.halls.groups.values():
            await group.start()
        await house.create(**settings)
        await play(house)

    simulation.run(inside())


def bodies(deliveries: list[Delivery]) -> list[str]:
    return [one.body.decode() for one in deliveries]


def test_leases_receipts_and_waiting_messages_go_along_to_a_wing_to_another_and_back() -> None:
    async def play(house: House) -> None:
        await house.send("a", "b", "c", "d", "e")
        held = await house.receive(3)
        assert bodies(held) == ["a", "b", "c"]
        assert await house.settle(held[0]) == [None]
        for target in (1, 2, MAIN):
            await house.move(target)
            assert house.queue(target).queue.in_flight == 2, "nobody gets a leased message twice"
        assert await house.settle(held[1]) == [None], "the receipt of the first group is accepted"
        [later] = await house.receive(1)
        assert later.body == b"d"
        await house.move(1)
        assert await house.settle(later) == [None]
        assert await house.ask(ops.ChangeLeases(QUEUE, [(held[2].receipt, 0)])) == [None]
        rest = await house.receive()
        assert sorted(bodies(rest)) == ["c", "e"]
        assert [one.attempts for one in sorted(rest, key=lambda one: one.body)] == [2, 1]
        assert await house.settle(*rest) == [None, None]
        assert await house.receive() == []
        assert await house.settle(held[0]) != [Code.INVALID_RECEIPT]

    live(play)


def test_message_ids_and_deduplication_survive() -> None:
    async def play(house: House) -> None:
        [first] = await house.send("a", group="g", deduplication_id="one")
        await house.move(2)
        [again] = await house.send("a", group="g", deduplication_id="one")
        assert (again.message_id, again.repeated) == (first.message_id, True)
        [got] = await house.receive()
        assert got.message_id == first.message_id
        await house.move(MAIN)
        [again] = await house.send("a", group="g", deduplication_id="one")
        assert again.message_id == first.message_id
        assert await house.settle(got) == [None]
        assert await house.receive() == []

    live(play, fifo=True, deduplication="id")


def test_a_fifo_group_stays_blocked_by_a_lease_and_in_order() -> None:
    async def play(house: House) -> None:
        await house.send("a1", "a2", group="a")
        await house.send("b1", group="b")
        [one] = await house.receive(1)
        await house.move(1)
        assert bodies(await house.receive()) == ["b1"]
        assert await house.settle(one) == [None]
        await house.move(2)
        assert bodies(await house.receive()) == ["a2"]

    live(play, fifo=True, partitions=2)


def test_delays_and_priorities_go_along() -> None:
    async def play(house: House) -> None:
        await house.send("low")
        await house.send("high", priority=2)
        await house.send("later", delay_ms=20_000)
        await house.move(1)
        assert bodies(await house.receive(1)) == ["high"]
        await house.send("higher", priority=2)
        await house.move(2)
        assert bodies(await house.receive()) == ["higher", "low"]
        await asyncio.sleep(25)
        assert bodies(await house.receive()) == ["later"]

    live(play, priorities=3)


def test_a_waiting_receiver_goes_on_at_the_new_owner() -> None:
    async def play(house: House) -> None:
        waiting = asyncio.ensure_future(house.receive(1, wait_ms=2_500))
        await asyncio.sleep(0.1)
        await house.begin(1)
        await asyncio.sleep(1.0)
        await house.send("late")
        assert bodies(await waiting) == ["late"]
        await house.ended()

    live(play)


def test_settled_messages_in_the_middle_leave_gaps_in_the_copy() -> None:
    async def play(house: House) -> None:
        body = "x" * 20_000
        for number in range(20):
            await house.send(f"{number:02}{body}")
        held = await house.receive(10) + await house.receive(10)
        kept = [held[0], held[19]]
        await house.settle(*held[1:19])
        queue = house.queue(MAIN)
        await house.inside(MAIN, checkpoint)
        await house.inside(MAIN, lambda hall: _drop_middle(hall, queue))
        assert queue.main_lane().log.has_gaps()
        await house.move(1)
        for group in house.halls.groups.values():
            group.end(power=True)
            await group.start()
        assert not house.queue(1).main_lane().log.damaged
        assert await house.ask(ops.ChangeLeases(QUEUE, [(one.receipt, 0) for one in kept])) == [None, None]
        assert [one[:2] for one in bodies(await house.receive())] == ["00", "19"]

    live(play)


async def _drop_middle(hall: Hall, queue: RunningQueue) -> None:
    from longhall.broker.events import SegmentsDropped
    from longhall.shards.shard import PARTITIONS

    log = queue.main_lane().log
    bases = [segment.base_offset for segment in log.segments[1:-1]]
    hall.append_event(queue.shard, PARTITIONS, SegmentsDropped(partition=log.partition, base_offsets=bases))
    hall.drop_segments(queue.main_lane(), bases)


@pytest.mark.parametrize("power", [True, False])
def test_what_has_moved_is_there_after_a_crash_of_every_group(power: bool) -> None:
    async def play(house: House) -> None:
        await house.send("a", "b", "c")
        await house.send("later", delay_ms=30_000)
        held = await house.receive(1)
        await house.move(1)
        await house.send("d")
        await house.inside(1, checkpoint)
        await house.send("e")
        for group in house.halls.groups.values():
            group.end(power=power)
            await group.start()
        assert await house.settle(*held) == [None]
        assert bodies(await house.receive()) == ["b", "c", "d", "e"]
        await house.move(MAIN)
        await asyncio.sleep(35)
        assert "later" in bodies(await house.receive())

    live(play)


def test_a_cancelled_move_leaves_everything_where_it_was() -> None:
    async def play(house: House) -> None:
        await house.send("a", "b")
        held = await house.receive(1)
        house.halls.groups[1].end(power=False)
        await house.begin(1)
        await asyncio.sleep(3)
        (move,) = house.mover.progress()
        assert (move.phase, move.partition, bool(move.problem)) == ("copying", -1, True)
        await house.inside(MAIN, lambda hall: house.mover.cancel(QUEUE))
        await house.halls.groups[1].start()
        await house.ended()
        assert await house.settle(*held) == [None]
        assert bodies(await house.receive()) == ["b"]

    live(play)


def test_dead_letters_for_a_queue_that_moves_arrive_once() -> None:
    async def play(house: House) -> None:
        await house.create("source", dead_letters=DeadLetters(queue=QUEUE, attempts_max=1), placement="hall")
        await house.ask(ops.SendMessages("source", [Outgoing(body=b"dead")]))
        [got] = await house.receive(name="source")
        await house.move(1)
        assert await house.ask(ops.ChangeLeases("source", [(got.receipt, 0)])) == [None]
        assert await house.receive(name="source") == []
        await asyncio.sleep(2)
        assert bodies(await house.receive()) == ["dead"]

    live(play)


def test_a_queue_that_moves_can_be_deleted_and_made_again() -> None:
    async def play(house: House) -> None:
        await house.send("a")
        await house.move(1)
        await house.begin(2)
        await house.ask(ops.DeleteQueue(QUEUE))
        assert house.mover.progress() == []
        await house.create()
        assert await house.receive() == []
        await house.send("new")
        await house.move(1)
        assert bodies(await house.receive()) == ["new"]

    live(play)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"whole_bytes_max": 1 << 20}, "chunks"),
        ({"parts_max": 4, "messages_max": 100}, "grows"),
        ({"audit": "deliveries"}, "audit"),
        ({"placement": "parts"}, "several groups"),
    ],
)
def test_what_cannot_move_is_refused_with_the_reason(settings: dict[str, Any], reason: str) -> None:
    async def play(house: House) -> None:
        with pytest.raises(LonghallError, match=reason):
            await house.begin(1)

    live(play, **settings)


def test_the_partitions_of_a_queue_move_together() -> None:
    async def play(house: House) -> None:
        with pytest.raises(LonghallError, match="together"):
            await house.inside(MAIN, lambda hall: house.mover.begin(QUEUE, {0: 1}))

    live(play, partitions=2)


def test_a_queue_that_has_grown_stays_also_when_it_may_not_grow_any_more() -> None:
    """Its groups are in parts that a new owner would not know, so messages would overtake others of their group."""

    async def play(house: House) -> None:
        for number in range(12):
            await house.send(str(number), group=f"g{number}")
        for _ in range(100):
            await asyncio.sleep(0.1)
            if len(house.queue(MAIN).route) == 2:
                break
        settings = house.queue(MAIN).settings
        await house.ask(ops.ConfigureQueue(QUEUE, msgspec.structs.replace(settings, parts_max=1)))
        with pytest.raises(LonghallError, match="has grown"):
            await house.begin(1)
        await house.ask(ops.PurgeQueue(QUEUE))

    live(play, fifo=True, parts_max=2, messages_max=20, grow_at=50, shrink_at=1)


async def _by_hand(house: House, copied: Callable[[CopyPlace, QueueLogs], Awaitable[None]]) -> None:
    """Move the queue to the first wing, up to the state: `copied` copies that."""
    mover, hall = house.mover, house.hall(MAIN)
    mover.close()
    await house.begin(1)
    topic = hall.catalogue.topics[QUEUE]
    move = topic.options.moves.moves[0]
    await mover._tell(topic, move.target)
    fenced = await administration.fence(hall, topic, move)
    await mover._tell(topic, move.target)
    place = CopyPlace(topic.name, topic.topic_id, fenced)
    logs = await mover._calls.logs(place)
    for one in mover._logs_of(place, logs):
        piece = await mover._calls.read(one, 0)
        await mover._calls.append(one, 0, piece)
        await mover._calls.complete(one, msgspec.structs.replace(piece, batches=b""))
    await copied(place, logs)
    await administration.switch(hall, topic, fenced)
    mover.start()
    await house.ended()


def test_a_state_of_pieces_from_several_attempts_is_not_taken() -> None:
    """A piece of an attempt that was given up can arrive between those of the next one."""

    async def play(house: House) -> None:
        await house.send("a", "b", "c")
        held = await house.receive(2)

        async def copy(place: CopyPlace, logs: QueueLogs) -> None:
            calls = house.mover._calls
            whole = await calls.read_state(place, 0)
            at = whole.total // 2
            first = StatePiece(whole.total, whole.checksum, whole.piece[:at])
            last = StatePiece(whole.total, whole.checksum, whole.piece[at:])
            late = StatePiece(whole.total, whole.checksum + 1, b"\x00" * at)
            await calls.append_state(place, 0, first)
            await calls.append_state(place, 0, late)
            with pytest.raises(LonghallError, match="several attempts"):
                await calls.complete_queue(place, logs, at, last)
            await calls.append_state(place, 0, first)
            await calls.append_state(place, at, StatePiece(whole.total, 0, b"\x00"))
            with pytest.raises(LonghallError, match="missing"):
                await calls.complete_queue(place, logs, at, last)
            await calls.append_state(place, 0, first)
            await calls.complete_queue(place, logs, at, last)

        await house.inside(MAIN, lambda hall: _by_hand(house, copy))
        assert house.queue(1).queue.in_flight == 2
        assert await house.settle(*held) == [None, None]
        assert bodies(await house.receive()) == ["c"]

    live(play)


def test_a_move_that_is_refused_behind_the_fence_lets_clients_go_on() -> None:
    """The fence is lifted at once, and the next one waits longer each time."""

    async def play(house: House) -> None:
        await house.send("a")
        fences = 0

        async def refuse(*_: Any) -> Any:
            nonlocal fences
            fences += 1
            raise LonghallError(Code.INVALID_REQUEST, "its state is too large")

        house.mover._calls.read_state = refuse  # type: ignore[assignment,method-assign]
        await house.begin(1)
        loop = asyncio.get_running_loop()
        ends_s, open_s = loop.time() + 60.0, 0.0
        while loop.time() < ends_s:
            began_s = loop.time()
            await asyncio.sleep(0.05)
            open_s += 0.0 if house.queue(MAIN).is_away else loop.time() - began_s
        assert 1 < fences < 8
        assert open_s > 50.0, "clients can use the queue nearly all the time"
        (move,) = house.mover.progress()
        assert "too large" in move.problem
        await house.inside(MAIN, lambda hall: house.mover.cancel(QUEUE))
        await house.ended()
        assert bodies(await house.receive()) == ["a"]

    live(play)
