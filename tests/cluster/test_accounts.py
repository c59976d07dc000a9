"""Users in a cluster of whole nodes: added at one, valid at all, whoever leads, and after a power cut."""

from __future__ import annotations

import asyncio

from longhall.cluster.rpc.operation import Operation
from longhall.front.identity import NODE_ITSELF, Principal
from longhall.front.web_sessions import ID_BYTES, WebSessions
from longhall.service import directory_operations as ops
from simulation.replicas.simulated_cluster import SimulatedCluster
from tests.cluster.test_failstop import play

PASSWORD = "correct horse battery staple"
ROOT = Principal("default", "root", "administrator")


def check_everywhere(cluster: SimulatedCluster, password: str, expected: Principal | None) -> None:
    for node in cluster.nodes.values():
        assert node.authentication.authenticator.check_password("root", password) == expected


def test_a_session_that_ended_at_a_follower_has_ended_at_every_node_whoever_leads() -> None:
    async def script(cluster: SimulatedCluster, leader: int) -> None:
        follower = next(number for number in cluster.numbers if number != leader)

        async def call(operation: Operation[None]) -> None:
            await cluster.nodes[follower].service.call(operation, NODE_ITSELF)

        async def run(operation: Operation[None]) -> None:
            process = cluster.host(follower).process
            assert process is not None
            await process.start(call(operation))

        def sessions_of(number: int) -> WebSessions:
            authenticator = cluster.nodes[number].authentication.authenticator
            return WebSessions(authenticator, b"shared", 3_600_000, lambda size: bytes([number]) * size, _nowhere)

        def valid(cookie: str) -> list[bool]:
            return [sessions_of(number).principal_of(cookie) is not None for number in cluster.nodes]

        secrets = cluster.nodes[follower].authentication.secrets
        await run(ops.AddUser("root", scram=secrets.scram_keys(PASSWORD), administrator=True))
        await asyncio.sleep(1)
        ended, other = sessions_of(follower).begin(ROOT), sessions_of(leader).begin(ROOT)
        assert all(valid(ended) + valid(other))
        end_ms = cluster.nodes[follower].authentication.authenticator.now_ms() + 3_600_000
        await run(ops.EndSession((bytes([follower]) * ID_BYTES).hex(), end_ms))
        await asyncio.sleep(1)
        assert not any(valid(ended))
        assert all(valid(other))
        cluster.cut_power()
        await cluster.up(60)
        assert not any(valid(ended))
        assert all(valid(other))

    play(script)


async def _nowhere(session_id: str, until_ms: int) -> None:
    """The test ends sessions by the operation itself."""


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
