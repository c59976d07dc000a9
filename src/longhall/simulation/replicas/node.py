"""A member without doors, as one process on a simulated host: its hall, its member, its session, and what it is told.

A hall is thrown away and made anew whenever the member steps down, as on a real node; the process, its listener and its
session go on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, final

from longhall.broker.checkpoint import checkpoint
from longhall.broker.gates import NEWEST
from longhall.broker.hall import Hall
from longhall.broker.keep import Housekeeper
from longhall.broker.options import HallOptions
from longhall.broker.recover import Identity, identify
from longhall.broker.rejoin import rejoin
from longhall.broker.send import send, wait
from longhall.broker.waiting import Acknowledgeable, Guard
from longhall.cluster.member import Member, MemberOptions, Record, Role
from longhall.cluster.peers import Peers
from longhall.cluster.refetch import fetch, finish_switch
from longhall.errors import Code, LonghallError
from longhall.log.frames import Entry
from longhall.records.batch import build_batch
from longhall.records.record import Record as Message
from longhall.shards.shard import ONE
from longhall.simulation.replicas.names import name_of
from longhall.simulation.replicas.registry import Registry, State
from longhall.simulation.replicas.truth import Life, Truth
from longhall.simulation.world import SimulatedWorld

PORT: Final = 7000
IDENTITY: Final = Identity(hall_id="5" * 32, shards=3, secret="7" * 64, member=True)
TOUCH_S: Final = 0.5
LOOK_S: Final = 0.15
CLEAN: Final = "clean"  # The name of a file that a clean stop leaves.

_log = logging.getLogger("longhall.simulation")


@final
class MemberNode:
    """One life of the process."""

    def __init__(
        self, world: SimulatedWorld, node: int, nodes: list[int], registry: Registry, truth: Truth, incarnation: int
    ) -> None:
        self.node = node
        self.world = world
        self.hall: Hall | None = None
        self.member: Member | None = None
        self.life: Life | None = None
        self.lives = 0
        self.fetched = 0
        self.damaged = 0
        self._fetch_from = 0
        self._registry = registry
        self._truth = truth
        self._incarnation = incarnation
        self._housekeeper: Housekeeper | None = None
        self._given_up: asyncio.Event = asyncio.Event()
        self._stopping = False
        self._failed: asyncio.Future[OSError] = asyncio.get_running_loop().create_future()
        self._leading: asyncio.Task[None] | None = None
        self._peers = Peers(world, IDENTITY.hall_id, node, incarnation)
        self._peers.addresses = {other: (name_of(other), PORT) for other in nodes if other != node}
        self._options = HallOptions(
            shards=3,
            wal_file_bytes=16 * 1024 * 1024,
            segment_bytes=(20_000, 150_000, 1 << 30)[world.entropy.below(3)],
            checkpoint_bytes=(32 * 1024, 200 * 1024, 4 * 1024 * 1024)[world.entropy.below(3)],
            open_files_max=16,
            disk_reserve_bytes=0,
            tail_bytes_max=1 << 20,
            lone_sync_us_max=1_000 * world.entropy.below(2),
        )
        self._member_options = MemberOptions(
            lag_ms_max=1_500, recent_bytes=(8_000, 1 << 20)[world.entropy.below(2)], credit_bytes=256 * 1024
        )

    @property
    def serves(self) -> bool:
        """Whether it leads and takes messages."""
        return self.member is not None and self.member.role_of(0) is Role.LEADER

    async def live(self) -> None:
        """Until the disk fails."""
        disk = self.world.disk
        finish_switch(disk)
        identify(disk, self.world.entropy, self._options, IDENTITY)
        clean = disk.exists(CLEAN)
        if clean:
            disk.remove(CLEAN)
            disk.sync_directory("")
        await self._peers.open("0.0.0.0", PORT)
        self._open_or_fetch()
        await self._register(clean)
        tasks = [asyncio.ensure_future(work) for work in (self._keep_session(), self._watch(), self._reopen())]
        waited: list[asyncio.Future[Any]] = [*tasks, self._failed]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
        raise self._failed.result()

    async def stop(self) -> None:
        """A clean end: everything is written down, and a mark says so."""
        self._stopping = True
        if self.member is not None and self._housekeeper is not None and self.hall is not None:
            await self.member.stop()
            await self._housekeeper.stop()
            try:
                await checkpoint(self.hall, last=True)
            except OSError as error:
                _log.info("no checkpoint at the end", extra={"reason": str(error)})
            await self.hall.commits.durable()
        self.world.disk.open(CLEAN, create=True).close()
        self.world.disk.sync_directory("")

    async def produce(self, topic: str, number: int, values: list[str]) -> int:
        """Send one batch and wait until it is safe; returns the offset of the first, -1 if it was refused."""
        hall = self.hall
        if hall is None or not self.serves:
            return -1
        partition = hall.partition(topic, number)
        if partition is None:
            return -1
        batch = build_batch([Message(-1, hall.time.now_ms(), b"k", value.encode()) for value in values])
        sent = send(hall, partition, batch, 0, len(batch))
        if sent.code is not None:
            return -1
        assert self.member is not None
        by_one = partition.options.acknowledge == ONE
        kept = _Kept(self._truth, self.member, 1 if by_one else self._member_options.in_sync_min)
        wait(hall, partition, kept if by_one else Guard(hall, kept), 0)
        return sent.base_offset if await kept.answered else -1

    # The hall

    def _open_hall(self) -> None:
        hall = Hall(self.world, self._options)
        hall.hall_id = IDENTITY.hall_id
        hall.queue_secret = bytes.fromhex(IDENTITY.secret)
        hall.feature_level = NEWEST
        hall.commits.on_failure = self._fail
        rejoined = rejoin(hall)
        assert hall.replica is not None
        self.lives += 1
        life = Life(self._truth, f"{name_of(self.node)}.{self._incarnation}.{self.lives}", hall.replica.applied)
        life.check_start(hall.replica)
        take = rejoined.replay.take

        def observed(entry: Entry) -> None:
            life.applied(entry)
            take(entry)

        setattr(rejoined.replay, "take", observed)  # noqa: B010
        member = Member(hall, rejoined, self.node, self._peers, self, self._member_options)
        member.on_bundle = life.appended
        member.on_committed = life.committed
        member.on_step_down = lambda reason: self._given_up.set()
        member.on_refetch = self._refetch
        hall.wal.prepare_spare()
        self._housekeeper = Housekeeper(hall)
        self._housekeeper.start()
        self.hall, self.member, self.life = hall, member, life

    async def _reopen(self) -> None:
        """A new hall whenever the old one was given up."""
        while True:
            await self._given_up.wait()
            self._given_up.clear()
            if self.member is not None and self._housekeeper is not None and self.hall is not None:
                await self._housekeeper.stop()
                await self.member.stop()
                self.hall.abandon()
            if self._fetch_from:
                leader, self._fetch_from = self._fetch_from, 0
                self.member = None
                try:
                    await fetch(self.world, self._peers, leader)
                    self.fetched += 1
                except (LonghallError, OSError, TimeoutError) as error:
                    _log.info("not fetched", extra={"reason": str(error)})
            self._open_or_fetch()

    def _open_or_fetch(self) -> None:
        """A directory that is damaged is not led from: it waits until somebody leads, and is fetched anew."""
        try:
            self._open_hall()
        except LonghallError as error:
            if error.code is not Code.STORAGE_DAMAGED or not self._truth.damage_allowed:
                raise
            self.damaged += 1
            self.world.process.start(self._fetch_when_led())

    async def _fetch_when_led(self) -> None:
        leader = 0
        while leader in (0, self.node):
            await asyncio.sleep(0.2)
            leader = self._registry.state.leader
        self._refetch(leader, "the directory is damaged")

    def _refetch(self, leader: int, reason: str) -> None:
        self._fetch_from = leader
        self._given_up.set()

    def _fail(self, error: OSError) -> None:
        if not self._failed.done():
            self._failed.set_result(error)

    # The coordinator

    async def record_in_sync(self, epoch: int, version: int, in_sync: frozenset[int]) -> Record | None:
        """For the member."""
        state = await self._registry.record_in_sync(self.node, epoch, version, in_sync)
        return Record(version=state.version, in_sync=state.in_sync) if state is not None else None

    def epoch_claimed(self, epoch: int) -> None:
        """The watch reads the record all the time."""

    async def renounce(self, epoch: int) -> None:
        """For the member."""
        await self._registry.renounce(self.node, epoch)

    async def _register(self, clean: bool) -> None:
        while True:
            try:
                await self._registry.register(self.node, self._incarnation, clean)
                return
            except OSError:
                await asyncio.sleep(0.2)

    async def _keep_session(self) -> None:
        while True:
            await asyncio.sleep(TOUCH_S)
            try:
                if not await self._registry.touch(self.node, self._incarnation):
                    await self._register(True)
            except OSError:
                continue

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                state = await self._registry.read(self.node)
            except OSError:
                continue
            if not self._stopping:
                self._told(state)

    def _told(self, state: State) -> None:
        member = self.member
        if member is None or self._given_up.is_set() or state.epoch == 0:
            return
        if state.leader != self.node:
            member.become_follower(state.epoch, state.leader)
        elif state.epoch == member.epoch and member.leader_of(0) == self.node:
            member.recorded(state.epoch, Record(version=state.version, in_sync=state.in_sync))
        elif state.epoch > member.epoch and (self._leading is None or self._leading.done()):
            self._leading = asyncio.ensure_future(self._lead(member, state))

    async def _lead(self, member: Member, state: State) -> None:
        try:
            await member.become_leader(state.epoch, Record(version=state.version, in_sync=state.in_sync))
        except LonghallError:
            return
        if self.life is not None and member is self.member:
            self.life.leads(member.replica.index)


@final
class _Kept(Acknowledgeable):
    """A message whose sender waits; whoever is told that it is safe finds it on enough disks at that moment."""

    def __init__(self, truth: Truth, member: Member, in_sync_min: int) -> None:
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._truth = truth
        self._member = member
        self._index = member.index
        self._in_sync_min = in_sync_min

    def committed(self, value: int) -> None:
        leading = self._member.leading
        followers = leading.followers.values() if leading is not None else ()
        kept = 1 + sum(follower.synced >= self._index for follower in followers)
        self._truth.demand(kept >= self._in_sync_min, f"entry {self._index} is acknowledged, and {kept} have it")
        self._answer(True)

    def refused(self) -> None:
        self._answer(False)

    def _answer(self, told: bool) -> None:
        if not self.answered.done():
            self.answered.set_result(told)
