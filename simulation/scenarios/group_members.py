"""Members of a consumer group that join, read, commit, and leave or die."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from longhall.client.hall import Hall
from longhall.client.member import GroupMember
from longhall.errors import LonghallError
from simulation.checkers.topic_state import MembershipOracle
from simulation.scenarios.run_context import RunContext
from simulation.world import SimulatedWorld

SESSION_MS: Final = 6_000
REBALANCE_MS: Final = 8_000
LOOK_S: Final = 0.5


async def come_and_go(context: RunContext, name: str, oracle: MembershipOracle, topics: list[str]) -> None:
    """Run one member after another, each in a process of its own, so that it can die without leaving."""
    chance = context.stream(name)
    host = context.simulation.host(name)
    while not context.closing:
        world = host.boot()
        life = world.process.start(_belong(context, world, chance, oracle, topics, name))
        for _ in range(chance.randint(10, 120)):
            await asyncio.wait([life], timeout=LOOK_S)
            if life.done() or context.closing:
                break
        host.kill()
        if life.done():
            life.result()
        await asyncio.sleep(chance.uniform(0.1, 5))


async def _belong(
    context: RunContext,
    world: SimulatedWorld,
    chance: random.Random,
    oracle: MembershipOracle,
    topics: list[str],
    name: str,
) -> None:
    hall = await connect_member(context.addresses, world, name)
    member = GroupMember(
        hall,
        oracle.group,
        topics,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        heartbeat_ms=1_000,
        max_wait_ms=300,
    )
    generation = None
    fresh: set[tuple[str, int]] = set()
    done_before: dict[tuple[str, int], int] = {}
    for _ in range(chance.randint(5, 200)):
        done = oracle.done()
        try:
            records = await member.poll()
            if generation != member.membership:
                generation = member.membership
                oracle.assigned(generation.generation_id, generation.member_id, member.assignment)
                fresh = set(member.assignment)
                done_before = done
            for consumed in records:
                place = (consumed.topic, consumed.partition)
                if place in fresh:
                    fresh.discard(place)
                    oracle.began(place, consumed.record.offset, done_before)
            if chance.random() < 0.5:
                positions = {place: committed.offset for place, committed in member.positions.items()}
                await member.commit()
                oracle.committed(positions)
        except LonghallError:
            await asyncio.sleep(chance.uniform(0.05, 0.5))
    await member.leave()
    hall.close()


async def connect_member(addresses: list[str], world: SimulatedWorld, name: str) -> Hall:
    """Connect a member in its own process, however long that takes."""
    tries = 0
    while True:
        address = addresses[tries % len(addresses)]
        tries += 1
        try:
            return await Hall.connect(world.network, address, client_id=name, patience_ms=5_000)
        except LonghallError:
            await asyncio.sleep(0.3)
