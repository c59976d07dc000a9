"""A node in a simulated world: the assembly of the product, with settings that make much happen in minutes."""

from __future__ import annotations

import asyncio
from typing import Final, final

from longhall.broker.queues.service import QueueService
from longhall.node.assembly import Node
from longhall.node.section_settings import CleanerSettings
from longhall.node.settings import Settings
from simulation.scenarios.machine import (
    AMQP_PORT,
    KAFKA_PORT,
    MANAGEMENT_PORT,
    NODE,
    PROMETHEUS_PORT,
    SQS_PORT,
    STOMP_PORT,
    STOMP_WEBSOCKET_PORT,
    Running,
)
from simulation.world import SimulatedWorld

HTTP_PORT: Final = 8080
CHECKPOINT_BYTES: Final = (64 * 1024, 200 * 1024, 4 * 1024 * 1024)


def settings_for(world: SimulatedWorld) -> Settings:
    """Frequent checkpoints, small reserves, few shards; drawn anew at each start, as an operator may change them."""
    return Settings(
        data="simulated",
        kafka=f"0.0.0.0:{KAFKA_PORT}",
        advertised_kafka=f"{NODE}:{KAFKA_PORT}",
        sqs=f"0.0.0.0:{SQS_PORT}",
        amqp=f"0.0.0.0:{AMQP_PORT}",
        stomp=f"0.0.0.0:{STOMP_PORT}",
        stomp_websocket=f"0.0.0.0:{STOMP_WEBSOCKET_PORT}",
        management=f"0.0.0.0:{MANAGEMENT_PORT}",
        prometheus=f"0.0.0.0:{PROMETHEUS_PORT}",
        http=f"0.0.0.0:{HTTP_PORT}",
        insecure=True,
        authentication="none",  # Users are made here, and no client logs in.
        auto_create_topics=False,
        shards=3,
        wal_file_bytes=16 * 1024 * 1024,
        checkpoint_bytes=CHECKPOINT_BYTES[world.entropy.below(len(CHECKPOINT_BYTES))],
        disk_reserve_bytes=100_000,
        open_files_max=32,
        behind_partitions_min=1_000 * world.entropy.below(2),
        lone_sync_us_max=1_000 * world.entropy.below(2),
        memory_bytes=16 * 1024 * 1024,
        drain_ms=2_000,
        # Small segments and a short grace period, so that settled messages are removed from segments during the faults.
        cleaner=CleanerSettings(interval_ms=3_000, settled_grace_ms=500, queue_segment_bytes=8192),
        # In every other start the whole disk is scrubbed all the time.
        scrub_interval_ms=20_000 * world.entropy.below(2),
    )


@final
class RunningNode:
    """A running node, and the future that completes when it ends by itself."""

    def __init__(self, node: Node, failure: asyncio.Future[OSError]) -> None:
        self._node = node
        self._failure = failure

    @property
    def desk(self) -> QueueService:
        return self._node.queues

    async def failed(self) -> None:
        await self._failure

    async def stop(self) -> None:
        await self._node.stop()


async def start_node(world: SimulatedWorld) -> Running:
    """Recover the node and open its doors."""
    return (await start_with(world, settings_for(world)))[0]


async def start_with(world: SimulatedWorld, settings: Settings) -> tuple[Running, Node]:
    """The same with other settings; the node too, for what no door offers."""
    failure: asyncio.Future[OSError] = asyncio.get_running_loop().create_future()

    def fail(error: OSError) -> None:
        if not failure.done():
            failure.set_result(error)

    node = Node(world, settings)
    await node.start(fail)
    return RunningNode(node, failure), node
