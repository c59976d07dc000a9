"""A hall of which this process is no part, as it sees it: who leads it, where its nodes are, and how to ask its leader.

The main hall is a guest of its wings, and each wing is a guest of the main hall. A guest hears from the coordinator
what the hall's own nodes tell each other there, and has requests carried to whoever leads. It changes nothing there but
which hosts are to keep a wing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, final

from longhall.broker.leadership import NOBODY, Host
from longhall.cluster.routing import Router, addresses_of
from longhall.cluster.rpc.authentication import Secrets
from longhall.cluster.rpc.peers import GUESTS_FROM, Peers
from longhall.coordination.following import report_failure
from longhall.coordination.ports import CoordinationError, Coordinator, ShardState, Watch
from longhall.coordination.ports import MemberDescription as Described
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.world.ports import World

PAUSE_S: Final = 0.2  # After the coordinator could not be asked.
LOOK_S: Final = 0.05
CARRIED_MAX: Final = 1024  # Requests on their way to one hall.

_log = logging.getLogger("longhall.wings")


@final
class GroupClient:
    """See the module. Fulfils `broker.leadership.Leadership`, as one that never leads."""

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
        """With `begins` the coordinator is started and closed by the guest, else it is somebody else's."""
        self.node = GUESTS_FROM + number
        self.label = label  # What the hall is called in messages.
        self._world = world
        self._incarnation = incarnation
        self._coordinator = coordinator
        self._begins = begins
        self._secrets = secrets
        self._state = ShardState(shard=CATALOGUE_SHARD)
        self._living: Mapping[int, Described] = {}
        self._peers: Peers | None = None
        self._router: Router | None = None
        self._watches: list[Watch] = []
        self._changed = asyncio.Event()
        self._meeting = asyncio.get_running_loop().create_task(self._meet(), name=f"meet {label}")
        self._meeting.add_done_callback(report_failure)

    async def close(self) -> None:
        """Hear and ask nothing any more."""
        self._meeting.cancel()
        for watch in self._watches:
            watch.cancel()
        if self._peers is not None:
            await self._peers.close()
        if self._begins:
            await self._coordinator.close()

    async def _meet(self) -> None:
        """Hear who is there, and get to know the hall as soon as somebody is."""
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
                if self._state.epoch > 0:  # Then it has a name, too: that came first.
                    self._know(await self._coordinator.cluster_id(""))
            except CoordinationError as error:
                _log.debug("the coordinator could not be asked", extra={"reason": str(error)})
            await asyncio.sleep(LOOK_S)

    def _know(self, hall_id: str) -> None:
        self._peers = Peers(
            self._world, hall_id, self.node, self._incarnation, secrets=self._secrets, requests_max=CARRIED_MAX
        )
        self._router = Router(self, self._peers, _not_here, carried_max=CARRIED_MAX)
        self._members_changed(self._living)

    # What is heard

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

    # Leadership, of the other hall

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
        """The record, as it was last heard of."""
        return self._state

    @property
    def is_led(self) -> bool:
        """Whether somebody could be asked now."""
        return self._router is not None and self._state.leader != NOBODY and self._state.leader in self._living

    async def be_safe(self, copies_min: int) -> None:
        """Wait until it is, and so many have everything."""
        while not self.is_led or len(self._state.in_sync) < copies_min:
            self._changed.clear()
            await self._changed.wait()

    async def be_on(self, wanted: frozenset[int]) -> None:
        """These hosts are to keep it, and no others; those go when these are there."""
        marked = await self._coordinator.drains()
        for host in marked & wanted:
            await self._coordinator.clear_drain(host)
        if wanted <= frozenset(self._living):
            for host in (frozenset(self._state.replicas) | frozenset(self._living)) - wanted - marked:
                await self._coordinator.mark_drain(host)

    # Asking

    def elsewhere(self) -> bool:
        """It always is: see `front.carrying.Carrier`."""
        return True

    async def confirm(self) -> None:
        """Whoever is asked there does it."""

    async def carry(self, door: str, peer: str, request: bytes, waits: bool = False) -> bytes:
        """Have the leader of that hall answer; see `front.carrying.Carrier`. It waits a while for one."""
        return await self._known().carry(door, peer, request, waits)

    async def carry_now(self, door: str, peer: str, request: bytes) -> bytes:
        """The same, but NOT_LEADER at once, with nothing done, where nobody can be asked now."""
        if not self.is_led:
            raise LonghallError(Code.NOT_LEADER, f"nobody leads {self.label} at the moment")
        return await self._known().carry_now(door, peer, request)

    async def ask(self, node: int, verb: str, timeout_s: float) -> bytes:
        """Ask one node of that hall, whoever leads. As `Peers.request`."""
        if self._peers is None:
            raise LonghallError(Code.NOT_READY, f"{self.label} is not known yet; try again")
        return await self._peers.request(node, verb, b"", timeout_s)

    def _known(self) -> Router:
        if self._router is None:
            raise LonghallError(Code.NOT_READY, f"{self.label} is not known yet; try again")
        return self._router


async def _not_here(door: str, peer: str, request: bytes) -> bytes:
    raise LonghallError(Code.NOT_LEADER, "a guest answers for nobody")
