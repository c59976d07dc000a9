"""Topics that wings keep: the hall commits them, keeps nothing of them, and knows that again after a crash."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from longhall.broker.hall import Hall
from longhall.broker.leadership import Host
from longhall.broker.placement import GroupLocation, PartitionLocation, is_elsewhere, is_placed
from longhall.broker.queues.write import write_records
from longhall.broker.topic_administration import add_partitions, configure_topic, create_topic, delete_topic, trim_log
from longhall.broker.transaction_appends import Appended, TransactionBatch
from longhall.broker.transaction_markers import PartitionMarkers
from longhall.broker.transaction_participant import SettleRequest
from longhall.errors import Code, LonghallError
from longhall.records.batch import Record
from longhall.topics.partition_moves import NO_MOVES
from tests.broker.desk import OPTIONS, Desk, Life, batch_of

PLACED = {"longhall.placement": "any-host"}
COPIES = 3


class Chosen:
    """A `Wings` that chooses three, when it is let."""

    def __init__(self, hall: Hall) -> None:
        self.spreads = False
        self.asked: list[str] = []
        self.may = asyncio.Event()
        self.may.set()
        self.meanwhile: Code | None = None
        self.markers: list[tuple[int, PartitionMarkers]] = []
        self._hall = hall

    def is_placed(self, topic: str) -> bool:
        found = self._hall.topic(topic)
        return found is not None and bool(found.options.wings)

    def kept(self, topic: str, partition: int) -> PartitionLocation:
        return PartitionLocation(0, 0, [], [])

    def brokers(self) -> list[Host]:
        return []

    def groups(self) -> list[GroupLocation]:
        return []

    def spread(self, copies_min: int = 0) -> list[int]:
        return [3, 1, 2] if self.spreads and copies_min <= COPIES else []

    async def choose(self, placement: str, name: str) -> list[int]:
        self.asked.append("choose")
        await self.may.wait()
        return [1, 3, 2]

    async def furnish(self, name: str) -> None:
        assert self._hall.topic(name) is not None
        self.asked.append("furnish")

    async def clear(self, name: str, topic_id: bytes, wings: list[int]) -> None:
        assert self._hall.topic(name) is None
        assert wings == [1, 3, 2]
        self.asked.append("clear")
        if self.meanwhile is not None:
            raise LonghallError(self.meanwhile, "not now")

    async def write_markers(self, group: int, request: PartitionMarkers) -> list[Code | None]:
        self.asked.append(f"markers for {group}")
        if self.meanwhile is not None:
            raise LonghallError(self.meanwhile, "not now")
        self.markers.append((group, request))
        return [None] * len(request.partitions)

    async def settle_in_group(self, group: int, request: SettleRequest) -> Code | None:
        raise AssertionError("these groups have no queues")

    async def append_in_transaction(self, group: int, batch: TransactionBatch) -> Appended:
        raise AssertionError("these groups have no queues")


def wings_of(life: Life) -> Chosen:
    wings = Chosen(life.hall)
    life.hall.wings = wings
    life.hall.feature_level = 3
    return wings


@pytest.mark.parametrize("end", ["kill", "cut"])
def test_a_placed_topic_is_placed_after_a_crash(end: str) -> None:
    desk = Desk()

    async def make(life: Life) -> None:
        wings = wings_of(life)
        await create_topic(life.hall, "there", 4, PLACED)
        await add_partitions(life.hall, "there", 5)
        await configure_topic(life.hall, "there", {"retention.ms": "5"})
        await create_topic(life.hall, "here", 1, {})
        assert wings.asked == ["choose", "furnish", "furnish", "furnish"]

    async def look(life: Life) -> None:
        topic = life.hall.topic("there")
        assert topic is not None
        assert topic.configuration == {**PLACED, "longhall.wings": "1,3,2", "retention.ms": "5"}
        assert [partition.elsewhere for partition in life.hall.routes["there"]] == [True] * 5
        assert [partition.elsewhere for partition in life.hall.routes["here"]] == [False]
        assert is_placed(wings_of(life), "there")
        assert not is_placed(life.hall.wings, "here")
        assert not is_placed(None, "there")

    desk.live(make, end=end)
    desk.live(look, end=end)
    in_a_wing = Desk(options=msgspec.structs.replace(OPTIONS, wing=3))
    kept = {**PLACED, "longhall.wings": "1,3,2"}

    async def furnished(life: Life) -> None:
        await create_topic(life.hall, "there", 5, kept, topic_id=b"t" * 16)

    async def look_there(life: Life) -> None:
        topic = life.hall.topic("there")
        assert topic is not None
        assert topic.topic_id == b"t" * 16
        assert [partition.elsewhere for partition in life.hall.routes["there"]] == [True, False, True, True, False]
        await configure_topic(life.hall, "there", {**kept, "retention.ms": "5"})
        assert life.partition("there", 1).options.retention_ms == 5
        assert (await life.send(life.partition("there", 1), batch_of(b"x"))).code is None
        await delete_topic(life.hall, "there")

    in_a_wing.live(furnished, end=end)
    in_a_wing.live(look_there, end=end)


def test_nothing_is_appended_to_partitions_of_wings() -> None:
    async def play(life: Life) -> None:
        wings_of(life)
        await create_topic(life.hall, "there", 3, PLACED)
        partition = life.partition("there", 1)
        before = [shard.sequence for shard in life.hall.shards]
        assert (await life.send(partition, batch_of(b"x"))).code is Code.NOT_LEADER
        record = Record(-1, 1, None, b"x", ())
        with pytest.raises(LonghallError) as caught:
            write_records(life.hall, partition, [record], life.hall.time.now_ms())
        assert caught.value.code is Code.NOT_LEADER
        with pytest.raises(LonghallError) as caught:
            await trim_log(life.hall, partition, 0)
        assert caught.value.code is Code.NOT_LEADER
        assert await life.transactor.mark_partition("there", 1, 5, 0, 0, True) is Code.NOT_LEADER
        assert [shard.sequence for shard in life.hall.shards] == before
        assert partition.log.next_offset == 0
        assert partition.producers is None

    Desk().live(play)


def test_a_transaction_ends_after_its_topic_was_recreated_in_wings() -> None:
    async def play(life: Life) -> None:
        wings_of(life)
        await create_topic(life.hall, "t", 1, {})
        began = await life.transactor.init("x", 60_000, -1, -1)
        who, epoch = began.producer_id, began.producer_epoch
        assert (await life.transactor.add("x", who, epoch, partitions=[("t", 0)])).code is None
        await delete_topic(life.hall, "t")
        await create_topic(life.hall, "t", 3, PLACED)
        assert (await life.transactor.end("x", who, epoch, True, False)).code is None
        await life.transactor.stop()
        described = life.transactor.describe_transaction("x")
        assert described is not None
        assert described.state == "CompleteCommit"
        assert life.partition("t").log.next_offset == 0

    Desk().live(play)


def test_changes_while_wings_start() -> None:
    """The first create gets the name; a node that has lost leadership creates nothing."""

    async def play(life: Life) -> None:
        wings = wings_of(life)
        wings.may.clear()
        both = [asyncio.create_task(create_topic(life.hall, "t", -1, PLACED)) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert life.hall.routes == {}
        wings.may.set()
        made, late = await asyncio.gather(*both, return_exceptions=True)
        assert isinstance(late, LonghallError)
        assert late.code is Code.TOPIC_EXISTS
        assert not isinstance(made, BaseException)
        assert made is not None
        assert len(made.partitions) == 3
        assert wings.asked == ["choose", "choose", "furnish"]

        wings.may.clear()
        third = asyncio.create_task(create_topic(life.hall, "u", -1, PLACED))
        await asyncio.sleep(0.01)
        life.hall.leadership = Deposed()
        wings.may.set()
        with pytest.raises(LonghallError) as caught:
            await third
        assert caught.value.code is Code.NOT_CONTROLLER
        assert list(life.hall.routes) == ["t"]

    Desk().live(play)


class Deposed:
    """A `Leadership` of a node that leads nothing."""

    node = 1

    def leads(self, shard: int) -> bool:
        return False

    def leader_node(self, shard: int) -> int:
        return 2

    def epoch(self, shard: int) -> int:
        return 2

    def replicas(self, shard: int) -> list[int]:
        return [1, 2]

    def in_sync(self, shard: int) -> list[int]:
        return [1, 2]

    def members(self) -> list[Host]:
        return []


def test_a_topic_is_deleted_even_if_its_wings_do_not_answer() -> None:
    async def play(life: Life) -> None:
        wings = wings_of(life)
        await create_topic(life.hall, "t", -1, PLACED)
        wings.meanwhile = Code.NOT_READY
        await delete_topic(life.hall, "t")
        assert wings.asked[-1] == "clear"
        assert life.hall.topic("t") is None

    Desk().live(play)


def test_lanes() -> None:
    assert [is_elsewhere([1, 3, 2], NO_MOVES, number, 0) for number in range(4)] == [True] * 4
    assert [is_elsewhere([1, 3, 2], NO_MOVES, number, 3) for number in range(6)] == [
        True,
        False,
        True,
        True,
        False,
        True,
    ]
    assert [is_elsewhere([4], NO_MOVES, number, 4) for number in range(3)] == [False] * 3
    assert not is_elsewhere([], NO_MOVES, 0, 0)
    assert not is_elsewhere([], NO_MOVES, 0, 4)
