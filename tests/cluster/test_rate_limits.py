"""Rate limits in a cluster of whole nodes: they hold for the sum of what all nodes grant, whoever leads."""

from __future__ import annotations

import asyncio
from collections import Counter

from longhall.cluster.rpc.operation import Caller
from longhall.directory.rate_limits import REQUESTS, SEND, LimitScope, RateLimit
from longhall.front.identity import NODE_ITSELF
from longhall.service.limit_operations import SetRateLimit
from simulation.replicas.simulated_cluster import SimulatedCluster
from tests.cluster.test_failstop import play

RATE = 200
LOUD = Caller("ann", "10.0.0.1", "acme", "user")
QUIET = Caller("eva", "10.0.0.2", "other", "user")
STEP_S = 0.05


async def ask(cluster: SimulatedCluster, numbers: list[int], seconds: float) -> Counter[str]:
    """Clients of two tenants ask these nodes for ten times the limit; what was granted, by tenant."""
    granted: Counter[str] = Counter()
    for _ in range(int(seconds / STEP_S)):
        for number in numbers:
            rates = cluster.nodes[number].limits.rates
            for caller in (LOUD, QUIET):
                for _ in range(int(10 * RATE * STEP_S) // len(numbers)):
                    if rates.debt_ms(caller, SEND, "jobs"):
                        break
                    rates.charge(caller, SEND, "jobs")
                    granted[caller.tenant] += 1
        await asyncio.sleep(STEP_S)
    return granted


def test_a_limit_holds_for_the_sum_over_all_nodes_also_while_the_leader_changes() -> None:
    async def script(cluster: SimulatedCluster, leader: int) -> None:
        numbers = list(cluster.numbers)
        followers = [number for number in numbers if number != leader]
        process = cluster.host(followers[0]).process
        assert process is not None
        limit = RateLimit(LimitScope(tenant="acme"), {REQUESTS: RATE})

        async def call(operation: SetRateLimit) -> None:
            await cluster.nodes[followers[0]].service.call(operation, NODE_ITSELF)

        await process.start(call(SetRateLimit(limit)))
        await asyncio.sleep(1)
        assert all(cluster.nodes[number].limits.rates.active for number in numbers)
        await ask(cluster, numbers, 5)  # The leader learns who serves clients.
        granted = await ask(cluster, numbers, 10)
        assert 0.9 * RATE * 10 <= granted["acme"] <= 1.1 * RATE * 10
        assert granted["other"] == int(10 * RATE * STEP_S) // len(numbers) * len(numbers) * int(10 / STEP_S)

        alone = await ask(cluster, followers[:1], 2)  # The others have nothing to do: their shares move.
        assert alone["acme"] <= 1.1 * RATE * 2
        granted = await ask(cluster, followers[:1], 10)
        assert 0.9 * RATE * 10 <= granted["acme"] <= 1.1 * RATE * 10

        await ask(cluster, numbers, 3)
        cluster.host(leader).kill()
        granted = await ask(cluster, followers, 10)  # They keep their shares until somebody leads again.
        assert granted["acme"] <= 1.1 * RATE * 10
        await cluster.up(60)
        await ask(cluster, followers, 5)
        granted = await ask(cluster, followers, 10)
        assert 0.9 * RATE * 10 <= granted["acme"] <= 1.1 * RATE * 10

    play(script)
