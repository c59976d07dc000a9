"""Full sync: one follower at a time, none waits for one that has everything, and small files are fetched together."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from longhall.cluster.replication.full_sync import FILES_AT_ONCE, READ, FilePiece, SyncManifest
from longhall.cluster.rpc.peers import Audience
from longhall.errors import Code, LonghallError
from simulation.replicas.simulated_cluster import SimulatedCluster
from simulation.scenarios.run_context import RunContext
from tests.cluster.replication.test_replica_repair import member_of, play


def test_the_next_one_waits_until_all_is_read_and_not_until_the_first_one_follows() -> None:
    async def script(fleet: SimulatedCluster, stage: RunContext) -> None:
        leader = fleet.leader_number()
        offer, process = member_of(fleet, leader).leader.streams.full_sync, fleet.host(leader).process
        assert process is not None
        body = await process.start(offer._begin(8, b""))
        manifest = msgspec.msgpack.decode(body, type=SyncManifest)
        for number, (_, size) in enumerate(manifest.files):
            with pytest.raises(LonghallError) as caught:
                await process.start(offer._begin(9, b""))
            assert caught.value.code is Code.OVERLOADED
            piece = FilePiece(token=manifest.token, number=number, position=0, size=size)
            assert len(await process.start(offer._read(8, msgspec.msgpack.encode(piece)))) == size
        assert msgspec.msgpack.decode(await process.start(offer._begin(9, b"")), type=SyncManifest).files
        with pytest.raises(LonghallError) as caught:
            await process.start(offer._read(8, msgspec.msgpack.encode(piece)))
        assert caught.value.code is Code.NOT_READY

    play(script)


def test_waits_for_small_files_overlap() -> None:
    async def script(fleet: SimulatedCluster, stage: RunContext) -> None:
        leader = fleet.leader_number()
        offer = member_of(fleet, leader).leader.streams.full_sync
        good, under_way, most = offer._read, 0, 0

        async def read(node: int, asked: bytes) -> bytes:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.05)
            under_way -= 1
            return await good(node, asked)

        source, follower = fleet.nodes[leader].cluster_node, next(one for one in fleet.nodes if one != leader)
        target = fleet.nodes[follower].cluster_node
        assert source is not None
        assert target is not None
        source.peers.serve(READ, read, Audience.MEMBERS)
        target.refetch(leader, "the test wants it")
        await asyncio.sleep(5)
        await fleet.up(60.0)
        assert fleet.fetches[follower] == 1
        assert 1 < most <= FILES_AT_ONCE

    play(script)
