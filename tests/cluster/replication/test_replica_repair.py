"""Bits that flip on one node: readers never notice, and damage does not spread. Three nodes in the simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from longhall.client.fetched_records import decode_fetched
from longhall.client.records import EARLIEST
from longhall.client.refusals import Refused
from longhall.cluster.replication.group_replica import GroupReplica
from longhall.cluster.replication.repair_source import READ, REPORT, BatchesReply, BatchesRequest, DamageReport
from longhall.cluster.rpc.peers import Peers
from longhall.errors import Code, LonghallError
from longhall.log.segment_repair import valid_headers
from longhall.queues.settings import QueueSettings
from longhall.records.batch import Record, build_batch, check_batch, read_records
from simulation.platter import Inode
from simulation.replicas.simulated_cluster import SimulatedCluster
from simulation.scenarios.cluster_run import context_of
from simulation.scenarios.run_context import RunContext
from simulation.world import Simulation

TOPIC = "events"
COUNT = 40  # Messages, one a batch, of which some fill a segment.
BODY = b"v" * 300


def play(script: Callable[[SimulatedCluster, RunContext], Coroutine[Any, Any, None]]) -> None:
    """Start three nodes with a topic of several closed segments, all of them in their files."""
    simulation = Simulation(1)
    fleet = SimulatedCluster(simulation)
    stage = context_of(fleet)

    async def whole() -> None:
        fleet.start()
        await fleet.up(60)
        await stage.on_clients(write(stage))
        await asyncio.sleep(3)  # Everything goes to its segment within a second.
        await script(fleet, stage)

    simulation.run(whole())
    simulation.close()


async def write(stage: RunContext) -> None:
    hall = await stage.connect("writer")
    await hall.topics.create(TOPIC, partitions=1, configs={"segment.bytes": "4096"})
    for number in range(COUNT):
        await hall.records.produce(TOPIC, 0, build_batch([Record(0, stage.now_ms(), b"%d" % number, BODY)]))
    hall.close()


async def read(stage: RunContext) -> list[bytes]:
    hall = await stage.connect("reader")
    offset = (await hall.records.list_offsets(TOPIC, {0: EARLIEST}))[0].offset
    found: list[bytes] = []
    while offset < COUNT:
        opened = decode_fetched(await hall.records.fetch(TOPIC, 0, offset), offset)
        found += [record.key or b"" for record in opened.records]
        offset = opened.next_offset
    hall.close()
    return found


def segment(fleet: SimulatedCluster, node: int, at: int) -> Inode:
    """One of the closed segments of the topic."""
    number = fleet.nodes[node].hall.routes[TOPIC][0].log.partition
    found = [
        inode
        for path, inode in fleet.host(node).platter.inodes()
        if path.lstrip("/").startswith(f"partitions/{number:016x}/") and path.endswith(".log")
    ]
    assert len(found) > 3
    return found[at]


def contents(fleet: SimulatedCluster, node: int) -> list[bytes]:
    return [bytes(segment(fleet, node, at).content) for at in range(3)]


def member_of(fleet: SimulatedCluster, node: int) -> GroupReplica:
    cluster_node = fleet.nodes[node].cluster_node
    assert cluster_node is not None
    assert cluster_node.member is not None
    return cluster_node.member


def test_what_is_damaged_on_the_leader_comes_from_another_node() -> None:
    async def script(fleet: SimulatedCluster, stage: RunContext) -> None:
        leader = fleet.leader_number()
        good = contents(fleet, leader)
        for at, position in ((0, 100), (0, 2000), (1, 5), (2, 3000)):
            segment(fleet, leader, at).flip(position, 4)
        assert await stage.on_clients(read(stage)) == [b"%d" % number for number in range(COUNT)]
        assert contents(fleet, leader) == good
        assert fleet.nodes[leader].hall.mended == 4
        assert (fleet.leader_number(), fleet.restarts) == (leader, 0)

    play(script)


def test_copies_that_are_damaged_in_different_places_make_a_whole_one() -> None:
    async def script(fleet: SimulatedCluster, stage: RunContext) -> None:
        good = contents(fleet, 1)
        for node, position in ((1, 100), (2, 500), (3, 900)):
            segment(fleet, node, 0).flip(position, 4)
        assert await stage.on_clients(read(stage)) == [b"%d" % number for number in range(COUNT)]
        assert contents(fleet, fleet.leader_number()) == good
        assert fleet.restarts == 0

    play(script)


def test_what_every_node_has_lost_is_refused_and_the_leader_leads_on() -> None:
    async def script(fleet: SimulatedCluster, stage: RunContext) -> None:
        leader = fleet.leader_number()
        for node in fleet.numbers:
            segment(fleet, node, 0).flip(100, 4)
        with pytest.raises(Refused) as caught:
            await stage.on_clients(read(stage))
        assert caught.value.error_code == 2  # CORRUPT_MESSAGE: a reader must not go on as if nothing were missing.
        assert (fleet.leader_number(), fleet.restarts) == (leader, 0)

    play(script)


def test_while_a_node_that_may_have_it_is_away_readers_wait() -> None:
    async def script(fleet: SimulatedCluster, stage: RunContext) -> None:
        leader = fleet.leader_number()
        other, good = (node for node in fleet.numbers if node != leader)
        for node in (leader, other):
            segment(fleet, node, 0).flip(100, 4)
        fleet.down.add(good)
        fleet.host(good).kill()
        reading = asyncio.ensure_future(stage.on_clients(read(stage)))
        await asyncio.sleep(20)
        assert not reading.done()
        fleet.down.discard(good)
        assert await reading == [b"%d" % number for number in range(COUNT)]

    play(script)


@pytest.mark.parametrize("keeps", [True, False])
def test_what_is_fetched_anew_is_whole_though_the_leader_is_not(keeps: bool) -> None:
    """It comes from the third node, or from what the node had itself."""

    async def script(fleet: SimulatedCluster, stage: RunContext) -> None:
        leader = fleet.leader_number()
        late, third = (node for node in fleet.numbers if node != leader)
        good = contents(fleet, leader)
        for node in (leader, third if keeps else late):
            segment(fleet, node, 0).flip(100, 4)
        boots = fleet.host(late).boots
        member_of(fleet, late).refetch("somebody wants it so")
        for _ in range(600):
            if fleet.host(late).boots > boots:
                break
            await asyncio.sleep(0.1)
        await fleet.up(60)
        assert contents(fleet, late) == good
        await asyncio.sleep(3)
        assert contents(fleet, leader) == good  # It was told, and has put it right.

    play(script)


def test_bad_questions_are_refused_and_change_nothing() -> None:
    async def script(fleet: SimulatedCluster, stage: RunContext) -> None:
        number = fleet.nodes[1].hall.routes[TOPIC][0].log.partition
        asked = {"partition": number, "first": 3, "behind": 5, "skip": 0}
        process, cluster_node = fleet.host(2).process, fleet.nodes[2].cluster_node
        assert process is not None
        assert cluster_node is not None
        peers: Peers = cluster_node.peers

        async def refusal(body: bytes, verb: str = READ) -> Code:
            with pytest.raises(LonghallError) as caught:
                await process.start(peers.request(1, verb, body, 5.0))
            return caught.value.code

        for wrong, code in (
            ({"partition": number + 1000}, Code.NOT_READY),
            ({"partition": -1}, Code.NOT_READY),
            ({"first": -1}, Code.INVALID_REQUEST),
            ({"first": 5}, Code.INVALID_REQUEST),
            ({"first": 6}, Code.INVALID_REQUEST),
            ({"behind": COUNT + 1}, Code.NOT_READY),
            ({"behind": 1 << 62}, Code.NOT_READY),
            ({"skip": -1}, Code.INVALID_REQUEST),
            ({"skip": 1 << 62}, Code.INVALID_REQUEST),
            ({"partition": "one"}, Code.INVALID_REQUEST),
        ):
            assert await refusal(msgspec.msgpack.encode({**asked, **wrong})) is code, wrong
        for body in (b"", b"\xff", msgspec.msgpack.encode([1, 2, 3])):
            assert await refusal(body) is Code.INVALID_REQUEST
            assert await refusal(body, REPORT) is Code.INVALID_REQUEST
        await process.start(
            peers.request(1, REPORT, msgspec.msgpack.encode(DamageReport(partition=number + 1, offset=-5)), 5.0)
        )
        body = await process.start(peers.request(1, READ, msgspec.msgpack.encode(BatchesRequest(**asked)), 5.0))
        given = msgspec.msgpack.decode(body, type=BatchesReply)
        assert [header.base_offset for header in valid_headers(given.data, 3, 5) or []] == [3, 4]
        assert given.size == len(given.data)
        skipped = msgspec.msgpack.encode(BatchesRequest(**{**asked, "skip": 100}))
        rest = msgspec.msgpack.decode(await process.start(peers.request(1, READ, skipped, 5.0)), type=BatchesReply)
        assert (rest.size, rest.data) == (given.size, given.data[100:])
        assert fleet.nodes[1].hall.mended == 0

    play(script)


def test_a_queue_gives_out_what_is_damaged_on_its_leader_and_passes_over_what_is_lost() -> None:
    async def script(fleet: SimulatedCluster, stage: RunContext) -> None:
        found = fleet.inside()
        assert found is not None
        process, desk = found
        await process.start(desk.declare("line", TOPIC, QueueSettings()))
        segment(fleet, fleet.leader_number(), 0).flip(100, 4)
        for node in fleet.numbers:
            segment(fleet, node, 1).flip(100, 4)
        given: list[bytes] = []
        for _ in range(COUNT):
            deliveries = await process.start(desk.receive("line", 10, 20_000, 600_000).wait())
            given += [delivery.body for delivery in deliveries]
            if len(given) == COUNT - 1:
                break
        assert len(given) == COUNT - 1  # One of them is nowhere whole.
        assert fleet.nodes[fleet.leader_number()].hall.mended == 1
        assert fleet.restarts == 0

    play(script)


async def scrub(fleet: SimulatedCluster, node: int) -> None:
    """A pass on this node, and what follows from it."""
    process = fleet.host(node).process
    assert process is not None
    scrubber = fleet.nodes[node].scrubber

    async def begin() -> int:
        return scrubber.begin_now()

    passes = await process.start(begin())
    for _ in range(1200):
        if not process.alive or (scrubber.report.passes >= passes and not scrubber.report.damaged):
            return
        await asyncio.sleep(0.05)


def test_what_flips_on_a_follower_is_repaired_by_its_scrub() -> None:
    async def script(fleet: SimulatedCluster, stage: RunContext) -> None:
        leader = fleet.leader_number()
        other, third = (node for node in fleet.numbers if node != leader)
        good = contents(fleet, leader)
        for node, at in ((other, 0), (other, 2), (third, 1), (leader, 0)):
            segment(fleet, node, at).flip(100, 4)
        for node in fleet.numbers:
            await scrub(fleet, node)
            assert contents(fleet, node) == good
        assert [fleet.nodes[node].hall.mended for node in (leader, other, third)] == [1, 2, 1]
        assert (fleet.leader_number(), fleet.restarts) == (leader, 0)

    play(script)


def test_a_follower_that_cannot_mend_in_place_fetches_everything_once() -> None:
    """The leader has the messages in other bytes, as if its cleaner had been at work, and the third lost them too."""

    async def script(fleet: SimulatedCluster, stage: RunContext) -> None:
        leader = fleet.leader_number()
        other, third = (node for node in fleet.numbers if node != leader)
        good = contents(fleet, third)
        for node in (other, third):
            segment(fleet, node, 0).flip(100, 4)
        _rewrite_first(fleet, leader)
        boots = fleet.host(other).boots
        await scrub(fleet, other)
        for _ in range(600):
            if fleet.host(other).boots > boots:
                break
            await asyncio.sleep(0.1)
        await fleet.up(60)
        assert fleet.host(other).boots == boots + 1
        assert contents(fleet, other)[0] == contents(fleet, leader)[0] != good[0]
        assert contents(fleet, other)[1:] == good[1:]
        assert fleet.leader_number() == leader

    play(script)


def _rewrite_first(fleet: SimulatedCluster, node: int) -> None:
    """The first segment of this node has less in its first batch: the same offsets in other bytes."""
    inode = segment(fleet, node, 0)
    header = check_batch(bytes(inode.content), 0, len(inode.content))
    records = read_records(bytes(inode.content), 0)
    batch = build_batch([Record(0, one.timestamp_ms, one.key, (one.value or b"")[:-40]) for one in records])
    patched = bytearray(batch)
    patched[:8] = header.base_offset.to_bytes(8, "big")
    patched[12:16] = header.leader_epoch.to_bytes(4, "big")
    inode.content[: header.size_bytes] = patched
    for one in fleet.nodes[node].hall.routes[TOPIC][0].log.segments[:1]:
        one.size_bytes = one.written_bytes = len(inode.content)
        one.index = None
