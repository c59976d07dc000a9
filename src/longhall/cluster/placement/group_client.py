"""The client of another replication group: its leader, the addresses of its nodes, and calls to its leader.

The main hall is a client of its wings, and each wing is a client of the main hall. A client watches the record and the
members of the group at the coordinator, and sends calls to the leader. It changes nothing there except which hosts
store a wing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, TypeVar, final

from longhall.broker.leadership import NOBODY, Host
from longhall.broker.pending import Pending, failed
from longhall.cluster.rpc.addresses import addresses_of
from longhall.cluster.rpc.authentication import Secrets
from longhall.cluster.rpc.leader_client import LeaderClient, OnLate
from longhall.cluster.rpc.operation import NOBODY_IN_PARTICULAR, Caller, Operation
from longhall.cluster.rpc.peers import GUESTS_FROM, Peers
from longhall.cluster.rpc.stream import IncomingStream
from longhall.coordination.ports import CoordinationError, Coordinator, ShardState, Watch
from longhall.coordination.ports import MemberDescription as Described
from longhall.coordination.watches import report_failure
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.world.ports import World

PAUSE_S: Final = 0.2  # Before the next attempt when the coordinator did not answer.
LOOK_S: Final = 0.05
CALLS_MAX: Final = 1024  # Calls to one group in progress.

_log = logging.getLogger("longhall.groups")

R = TypeVar("R")


@final
class GroupClient:
    """The client of one group. Fulfils `broker.leadership.Leadership` for that group; this process never leads it."""

    def __init__(
        self,
        world: World,
        number: int,
        incarnation: int,
        coordinator: Coordinator,
        label: str,
        secrets: Secrets,
        *,
        begins: bool = True,
    ) -> None:
        """With `begins` the client starts and closes the coordinator, else it belongs to another object."""
        self.node = GUESTS_FROM + number
        self.label = label  # The name of the group in error messages.
        self._world = world
        self._incarnation = incarnation
        self._coordinator = coordinator
        self._begins = begins
        self._secrets = secrets
        self._state = ShardState(shard=CATALOGUE_SHARD)
        self._living: Mapping[int, Described] = {}
        self._peers: Peers | None = None
        self._leader: LeaderClient | None = None
        self._watches: list[Watch] = []
        self._changed = asyncio.Event()
        self._meeting = asyncio.get_running_loop().create_task(self._meet(), name=f"meet {label}")
        self._meeting.add_done_callback(report_failure)

    async def close(self) -> None:
        """Cancel the watches and all calls."""
        self._meeting.cancel()
        for watch in self._watches:
            watch.cancel()
        if self._leader is not None:
            self._leader.close()
        if self._peers is not None:
            await self._peers.close()
        if self._begins:
            await self._coordinator.close()

    async def _meet(self) -> None:
        """Watch the group, and read its hall id as soon as it has a record."""
        while self._begins:
            try:
                await self._coordinator.start()
                break
            except CoordinationError:
                await asyncio.sleep(PAUSE_S)
        self._watches = [
            self._coordinator.watch_members(self._members_changed),
            self._coordinator.watch_shards(self._shards_changed),
        ]
        while self._peers is None:
            try:
                if self._state.epoch > 0:  # Then it has a hall id too, which is written before the record.
                    self._know(await self._coordinator.cluster_id(""))
            except CoordinationError as error:
                _log.debug("the coordinator did not answer", extra={"reason": str(error)})
            await asyncio.sleep(LOOK_S)

    def _know(self, hall_id: str) -> None:
        self._peers = Peers(
            self._world, hall_id, self.node, self._incarnation, secrets=self._secrets, requests_max=CALLS_MAX
        )
        self._leader = LeaderClient(self, self._peers, _not_here, calls_max=CALLS_MAX, label=self.label)
        self._members_changed(self._living)

    # Callbacks of the coordinator

    def _members_changed(self, members: Mapping[int, Described]) -> None:
        self._living = members
        if self._peers is not None:
            self._peers.addresses.update(
                addresses_of({number: one.addresses.get("peer", "") for number, one in members.items()})
            )
        self._changed.set()

    def _shards_changed(self, states: Mapping[int, ShardState]) -> None:
        state = states.get(CATALOGUE_SHARD)
        if state is not None and state.version >= self._state.version:
            self._state = state
            self._changed.set()

    # Leadership of the other group

    def leads(self, shard: int) -> bool:
        return False

    def leader_node(self, shard: int) -> int:
        return self._state.leader

    def epoch(self, shard: int) -> int:
        return self._state.epoch

    def replicas(self, shard: int) -> list[int]:
        return list(self._state.replicas)

    def in_sync(self, shard: int) -> list[int]:
        return list(self._state.in_sync)

    def members(self) -> list[Host]:
        return [
            Host(node=number, kafka=one.addresses.get("kafka", ""), rack=one.rack)
            for number, one in sorted(self._living.items())
        ]

    @property
    def state(self) -> ShardState:
        """The newest record that this process knows."""
        return self._state

    @property
    def is_led(self) -> bool:
        """True if the group has a live leader."""
        return self._leader is not None and self._state.leader != NOBODY and self._state.leader in self._living

    async def be_safe(self, copies_min: int) -> None:
        """Wait until the group has a live leader and this number of replicas in sync."""
        while not self.is_led or len(self._state.in_sync) < copies_min:
            self._changed.clear()
            await self._changed.wait()

    async def be_on(self, wanted: frozenset[int]) -> None:
        """Have exactly these hosts store the group. The others are drained when all of these are alive."""
        marked = await self._coordinator.drains()
        for host in marked & wanted:
            await self._coordinator.clear_drain(host)
        if wanted <= frozenset(self._living):
            for host in (frozenset(self._state.replicas) | frozenset(self._living)) - wanted - marked:
                await self._coordinator.mark_drain(host)

    # Calls

    def call(
        self,
        operation: Operation[R],
        caller: Caller = NOBODY_IN_PARTICULAR,
        *,
        now: bool = False,
        incarnation: bytes = b"",
        on_late: OnLate | None = None,
    ) -> Pending[R]:
        """Have the leader of the group carry out an operation. The call waits a while for a leader; with `now` it is
        refused with NOT_LEADER, and certainly not done, if none can be asked at once.
        """
        if self._leader is None or (now and not self.is_led):
            code = Code.NOT_LEADER if now else Code.NOT_READY
            return failed(LonghallError(code, f"no leader of {self.label} is known here yet; try again"))
        try:
            return self._leader.call(operation, caller, now=now, incarnation=incarnation, on_late=on_late)
        except LonghallError as error:
            return failed(error)

    async def open_stream(self, verb: str, body: bytes, credit: int) -> IncomingStream:
        """A stream from the leader of the group. NOT_LEADER if none can be asked."""
        if self._peers is None or not self.is_led:
            raise LonghallError(Code.NOT_LEADER, f"no leader of {self.label} is known here yet; try again")
        return await self._peers.open_stream(self._state.leader, verb, body, credit)

    async def ask(self, node: int, verb: str, timeout_s: float) -> bytes:
        """Ask one node of the group, whether it leads or not; see `Peers.request`."""
        if self._peers is None:
            raise LonghallError(Code.NOT_READY, f"{self.label} is not known yet; try again")
        return await self._peers.request(node, verb, b"", timeout_s)


def _not_here(operation: Operation[Any], caller: Caller) -> Pending[Any]:
    return failed(LonghallError(Code.NOT_LEADER, "this process is no part of the group"))
