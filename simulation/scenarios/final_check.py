"""The end of every run: after healing, all logs are read and the oracles check them; then once more after a power cut.

A healed hall makes progress: within HEALED_S the node is up and everything is readable, whatever failed before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, final

from longhall.client.hall import Hall
from simulation.checkers.log import Entries
from simulation.checkers.sends import Place
from simulation.checkers.topic_state import KeyOracle, OffsetOracle, RetentionOracle
from simulation.checkers.violation import demand
from simulation.scenarios.fault_injector import FaultInjector
from simulation.scenarios.machine import DamageReports
from simulation.scenarios.readers import entries_of, read_all
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.transactions import TransactionalWriter

HEALED_S: Final = 30.0
ACTORS_S: Final = 120.0  # A client may have to wait for a request time-out before it sees that it should end.


@final
class FinalCheck:
    """The oracles and partitions to check at the end of a run; scenarios fill the lists."""

    def __init__(self, context: RunContext, faults: FaultInjector) -> None:
        self.logs: list[Place] = []
        self.keys: list[KeyOracle] = []
        self.retention: list[RetentionOracle] = []
        self.offsets: list[OffsetOracle] = []
        self.transactional: list[TransactionalWriter] = []
        self.damage_allowed = False
        # Offsets without any undamaged copy; other offsets must not be refused.
        self.lost: Callable[[], set[int]] | None = None
        self.healed: Callable[[], Awaitable[None]] | None = None  # Waits until background work has ended.
        self.reports = DamageReports()
        self._context = context
        self._faults = faults

    async def speak(self) -> None:
        context = self._context
        self._faults.heal()
        await context.deployment.up(HEALED_S)
        await context.close_actors(ACTORS_S)
        if self.healed is not None:
            await self.healed()
        await context.on_clients(self._judge("first"))
        context.deployment.cut_power()
        await context.deployment.up(HEALED_S)
        await context.on_clients(self._judge("second"))
        said = self.reports.sentences
        demand(self.damage_allowed or not said, f"the node reports damage, and nothing was damaged: {said[:1]}")
        context.check_failures()
        context.close()

    async def _judge(self, name: str) -> None:
        hall = await self._context.connect(f"judge-{name}", patience_ms=30_000)
        visible: dict[Place, Entries] = {}
        starts: dict[Place, int] = {}
        for place in self.logs:
            starts[place], visible[place] = await self._judge_log(hall, place)
        self._context.log.settle_transactions(visible, starts)
        for keys in self.keys:
            await self._judge_keys(hall, keys)
        for offsets in self.offsets:
            found = await hall.groups.offsets(offsets.group, [offsets.place])
            offset = found[offsets.place].offset if offsets.place in found else -1
            offsets.found(offset, offsets.acknowledged)
        for writer in self.transactional:
            await writer.found(hall)
        self._context.topics.settle({topic.name or "" for topic in await hall.topics.list()})
        hall.close()

    async def _judge_log(self, hall: Hall, place: Place) -> tuple[int, Entries]:
        start, records, damaged = await read_all(hall, place, stable=False, seconds=HEALED_S)
        later_start, stable, hidden = await read_all(hall, place, stable=True, seconds=HEALED_S)
        start = max(start, later_start)  # Retention may delete while the log is read.
        damaged += hidden
        demand(self.damage_allowed or not damaged, f"{place} is refused as damaged at {damaged[:3]}")
        if self.lost is not None:
            kept = sorted(set(damaged) - self.lost())
            demand(not kept, f"{place} is refused as damaged at {kept[:3]}, and an undamaged copy exists")
        trimmed = self._context.log.trimmed(place)
        by_age = [oracle for oracle in self.retention if oracle.place == place]
        for oracle in by_age:
            oracle.settle(self._context.log.of(place), start, self._context.now_ms())
        demand(bool(by_age) or start <= trimmed, f"{place} begins at {start}, and clients deleted only up to {trimmed}")
        self._context.log.settle(place, start, entries_of(records), entries_of(stable), frozenset(damaged))
        return start, entries_of(stable)

    async def _judge_keys(self, hall: Hall, oracle: KeyOracle) -> None:
        _, records, _ = await read_all(hall, oracle.place, stable=True, seconds=HEALED_S)
        latest: dict[bytes, bytes | None] = {}
        for record in records:
            assert record.key is not None
            latest[record.key] = record.value
        oracle.settle(latest)
