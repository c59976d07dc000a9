"""Bit rot at rest: bits flip in data that is not read, on one host after another, and the scrub repairs all of them.

cluster-scrubs    producers write and no client reads; at the end every host has every batch undamaged, except those of
                  which all copies were damaged
"""

from __future__ import annotations

import asyncio
import random
from typing import Final, final

from longhall.cluster.membership.election import REPLICAS_MAX
from longhall.log.layout import base_offset_of, segment_path
from longhall.log.segment_scan import Damage, scan_segment
from simulation.checkers.violation import demand
from simulation.replicas.disk_faults import newest_segments
from simulation.replicas.host_names import name_of
from simulation.scenarios.cluster_run import FAULTS_S, ClusterRun
from simulation.scenarios.final_check import ACTORS_S
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.scenarios.writers import write_idempotently, write_plainly
from simulation.world import Simulation

CALM_S: Final = 6.0
FLIPS_MAX: Final = 3
PASS_S: Final = 60.0
LOOK_S: Final = 0.2
HEALED_S: Final = 60.0
REST_S: Final = 5.0  # After the last message, until everything is in its segment.


async def cluster_scrubs(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, ())
    run.cluster.watch.damage_allowed = True
    places = await run.begin(2)
    run.context.act(write_plainly(run.context, "plain", places, 0.4))
    run.context.act(write_idempotently(run.context, "idempotent", places, 0.4))
    rot = BitRot(run)
    with run.verdict.reports:
        injection = asyncio.ensure_future(rot.spread(FAULTS_S * simulation.share))
        while not injection.done():
            await run.context.watch(1.0)
        await injection
    await run.cluster.up(HEALED_S)
    await run.context.close_actors(ACTORS_S)
    await asyncio.sleep(REST_S)
    for node in run.cluster.numbers:
        rot.hit_the_newest(node)
        await rot.scrub(node)
    rot.check()
    return await run.end_after(asyncio.ensure_future(asyncio.sleep(0)))


@final
class BitRot:
    """Flips bits, and checks at the end that the scrub has repaired them."""

    def __init__(self, run: ClusterRun) -> None:
        self._run = run
        self._cluster = run.cluster
        self._disks = run.faults.disks
        self._chance: random.Random = run.simulation.stream("rot")

    async def spread(self, seconds: float) -> None:
        """Flip bits for so many seconds. Damage that prevents a start is repaired before the next host is damaged."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        while loop.time() < ends_at:
            await asyncio.sleep(self._chance.expovariate(1 / CALM_S))
            await self._cluster.up(HEALED_S)
            node = self._chance.choice(self._cluster.numbers)
            self._run.faults.happened += 1
            if self._chance.random() < 0.5:
                for _ in range(self._chance.randint(1, FLIPS_MAX)):
                    self._flip(node, "partitions", self._chance.choice((".log", ".log", ".index")))
            else:
                self._flip(node, self._chance.choice(("wal", "shards")), "")
                await self.scrub(node)
            if self._chance.random() < 0.2:
                self._cluster.host(node).kill()

    def _flip(self, node: int, room: str, ending: str) -> None:
        host = self._cluster.host(node)
        self._disks.flip(host, lambda path: path.startswith(room) and path.endswith(ending))

    def hit_the_newest(self, node: int) -> None:
        """Flip a bit in a segment that is still being written."""
        host = self._cluster.host(node)
        newest = newest_segments(host)
        self._disks.flip(host, lambda path: path in newest)

    async def scrub(self, node: int) -> None:
        """Run a scrub pass on this node, with the repairs that follow; the node may have to restart for them."""
        running, process = self._cluster.nodes.get(node), self._cluster.host(node).process
        if running is None or process is None or not process.alive:
            return

        async def begin() -> int:
            return running.scrubber.begin_now()

        passes = await process.start(begin())
        report = running.scrubber.report
        deadline = asyncio.get_running_loop().time() + PASS_S
        while process.alive and (report.passes < passes or (report.damaged and not self._lost())):
            late = asyncio.get_running_loop().time() >= deadline
            left = [place.path for place in report.damaged][:3]
            demand(not late, f"the scrub of {name_of(node)} has not finished after {PASS_S} s: {left}")
            await asyncio.sleep(LOOK_S)
        await self._cluster.up(HEALED_S)

    def _lost(self) -> set[int]:
        return self._run.faults.flips.lost(REPLICAS_MAX)

    def check(self) -> None:
        """Read every batch from the disks and check that it is undamaged."""
        lost = self._lost()
        for number, node in self._cluster.nodes.items():
            files = {path.lstrip("/"): inode for path, inode in self._cluster.host(number).platter.inodes()}
            for partition in node.hall.partitions.values():
                for segment in partition.log.segments:
                    path = segment_path(partition.log.partition, segment.base_offset)
                    if segment.written_bytes == 0 or partition.deleted:
                        continue
                    demand(path in files, f"{name_of(number)} lacks {path}")
                    content = _Content(bytes(files[path].content))
                    for one in scan_segment(content, base_offset_of(path), segment.written_bytes):
                        whole = not isinstance(one, Damage) or one.first_offset in lost
                        demand(whole, f"{path} of {name_of(number)} is damaged after the scrub")


@final
class _Content:
    """The bytes of a file, as a segment scan reads them."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read_at(self, position: int, size: int) -> bytes:
        return self._content[position : position + size]


SCRUB_SCENARIOS: Final[dict[str, Scenario]] = {"cluster-scrubs": cluster_scrubs}
