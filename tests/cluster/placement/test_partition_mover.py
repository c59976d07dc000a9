"""The mover over a hall and two wings: what clients notice of a partition that has moved, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.configuration import MOVES, WINGS
from longhall.broker.events import SegmentsDropped
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.upkeep.queue_administration import declare
from longhall.broker.send import send
from longhall.broker.topic_administration import configure_topic, create_topic, delete_topic, trim_log
from longhall.broker.waiting import committed
from longhall.cluster.placement.partition_mover import PartitionMover
from longhall.cluster.placement.topic_operations import ApplyTopic, ListTopics, TopicSpec
from longhall.errors import Code, LonghallError
from longhall.queues.settings import QueueSettings
from longhall.records.batch import Record, build_batch, parse_header, read_records
from longhall.shards.shard import PARTITIONS
from longhall.topics.partition_moves import EPOCHS_A_MOVE
from simulation.scenarios.group_halls import MAIN, GroupHalls
from simulation.world import Simulation

TOPIC = "events"
WAIT_S = 60.0


class House:
    """The groups, and a client that knows which one has a partition."""

    def __init__(self, simulation: Simulation) -> None:
        self.halls = GroupHalls(simulation, 2)

    def hall(self, group: int) -> Hall:
        hall = self.halls.groups[group].hall
        assert hall is not None
        return hall

    @property
    def mover(self) -> PartitionMover:
        mover = self.halls.groups[MAIN].mover
        assert mover is not None
        return mover

    def at(self, group: int, number: int = 0) -> Partition:
        partition = self.hall(group).partition(TOPIC, number)
        assert partition is not None
        return partition

    async def inside(self, group: int, work: Callable[[Hall], Awaitable[Any]]) -> Any:
        process = self.halls.groups[group].host.process
        assert process is not None

        async def do() -> Any:
            return await work(self.hall(group))

        return await process.start(do())

    async def send(self, group: int, sequence: int, producer: int = 7, number: int = 0) -> int | Code:
        frame = build_batch(
            [Record(0, 0, b"k%d" % sequence, f"m{sequence}".encode())],
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
        )

        async def do(hall: Hall) -> int | Code:
            sent = send(hall, self.at(group, number), frame, 0, len(frame))
            if sent.code is None:
                await committed(hall, self.at(group, number).shard)
            return sent.code or sent.base_offset

        found: int | Code = await self.inside(group, do)
        return found

    async def move(self, target: int, number: int = 0) -> None:
        await self.inside(MAIN, lambda hall: self.mover.begin(TOPIC, {number: target}))
        await self.ended()

    async def ended(self) -> None:
        async with asyncio.timeout(WAIT_S):
            while True:
                await asyncio.sleep(0.1)
                if not self.mover.progress():
                    break

    def bodies(self, group: int) -> list[tuple[int, int, bytes]]:
        """Offset, leader epoch and body of each message."""
        log = self.at(group).log
        rows: list[tuple[int, int, bytes]] = []
        offset = log.start_offset
        while offset < log.next_offset:
            data, at = b"".join(log.read(offset, 1 << 20, log.next_offset).buffers), 0
            while at < len(data):
                header = parse_header(data, at)
                rows += [(header.base_offset, header.leader_epoch, one.value or b"") for one in read_records(data, at)]
                at += header.size_bytes
                offset = header.next_offset
        return rows


def live(play: Callable[[House], Awaitable[None]], partitions: int = 1, **configuration: str) -> None:
    simulation = Simulation(1)

    async def inside() -> None:
        house = House(simulation)
        for group in house.halls.groups.values():
            await group.start()
        settings = {name.replace("_", "."): value for name, value in configuration.items()}
        await house.inside(MAIN, lambda hall: create_topic(hall, TOPIC, partitions, settings))
        await play(house)

    simulation.run(inside())


def test_offsets_producers_and_epochs_go_with_a_partition_to_a_wing_and_back() -> None:
    async def play(house: House) -> None:
        for sequence in range(10):
            assert await house.send(MAIN, sequence) == sequence
        before = house.at(MAIN).epoch
        await house.move(1)
        assert [row[0] for row in house.bodies(1)] == list(range(10))
        assert await house.send(MAIN, 10) is Code.NOT_LEADER
        assert await house.send(1, 9) == 9, "a repeated batch is known"
        assert await house.send(1, 12) is Code.OUT_OF_ORDER_SEQUENCE
        assert await house.send(1, 10) == 10
        assert house.at(1).epoch > before
        assert house.at(1).end_of_epoch(before) == (before, 10)
        topic = house.hall(MAIN).topic(TOPIC)
        assert topic is not None
        assert topic.configuration["longhall.placement"] == "share"
        await house.move(2)
        assert await house.send(2, 11) == 11
        await house.move(MAIN)
        assert await house.send(MAIN, 12) == 12
        assert house.at(MAIN).epoch >= 3 * EPOCHS_A_MOVE
        epochs = [row[1] for row in house.bodies(MAIN)]
        assert epochs == sorted(epochs)
        assert [house.at(group).log.next_offset for group in (1, 2)] == [0, 0], "the copies are discarded"
        assert (topic.options.wings, topic.configuration["longhall.placement"]) == ([], "hall")

    live(play)


def test_a_producer_is_known_though_retention_removed_all_its_messages() -> None:
    async def play(house: House) -> None:
        for sequence in range(5):
            await house.send(MAIN, sequence)
        await house.inside(MAIN, lambda hall: trim_log(hall, house.at(MAIN), 5))
        await house.send(MAIN, 0, producer=8)
        await house.move(1)
        log = house.at(1).log
        assert (log.start_offset, log.next_offset) == (5, 6)
        assert await house.send(1, 4) == 4
        assert await house.send(1, 5) == 6

    live(play)


def test_an_empty_partition_moves_at_the_start_of_its_log() -> None:
    async def play(house: House) -> None:
        await house.send(MAIN, 0)
        await house.inside(MAIN, lambda hall: trim_log(hall, house.at(MAIN), 1))
        await house.move(2)
        assert await house.send(2, 1) == 1

    live(play)


@pytest.mark.parametrize("power", [True, False])
def test_what_has_moved_is_there_after_a_crash_of_every_group(power: bool) -> None:
    async def play(house: House) -> None:
        for sequence in range(20):
            await house.send(MAIN, sequence)
        await house.move(1)
        await house.send(1, 20)
        await house.inside(1, checkpoint)
        await house.send(1, 21)
        for group in house.halls.groups.values():
            group.end(power=power)
            await group.start()
        assert [row[0] for row in house.bodies(1)] == list(range(22))
        assert await house.send(1, 21) == 21
        assert await house.send(MAIN, 22) is Code.NOT_LEADER
        await house.move(MAIN)
        assert [row[0] for row in house.bodies(MAIN)] == list(range(22))

    live(play)


def test_a_cancelled_move_leaves_everything_where_it_was() -> None:
    async def play(house: House) -> None:
        for sequence in range(3):
            await house.send(MAIN, sequence)
        house.halls.groups[1].end(power=False)  # The copy cannot begin.
        await house.inside(MAIN, lambda hall: house.mover.begin(TOPIC, {0: 1}))
        await asyncio.sleep(3)
        (move,) = house.mover.progress()
        assert move.phase == "copying"
        assert move.problem
        assert await house.send(MAIN, 3) == 3
        await house.inside(MAIN, lambda hall: house.mover.cancel(TOPIC))
        await house.halls.groups[1].start()
        await house.ended()
        assert await house.send(MAIN, 4) == 4
        assert house.at(1).log.next_offset == 0

    live(play)


def test_a_fence_is_lifted_if_the_target_does_not_answer() -> None:
    async def play(house: House) -> None:
        await house.send(MAIN, 0)
        good = house.mover._copy_rest
        lost = asyncio.Event()

        async def copy_rest(work: Any, place: Any) -> None:
            if not lost.is_set():
                lost.set()
                await asyncio.sleep(3600)
            await good(work, place)

        house.mover._copy_rest = copy_rest  # type: ignore[method-assign]
        await house.inside(MAIN, lambda hall: house.mover.begin(TOPIC, {0: 1}))
        await lost.wait()
        assert await house.send(MAIN, 1) is Code.NOT_LEADER
        async with asyncio.timeout(WAIT_S):
            while True:
                await asyncio.sleep(0.05)
                if await house.send(MAIN, 1) is not Code.NOT_LEADER:
                    break
        await house.ended()
        assert house.at(1).log.next_offset == 2

    live(play)


def test_a_group_never_goes_back_to_an_earlier_record() -> None:
    async def play(house: House) -> None:
        await house.send(MAIN, 0)
        topic = house.hall(MAIN).topic(TOPIC)
        assert topic is not None
        await house.move(1)
        early = dict(topic.configuration)
        await house.move(2)
        spec = TopicSpec(name=TOPIC, topic_id=topic.topic_id, partitions=1, configuration=early)
        with pytest.raises(LonghallError) as refused:
            await house.halls.call(1, ApplyTopic(spec))
        assert refused.value.code is Code.NOT_CONTROLLER
        assert await house.send(1, 1) is Code.NOT_LEADER
        assert await house.send(2, 1) == 1

    live(play)


def test_single_partitions_move_and_the_topic_can_be_changed_and_deleted_meanwhile() -> None:
    async def play(house: House) -> None:
        for number in range(3):
            await house.send(MAIN, 0, number=number)
        await house.move(1, number=1)
        assert [house.at(MAIN, number).elsewhere for number in range(3)] == [False, True, False]
        assert [house.at(1, number).elsewhere for number in range(3)] == [True, False, True]
        for number, group in enumerate((MAIN, 1, MAIN)):
            assert await house.send(group, 1, number=number) == 1
        await house.inside(MAIN, lambda hall: configure_topic(hall, TOPIC, {"retention.ms": "1000"}))
        topic = house.hall(MAIN).topic(TOPIC)
        assert topic is not None
        assert (topic.configuration[WINGS], bool(topic.configuration[MOVES])) == ("0,1", True)
        for setting in (WINGS, MOVES):
            with pytest.raises(LonghallError, match="cannot change"):
                await house.inside(MAIN, partial(configure_topic, name=TOPIC, configuration={setting: "1"}))
        await house.inside(MAIN, lambda hall: house.mover.begin(TOPIC, {2: 2}))
        await house.inside(MAIN, lambda hall: delete_topic(hall, TOPIC))
        assert house.mover.progress() == []
        assert await house.halls.call(1, ListTopics()) == []

    live(play, partitions=3)


def test_a_queue_that_comes_during_the_copy_keeps_the_partition_where_it_is() -> None:
    async def play(house: House) -> None:
        await house.send(MAIN, 0)
        house.halls.groups[1].end(power=False)  # The copy cannot begin.
        await house.inside(MAIN, lambda hall: house.mover.begin(TOPIC, {0: 1}))
        await house.inside(MAIN, lambda hall: declare(hall, "reader", TOPIC, QueueSettings()))
        await house.halls.groups[1].start()
        await asyncio.sleep(10)
        (move,) = house.mover.progress()
        assert (move.phase, "cursors do not move" in move.problem) == ("copying", True)
        assert await house.send(MAIN, 1) == 1
        await house.inside(MAIN, lambda hall: house.mover.cancel(TOPIC))
        await house.ended()

    live(play)


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [({"longhall_archive": "required"}, "archived")],
)
def test_what_cannot_move_is_refused_with_the_reason(configuration: dict[str, str], reason: str) -> None:
    async def play(house: House) -> None:
        with pytest.raises(LonghallError, match=reason):
            await house.inside(MAIN, lambda hall: house.mover.begin(TOPIC, {0: 1}))
        with pytest.raises(LonghallError):
            await house.inside(MAIN, lambda hall: house.mover.begin("unknown", {0: 1}))

    live(play, 1, **configuration)


def test_a_compacted_topic_moves_with_its_gaps() -> None:
    async def play(house: House) -> None:
        for sequence in range(60):
            await house.send(MAIN, sequence)
        partition = house.at(MAIN)

        async def drop(hall: Hall) -> None:
            bases = [segment.base_offset for segment in partition.log.segments[1:3]]
            hall.append_event(
                partition.shard, PARTITIONS, SegmentsDropped(partition=partition.log.partition, base_offsets=bases)
            )
            hall.drop_segments(partition, bases)

        await house.inside(MAIN, checkpoint)
        await house.inside(MAIN, drop)
        before = house.bodies(MAIN)
        assert 0 < len(before) < 60
        await house.move(1)
        assert house.bodies(1) == before
        for group in house.halls.groups.values():
            group.end(power=True)
            await group.start()
        assert house.bodies(1) == before
        assert not house.at(1).log.damaged
        assert await house.send(1, 60) == 60

    live(play, cleanup_policy="compact", segment_bytes="1024")
