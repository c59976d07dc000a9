"""The directory of all wings of a hall on one of its nodes: their hosts, their leaders, and calls to their leaders.

Every node has it. At the leader of the hall `group_reconciler` also creates, moves and compares wings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from longhall.broker.configuration import IN_THE_HALL
from longhall.broker.feature_gates import SPREAD_LEVEL, WINGS_LEVEL
from longhall.broker.hall import Hall
from longhall.broker.leadership import NOBODY, Host
from longhall.broker.pending import Pending, failed
from longhall.broker.placement import WING_STEP, GroupLocation, PartitionLocation, group_of
from longhall.broker.transaction_appends import Appended, TransactionBatch
from longhall.broker.transaction_markers import PartitionMarkers
from longhall.broker.transaction_participant import SettleRequest
from longhall.cluster.membership.coordinator_session import CoordinatorSession
from longhall.cluster.placement.group_client import GroupClient
from longhall.cluster.placement.placement_rules import reserved_hosts
from longhall.cluster.placement.topic_presence import TopicPresence
from longhall.cluster.placement.transaction_operations import AppendInTransaction, SettleInTransaction, WriteMarkers
from longhall.cluster.rpc.authentication import Secrets
from longhall.cluster.rpc.leader_client import OnLate
from longhall.cluster.rpc.operation import NOBODY_IN_PARTICULAR, Caller, Operation
from longhall.cluster.rpc.stream import IncomingStream
from longhall.coordination.ports import Coordinator, ReplicationGroup, Watch
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

R = TypeVar("R")


class GroupDirectory:
    """The wings that the coordinator has a record of, and a client for each. Fulfils the reading part of
    `broker.placement.GroupPlacement`.
    """

    def __init__(
        self,
        hall: Hall,
        session: CoordinatorSession,
        coordinator: Coordinator,
        incarnation: int,
        secrets: Secrets,
        *,
        default_placement: str | None = IN_THE_HALL,
    ) -> None:
        self.records: Mapping[str, ReplicationGroup] = {}
        self.on_wings: Callable[[list[ReplicationGroup]], None] = (
            _nobody_starts  # Called with the wings that need a process on this host.
        )
        self.on_known: Callable[[list[ReplicationGroup]], None] = _nobody_remembers  # Called with all known wings.
        self._hall = hall
        self._default_placement = default_placement
        self._session = session
        self._coordinator = coordinator
        self._incarnation = incarnation
        self._secrets = secrets
        self._clients: dict[int, GroupClient] = {}
        self._presence = TopicPresence()
        self._watch: Watch | None = None
        self._changed = asyncio.Event()

    def start(self) -> None:
        """Start to watch the wings at the coordinator."""
        self._watch = self._coordinator.watch_wings(self._wings_changed)

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    def _wings_changed(self, found: Mapping[str, ReplicationGroup]) -> None:
        # A removed wing still has a record. If a record is missing, the coordinator has lost its data: the wing still
        # exists, and its record is restored together with that of the hall.
        records = self.records = {**self.records, **found}
        self.on_known(list(records.values()))
        for wing in records.values():
            if wing.number not in self._clients:
                self._clients[wing.number] = GroupClient(
                    self._hall.world,
                    self._session.node,
                    self._incarnation,
                    self._coordinator.beside(wing.name),
                    f"the wing {wing.name}",
                    self._secrets,
                )
        self._changed.set()
        self.on_wings([wing for wing in records.values() if self._session.node in wing.hosts])

    # Lookups

    @property
    def may_spread(self) -> bool:
        """True if what is created without a placement goes to the wings of hosts."""
        level = SPREAD_LEVEL if self._default_placement is None else WINGS_LEVEL
        return self._default_placement != IN_THE_HALL and self._hall.feature_level >= level

    def host_wings_wanted(self) -> int:
        """The number of hosts that should have a wing by now, as far as this node knows."""
        usable = self._usable()
        return len(usable) if self.may_spread and len(usable) > 1 else 0

    def _usable(self) -> frozenset[int]:
        return frozenset(host.node for host in self._session.members()) - self._gone()

    def _gone(self) -> frozenset[int]:
        """Hosts that must store nothing of other wings: drained or reserved ones, front ends and metadata nodes."""
        unable = (host.node for host in self._session.members() if not host.may_store_wings)
        return self._session.drained | reserved_hosts(self.records.values()) | frozenset(unable)

    @property
    def leads(self) -> bool:
        """True if this node leads the hall."""
        return self._session.leads(CATALOGUE_SHARD)

    def is_placed(self, topic: str) -> bool:
        return bool(self._lanes(topic))

    def groups_of(self, topic: str) -> list[int]:
        """The groups that store the partitions of a topic; empty for a topic of the main hall, or an unknown one."""
        return self._lanes(topic)

    def kept(self, topic: str, partition: int) -> PartitionLocation:
        lanes = self._lanes(topic)
        number = group_of(lanes, partition)
        client = self._clients.get(number)
        if client is None:
            return PartitionLocation(NOBODY, -1, [], [])
        base, state = number * WING_STEP, client.state
        entry = self._hall.catalogue.topics[topic]
        there = self._presence.is_there(number, entry, self._hall.time.now_ms())
        served = client.is_led and there and not entry.options.moves.is_fenced(partition)
        return PartitionLocation(
            base + state.leader if served else NOBODY,
            entry.options.moves.epoch_base(partition) + state.epoch,
            [base + node for node in state.replicas],
            [base + node for node in state.in_sync],
        )

    def brokers(self) -> list[Host]:
        return [
            msgspec.structs.replace(host, node=number * WING_STEP + host.node)
            for number, client in sorted(self._clients.items())
            for host in client.members()
        ]

    def groups(self) -> list[GroupLocation]:
        return [
            GroupLocation(wing.number, wing.name, [wing.number * WING_STEP + node for node in client.state.replicas])
            for wing in sorted(self.records.values(), key=lambda wing: wing.number)
            if wing.hosts and (client := self._clients.get(wing.number)) is not None
        ]

    def placed_in(self, number: int) -> list[str]:
        """The topics that are placed in a wing, by name."""
        topics = self._hall.catalogue.topics
        return sorted(
            name
            for name, topic in topics.items()
            if number in topic.options.wings or any(number == move.target for move in topic.options.moves.moves)
        )

    def client(self, number: int) -> GroupClient | None:
        """The client of a wing; None if the wing is not known here."""
        return self._clients.get(number)

    def nearest(self, numbers: tuple[int, ...]) -> list[int]:
        """These wings in the order in which this node should ask them: led on this host, led on another host, and the
        rest; wings that prefer this host come first in each.
        """
        return sorted(numbers, key=self._distance)

    def _distance(self, number: int) -> tuple[bool, bool, bool, int]:
        client = self._clients.get(number)
        here = self._session.node
        led = client is not None and client.is_led
        led_here = client is not None and led and client.state.leader == here
        home = any(wing.number == number and wing.hosts[:1] == (here,) for wing in self.records.values())
        # Among wings of equal distance each host begins with a different one.
        return (not led_here, not led, not home, (number - here) % (1 << 20))

    def _lanes(self, topic: str) -> list[int]:
        entry = self._hall.catalogue.topics.get(topic)
        return entry.options.wings if entry is not None else []

    # Calls

    def call(
        self,
        number: int,
        operation: Operation[R],
        caller: Caller = NOBODY_IN_PARTICULAR,
        *,
        now: bool = False,
        incarnation: bytes = b"",
        on_late: OnLate | None = None,
    ) -> Pending[R]:
        """Have the leader of a group carry out an operation. The call waits a while for a leader; with `now` it is
        refused with NOT_LEADER, and certainly not done, if there is none.
        """
        client = self._clients.get(number)
        if client is None:
            code = Code.NOT_LEADER if now else Code.NOT_READY
            return failed(LonghallError(code, f"the group {number} is not known here yet; try again"))
        return client.call(operation, caller, now=now, incarnation=incarnation, on_late=on_late)

    def leader(self, number: int) -> int:
        """The node that leads a group; NOBODY if none is known."""
        client = self._clients.get(number)
        return client.state.leader if client is not None and client.is_led else NOBODY

    async def open_stream(self, number: int, verb: str, body: bytes, credit: int) -> IncomingStream:
        """A stream from the leader of a group. NOT_LEADER if none can be asked."""
        client = self._clients.get(number)
        if client is None:
            raise LonghallError(Code.NOT_LEADER, f"the group {number} is not known here yet; try again")
        return await client.open_stream(verb, body, credit)

    async def write_markers(self, group: int, request: PartitionMarkers) -> list[Code | None]:
        return await self.call(group, WriteMarkers(request))

    async def settle_in_group(self, group: int, request: SettleRequest) -> Code | None:
        return await self.call(group, SettleInTransaction(request), now=True)

    async def append_in_transaction(self, group: int, batch: TransactionBatch) -> Appended:
        return await self.call(group, AppendInTransaction(batch), now=True)


def _nobody_remembers(wings: list[ReplicationGroup]) -> None:
    """The callback before assembly sets another: does nothing."""


def _nobody_starts(wings: list[ReplicationGroup]) -> None:
    """The callback before assembly sets another: does nothing."""
