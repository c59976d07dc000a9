"""The leader's side of fetching everything: one at a time, and nobody waits for one who has all of it."""

from __future__ import annotations

import msgspec
import pytest

from longhall.cluster.replication.full_sync import FilePiece, SyncManifest
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
