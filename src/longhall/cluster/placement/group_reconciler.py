"""The reconciler: the leader of a hall creates its wings and corrects their state.

It creates the wings that a placement needs, moves them when hosts join or leave, and makes each wing store exactly the
topics that are placed there. Before it removes a topic from a wing it confirms that this node still leads: a deposed
leader may not know a topic that was just created.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, final

import msgspec

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import IN_THE_HALL, SHARE
from longhall.broker.hall import Hall
from longhall.broker.placement import groups_of
from longhall.broker.queues.upkeep.side_topics import placed_side_topics
from longhall.broker.waiting import committed
from longhall.cluster.membership.coordinator_session import CoordinatorSession
from longhall.cluster.placement.archive_progress import ArchiveTeller
from longhall.cluster.placement.balance_rules import LedGroup
from longhall.cluster.placement.group_directory import GroupDirectory
from longhall.cluster.placement.group_furnisher import GroupFurnisher
from longhall.cluster.placement.group_loads import HALL, GroupLoads
from longhall.cluster.placement.group_measures import traffic_of
from longhall.cluster.placement.placement_rules import (
    NAMED,
    by_load,
    home_of,
    hosts_for,
    leaders_for,
    next_hosts,
    wing_of_host,
)
from longhall.cluster.placement.topic_operations import (
    GroupTraffic,
    ListTopics,
    MeasureTraffic,
    RemovePlacedQueue,
    RemoveTopic,
    TopicSpec,
    fingerprint,
)
from longhall.cluster.placement.topic_specs import spec_of
from longhall.cluster.rpc.authentication import Secrets
from longhall.coordination.ports import Conflict, CoordinationError, Coordinator, Ids, ReplicationGroup
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

WINGS_MAX: Final = 127  # In the life of a cluster: the partition numbers of all wings fit into 31 bits.
UP_S_MAX: Final = 30.0  # For new wings to start.
TEND_S: Final = 2.0
FIRST_S: Final = 0.25  # Instead, while hosts lack a wing.
CALM_S: Final = 5.0  # After so long without another host, wings are created on those that there are.
MEASURE_S: Final = 10.0  # The interval at which the leader asks for the traffic of all groups,
MEASURE_S_MAX: Final = 1.0  # and the longest wait for it.
LOOK_S: Final = 60.0  # The interval at which the leader compares the topics of wings with the catalogue.

_log = logging.getLogger("longhall.wings")


class HostsSeen(NamedTuple):
    """The usable hosts, and since when these are all."""

    hosts: frozenset[int]
    since_s: float


@final
class GroupReconciler(GroupDirectory):
    """The directory with the operations of the leader. Fulfils `broker.placement.GroupPlacement`.

    Invariant: the catalogue of the main hall is authoritative; every step can be repeated.
    """

    def __init__(
        self,
        hall: Hall,
        session: CoordinatorSession,
        coordinator: Coordinator,
        incarnation: int,
        secrets: Secrets,
        confirm: Callable[[], Awaitable[None]],
        *,
        default_placement: str | None = IN_THE_HALL,
    ) -> None:
        """With `spreads` every host has a wing from the start, and what is created without a placement goes there."""
        super().__init__(hall, session, coordinator, incarnation, secrets, default_placement=default_placement)
        self._confirm = confirm
        self._furnisher = GroupFurnisher(hall, self, confirm)
        self._archives = ArchiveTeller(hall, self.call)
        self._loads = GroupLoads()
        self._hosts_since = HostsSeen(frozenset(), 0.0)
        self._tending: asyncio.Task[None] | None = None
        self.look_s = LOOK_S
        self._looked_s = -LOOK_S
        self._measured_s = -MEASURE_S
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Start to watch the wings, and to reconcile them while this node leads."""
        super().start()
        self._tending = self._hall.background.start("tend wings", self._tend_always)

    async def close(self) -> None:
        if self._tending is not None:
            self._tending.cancel()
        await super().close()

    # Placement

    async def choose(self, placement: str, name: str) -> list[int]:
        if placement.startswith(NAMED):
            wing = self.records.get(placement.removeprefix(NAMED))
            if wing is None or not wing.hosts:
                raise LonghallError(
                    Code.INVALID_CONFIGURATION,
                    f"There is no wing '{placement.removeprefix(NAMED)}': `longhall cluster wing list` shows them.",
                )
            chosen = [wing]
        else:
            try:
                chosen = await self._host_wings()
            except CoordinationError as error:
                raise LonghallError(Code.NOT_READY, f"Wings cannot be chosen at the moment: {error}") from error
            if placement == SHARE:
                order = by_load({wing.number: self._leading_host(wing) for wing in chosen}, *self._led_by_hosts())
                chosen = [wing for wing in chosen if wing.number == order[0]]
        await asyncio.gather(*(self._come_up(wing) for wing in chosen))
        return [wing.number for wing in chosen]

    def spread(self, copies_min: int = 0) -> list[int]:
        usable = self._usable()
        if not self.may_spread or len(usable) < 2:
            return []
        leaders: dict[int, int] = {}
        for wing in self.records.values():
            client = self._clients.get(wing.number)
            if client is None or not client.is_led or not home_of(wing) or client.state.leader not in usable:
                continue
            if len(client.state.in_sync) >= max(copies_min, min(self._session.in_sync_min, len(wing.hosts))):
                leaders[wing.number] = client.state.leader
        return by_load(leaders, *self._led_by_hosts())

    def _leading_host(self, wing: ReplicationGroup) -> int:
        client = self._clients.get(wing.number)
        return client.state.leader if client is not None and client.is_led else wing.hosts[0]

    def _led_by_hosts(self) -> tuple[dict[int, float], dict[int, int]]:
        """By host, the load of the groups that it leads, and the number of topics and queues in them."""
        hosts = {wing.number: self._leading_host(wing) for wing in self.records.values() if wing.hosts}
        hosts[HALL] = self._session.node
        used = self._used()
        loads: dict[int, float] = {}
        placed: dict[int, int] = {}
        for number, host in hosts.items():
            loads[host] = loads.get(host, 0.0) + self._loads.load(number)
            placed[host] = placed.get(host, 0) + used.get(number, 0)
        return loads, placed

    async def _host_wings(self) -> list[ReplicationGroup]:
        """The wings of all usable hosts, created if needed."""
        usable = self._usable()
        if not usable:
            raise LonghallError(Code.NOT_READY, "No host can keep a wing at the moment.")
        wanted = [wing_of_host(host) for host in sorted(usable)]
        for host in sorted(usable):
            if wing_of_host(host) not in self.records:
                await self.make(wing_of_host(host), hosts_for(host, usable, self._session.factor))
        records = await self._coordinator.wings()
        return [records[name] for name in wanted if name in records]

    async def make(self, name: str, hosts: tuple[int, ...], *, reserved: bool = False) -> None:
        """Create a wing. Does nothing if another node created it first."""
        (number,) = await self._coordinator.take_ids(Ids.WINGS, 1, first_min=1)
        if number > WINGS_MAX:
            raise LonghallError(Code.INVALID_CONFIGURATION, f"A cluster can have had {WINGS_MAX} wings, and no more.")
        try:
            wanted = () if home_of(ReplicationGroup(name=name, number=number)) else hosts
            wing = ReplicationGroup(name=name, number=number, hosts=hosts, wanted=wanted, reserved=reserved)
            await self._coordinator.change_wing(None, wing)
            _log.info("a wing is created", extra={"wing": name, "hosts": hosts})
        except Conflict:
            _log.debug("the wing exists already", extra={"wing": name})

    async def _come_up(self, wing: ReplicationGroup) -> None:
        """Wait until a new wing has a leader and enough replicas in sync. NOT_READY if that takes too long."""
        try:
            async with asyncio.timeout(UP_S_MAX):
                while wing.number not in self._clients:
                    self._changed.clear()
                    await self._changed.wait()
                await self._clients[wing.number].be_safe(min(self._session.in_sync_min, len(wing.hosts)))
        except TimeoutError:
            raise LonghallError(Code.NOT_READY, f"The wing '{wing.name}' does not come up; try again.") from None

    def _used(self) -> dict[int, int]:
        used: dict[int, int] = {}
        for topic in self._hall.catalogue.topics.values():
            for number in set(topic.options.wings or [HALL]):
                used[number] = used.get(number, 0) + 1
        return used

    async def furnish(self, name: str) -> None:
        for one in (*placed_side_topics(self._hall, name), name):
            await self._furnish(one)

    async def _furnish(self, name: str) -> None:
        topic = self._hall.catalogue.topics.get(name)
        if topic is None:
            return
        groups = sorted({*topic.options.wings} - {HALL})
        for number in groups:
            self._presence.begins(number, topic, self._hall.time.now_ms())
        try:
            await asyncio.gather(*(self.tell(number, topic) for number in groups))
        except BaseException:
            self._looked_s = -LOOK_S  # The next comparison corrects it.
            raise

    def copies_min(self, number: int) -> int:
        """The number of replicas in sync that the cluster wants of a group."""
        hosts = next((len(wing.hosts) for wing in self.records.values() if wing.number == number), 0)
        return min(self._session.in_sync_min, hosts or len(self._session.replicas(CATALOGUE_SHARD)))

    async def tell(self, number: int, topic: Topic) -> None:
        """Have one group store the topic as the catalogue has it. A move record is told when it is committed."""
        spec = spec_of(self._hall, topic)
        if topic.options.moves.generation:
            await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
            await self._confirm()
        await self._furnish_one(number, spec)

    async def _furnish_one(self, number: int, spec: TopicSpec) -> None:
        await self._furnisher.apply(number, spec)
        self._presence.has(number, spec.topic_id)

    async def clear_queue(self, name: str, queue_id: bytes, wings: Sequence[int]) -> None:
        await self._remove(RemovePlacedQueue(name, queue_id), wings)

    async def clear(self, name: str, topic_id: bytes, wings: list[int]) -> None:
        await self._remove(RemoveTopic(name, topic_id), wings)

    async def _remove(self, removal: RemoveTopic | RemovePlacedQueue, wings: Sequence[int]) -> None:
        for number in wings:
            try:
                await self.call(number, removal, now=True)
            except LonghallError as error:
                self._looked_s = -LOOK_S  # The next comparison removes it.
                _log.info("a removal from a wing is retried", extra={"wing": number, "reason": str(error)})

    # Balance

    def hosts_usable(self) -> frozenset[int]:
        """The live hosts that may store the groups of others."""
        return self._usable()

    def hosts_sized(self) -> int:
        """The number of live hosts that share what is stored: those with wings, if things are spread."""
        if self.may_spread:
            return len(self._usable())
        members = self._session.members()
        return sum(not host.is_front and host.node not in self._session.drained for host in members)

    def load_bytes_a_second(self) -> float:
        """The load of all groups."""
        return sum(self._loads.load(number) for number in (HALL, *self._clients))

    def led_groups(self) -> list[LedGroup]:
        """All groups that have a leader, with their loads; the main one too."""
        used = self._used()
        here = self._session.node
        found = [LedGroup(IN_THE_HALL, here, self._loads.load(HALL), used.get(HALL, 0), movable=False)]
        for wing in self.records.values():
            client = self._clients.get(wing.number)
            if client is None or not client.is_led:
                continue
            load, placed = self._loads.load(wing.number), used.get(wing.number, 0)
            found.append(LedGroup(wing.name, client.state.leader, load, placed, movable=bool(home_of(wing))))
        return found

    def is_moving(self) -> bool:
        """True if a group is not led by the host that it prefers."""
        return any(wing.hosts and self._leading_host(wing) != wing.hosts[0] for wing in self.records.values())

    async def prefer(self, name: str, host: int) -> None:
        """Have a host lead the group of another host, or its own again; the next reconciliation begins to move it."""
        wing = self.records[name]
        leader = 0 if home_of(wing) == host else host
        if leader != wing.leader:
            await self._coordinator.change_wing(wing, msgspec.structs.replace(wing, leader=leader))

    # Reconciliation

    async def _tend_always(self) -> None:
        while True:
            await asyncio.sleep(FIRST_S if self._awaits_wings() else TEND_S)
            if not self.leads:
                self._looked_s = -LOOK_S  # A new leader compares at once.
                continue
            if self.records or self.may_spread:
                await self._tend()
            await self._measure_sometimes()

    async def _tend(self) -> None:
        """Reconcile all wings. A failure in one wing does not prevent the work on the others."""
        self._presence.forget(self._hall.catalogue.by_id, self._hall.time.now_ms())
        usable = self._usable()
        looks = self._loop.time() - self._looked_s >= self.look_s
        if looks:
            self._looked_s = self._loop.time()
        await self._try(self._make_for_hosts(usable))
        await self._measure_sometimes()
        leaders = leaders_for(self.records.values(), usable, self._gone(), self._used())
        for wing in list(self.records.values()):
            if wing.hosts:
                await self._try(self._settle(wing, usable, leaders.get(wing.name, 0)))
                await self._try(self._archives.tell(wing.number, self._loop.time()))
                if looks and not await self._try(self._compare(wing)):
                    self._looked_s = -LOOK_S

    async def _try(self, work: Awaitable[None]) -> bool:
        try:
            await work
        except (CoordinationError, LonghallError, OSError, TimeoutError) as error:
            _log.info("the reconciliation of a wing failed and will be retried", extra={"reason": str(error)})
            return False
        return True

    async def _make_for_hosts(self, usable: frozenset[int]) -> None:
        """Create the wings of hosts: at the start if things are spread, and of hosts that joined later if any has one.

        The first wings wait for as many hosts as they have replicas, or until no other host has joined for a while, so
        that few of them are created on too few hosts and copied afterwards.
        """
        now_s = self._loop.time()
        if usable != self._hosts_since.hosts:
            self._hosts_since = HostsSeen(usable, now_s)
        calm = now_s - self._hosts_since.since_s >= CALM_S
        first = self.may_spread and len(usable) > 1 and (len(usable) >= self._session.factor or calm)
        if first or any(home_of(wing) for wing in self.records.values()):
            for host in sorted(usable):
                if wing_of_host(host) not in self.records:
                    await self.make(wing_of_host(host), hosts_for(host, usable, self._session.factor))

    def _awaits_wings(self) -> bool:
        """True if this node leads, and hosts lack a wing that they should have."""
        return self.leads and self.host_wings_wanted() > sum(bool(home_of(wing)) for wing in self.records.values())

    async def _measure_sometimes(self) -> None:
        """Note the traffic of all groups, if it is time. One that does not answer keeps its last load."""
        now_s = self._loop.time()
        if now_s - self._measured_s < MEASURE_S:
            return
        self._measured_s = now_s
        self._loads.note(HALL, self._session.epoch(CATALOGUE_SHARD), traffic_of(self._hall), now_s)
        led = [(number, client) for number, client in self._clients.items() if client.is_led]
        answers = await asyncio.gather(*(self._traffic(number) for number, _ in led))
        for (number, client), traffic in zip(led, answers, strict=True):
            if traffic is not None:
                self._loads.note(number, client.state.epoch, traffic, now_s)

    async def _traffic(self, number: int) -> GroupTraffic | None:
        try:
            async with asyncio.timeout(MEASURE_S_MAX):
                return await self.call(number, MeasureTraffic(), now=True)
        except (LonghallError, TimeoutError):
            return None

    async def _settle(self, wing: ReplicationGroup, usable: frozenset[int], leader: int) -> None:
        """Move a wing one step towards its wanted hosts: first their processes, then the replicas. A wing whose home is
        gone has `leader` as its preferred leader.
        """
        client = self._clients.get(wing.number)
        if client is None or not client.is_led:
            return
        staying = self._staying(wing, usable)
        wanted = wing.wanted or hosts_for(home_of(wing), staying, self._session.factor, leader, wing.leader)
        if not wanted:
            return
        hosts = next_hosts(wing, wanted, client.state.replicas)
        if hosts != wing.hosts:
            await self._coordinator.change_wing(wing, msgspec.structs.replace(wing, hosts=hosts))
            _log.info("the hosts of a wing change", extra={"wing": wing.name, "hosts": hosts, "were": wing.hosts})
        await client.be_on(frozenset(wanted))

    def _staying(self, wing: ReplicationGroup, usable: frozenset[int]) -> frozenset[int]:
        """The hosts that may store a wing. A host that is down counts too, unless it is drained or reserved."""
        return usable | (frozenset(wing.hosts) - self._gone())

    async def _compare(self, wing: ReplicationGroup) -> None:
        """Compare the topics of a wing with the catalogue: remove surplus topics, and apply the missing ones."""
        found = await self.call(wing.number, ListTopics())
        queues = await self._furnisher.list_queues(wing.number)
        placed = {
            name: (topic.topic_id, fingerprint(spec_of(self._hall, topic)))
            for name, topic in self._hall.catalogue.topics.items()
            if wing.number in groups_of(topic.options.wings, topic.options.moves)
        }
        gone = [row for row in queues if row[1] not in self._hall.catalogue.queues.by_id]
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])  # A deletion counts once it is committed.
        await self._confirm()
        if not self.leads:
            return
        for name, queue_id in gone:
            _log.info("a deleted queue is removed from a wing", extra={"wing": wing.name, "queue": name})
            await self.call(wing.number, RemovePlacedQueue(name, queue_id))
        for name, topic_id, _ in found:
            if name not in placed or placed[name][0] != topic_id:
                _log.info("a deleted topic is removed from a wing", extra={"wing": wing.name, "topic": name})
                await self.call(wing.number, RemoveTopic(name, topic_id))
        has = {name: (topic_id, print_) for name, topic_id, print_ in found}
        for name, wanted in placed.items():
            if name in has and has[name][0] == wanted[0]:
                self._presence.has(wing.number, wanted[0])
            topic = self._hall.catalogue.topics.get(name)
            if topic is None or has.get(name) == wanted:
                continue
            if wing.number in topic.options.wings:
                await self.furnish(name)
            else:  # It takes a copy, or remembers that it had one.
                await self.tell(wing.number, topic)
