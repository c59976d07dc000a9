"""Users in a cluster of whole nodes: added at one, valid at all, whoever leads, and after a power cut."""

from __future__ import annotations

import asyncio

from longhall.cluster.rpc.operation import Operation
from longhall.front.identity import NODE_ITSELF, Principal
from longhall.service import directory_operations as ops
from simulation.replicas.simulated_cluster import SimulatedCluster
from tests.cluster.test_failstop import play

PASSWORD = "correct horse battery staple"
ROOT = Principal("default", "root", "administrator")


def check_everywhere(cluster: SimulatedCluster, password: str, expected: Principal | None) -> None:
    for node in cluster.nodes.values():
        assert node.authentication.authenticator.check_password("root", password) == expected


def test_a_user_added_at_a_follower_is_valid_at_every_node_whoever_leads() -> None:
    async def script(cluster: SimulatedCluster, leader: int) -> None:
        follower = next(number for number in cluster.numbers if number != leader)

        async def call(operation: Operation[None]) -> None:
            await cluster.nodes[follower].service.call(operation, NODE_ITSELF)

        secrets = cluster.nodes[follower].authentication.secrets
        process = cluster.host(follower).process
        assert process is not None
        await process.start(call(ops.AddUser("root", scram=secrets.scram_keys(PASSWORD), administrator=True)))
        await asyncio.sleep(1)
        check_everywhere(cluster, PASSWORD, ROOT)
        check_everywhere(cluster, "wrong password", None)
        cluster.host(leader).kill()
        await cluster.up(60)
        check_everywhere(cluster, PASSWORD, ROOT)
        process = cluster.host(follower).process
        assert process is not None
        new = cluster.nodes[follower].authentication.secrets.scram_keys("a second password", "root")
        await process.start(call(ops.ReplacePassword("root", new)))
        await asyncio.sleep(1)
        cluster.cut_power()
        await cluster.up(60)
        check_everywhere(cluster, "a second password", ROOT)
        check_everywhere(cluster, PASSWORD, None)

    play(script)
