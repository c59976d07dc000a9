"""The operator's requests: hosts added, drained and moved, another leader, more or fewer replicas.

Each request is checked against the record and recorded. The controller and the leader carry it out step by step
(`reassignment`, `leader_duty`): the answer says what has begun, and `/cluster` how far it is. A refused request has
changed nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Final, TypeVar, final

import msgspec

from longhall.cluster.membership.coordinator_session import CoordinatorSession
from longhall.cluster.membership.rack_placement import crowded, place
from longhall.cluster.membership.reassignment import leaving_of
from longhall.coordination.ports import (
    FRONT,
    STORAGE,
    Conflict,
    CoordinationError,
    Coordinator,
    MemberDescription,
    OutcomeUnknown,
    ShardState,
)
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

FACTOR_MAX: Final = 7
TRIES_MAX: Final = 8

_T = TypeVar("_T")


@final
class Hosts:
    """Fulfils `console.api.hosts.HostVerbs`, at the leader."""

    def __init__(self, session: CoordinatorSession, coordinator: Coordinator) -> None:
        self._session = session
        self._coordinator = coordinator
        self._transfer: asyncio.Task[bool] | None = None

    async def add(self, node: int) -> str:
        """A live host becomes a replica, whether it was drained before or not. A storage node has its share of wings
        again.
        """
        drained = await self._drained()
        if node in drained and (await self._must_live(node)).role == STORAGE:
            await _tried(self._coordinator.clear_drain(node))
            return f"node {node} keeps its share of the wings again"
        await self._must_store(node)
        if node in drained:
            await _tried(self._coordinator.clear_drain(node))

        def decide(state: ShardState) -> ShardState:
            replicas = state.replicas if node in state.replicas else (*state.replicas, node)
            return msgspec.structs.replace(state, replicas=replicas, leaving=_less(state.leaving, node))

        before = self._session.state
        await self._change(decide)
        if node in before.replicas and node not in leaving_of(before, drained):
            return f"node {node} keeps the hall already"
        return f"node {node} fetches everything, and keeps the hall from then on"

    async def drain(self, node: int) -> str:
        """A host neither leads nor has replicas from now on. Its doors stay open."""
        state = await self._read()
        living = await self._living()
        if node not in state.replicas:
            await self._must_live(node)
        else:
            self._must_suffice(state, living, await self._drained(), {node}, self._session.factor)
        await _tried(self._coordinator.mark_drain(node))
        if node not in state.replicas:
            return f"node {node} keeps nothing, and will be given nothing"
        return f"node {node} is drained"

    async def move(self, source: int, target: int) -> str:
        """The replica of one host moves to another."""
        await self._must_store(target)
        drained = await self._drained()

        def decide(state: ShardState) -> ShardState:
            if source not in state.replicas or source in leaving_of(state, drained):
                raise _refused(f"node {source} keeps nothing that could be moved")
            if target in state.replicas:
                raise _refused(f"node {target} keeps the hall already: drain node {source} instead")
            if target in drained:
                raise _refused(f"node {target} is drained: add it instead")
            return msgspec.structs.replace(
                state, replicas=(*state.replicas, target), leaving=(*_less(state.leaving, source), source)
            )

        await self._change(decide)
        return f"the copy of node {source} moves to node {target}"

    async def spread(self) -> str:
        """One of two replicas in a rack moves to a rack without any."""
        state, drained = await self._read(), await self._drained()
        leaving = leaving_of(state, drained)
        if leaving:
            raise _refused(f"{_named(leaving)} on the way out still: wait for that")
        racks = {node: rack for node, rack in (await self._living()).items() if node not in drained}
        pair = crowded(state.replicas, racks, {state.leader})
        if pair is None:
            return "the copies are spread over as many racks as there are"
        return await self.move(*pair)

    async def lead(self, node: int) -> str:
        """Another host is to lead. The answer comes before it does."""
        await self._must_store(node)
        state = await self._read()
        if node == state.leader:
            return f"node {node} leads already"
        if node not in state.replicas:
            raise _refused(f"node {node} does not keep the hall: add it first")
        if node in leaving_of(state, await self._drained()):
            raise _refused(f"node {node} is on the way out")
        if node not in state.in_sync:
            raise _refused(f"node {node} does not have everything yet: wait until it is in sync")
        if self._transfer is not None and not self._transfer.done():
            raise _refused("the hall is being handed over already")
        self._transfer = asyncio.get_running_loop().create_task(
            self._session.transfer_leadership(node), name="hand over"
        )
        self._transfer.add_done_callback(_take_outcome)
        return f"the hall is handed over to node {node}"

    async def set_factor(self, factor: int) -> str:
        """Change the number of replicas."""
        if not 1 <= factor <= FACTOR_MAX:
            raise LonghallError(Code.INVALID_REPLICATION, f"there can be 1 to {FACTOR_MAX} copies")
        if factor < self._session.in_sync_min:
            said = f"in_sync_min is {self._session.in_sync_min}: with {factor} copies no message would be taken"
            raise LonghallError(Code.INVALID_REPLICATION, said)
        living, drained = await self._living(), await self._drained()
        racks = {node: rack for node, rack in living.items() if node not in drained}
        if factor > len(racks):
            raise LonghallError(Code.INVALID_REPLICATION, f"there are {len(racks)} hosts to keep {factor} copies")

        def decide(state: ShardState) -> ShardState:
            going = leaving_of(state, drained)
            stay = [node for node in state.replicas if node not in going]
            gone = [node for node in stay if node not in _trimmed(stay, racks, factor, state)]
            self._must_suffice(state, living, drained, set(gone), factor)
            return msgspec.structs.replace(state, factor=factor, leaving=(*state.leaving, *gone))

        await self._change(decide)
        return f"{factor} hosts keep the hall from now on"

    # Shared steps

    def _must_suffice(
        self, state: ShardState, living: Mapping[int, str], drained: Set[int], less: Set[int], factor: int
    ) -> None:
        """LonghallError unless enough hosts are left without these: replicas, and hosts that can become one."""
        leaving = leaving_of(state, drained) | less
        stay = [node for node in state.replicas if node not in leaving]
        live = [node for node in stay if node in living]
        free = [node for node in living if node not in state.replicas and node not in drained]
        count = len(live) + min(max(factor - len(stay), 0), len(free))
        in_sync_min = self._session.in_sync_min
        if less and count < in_sync_min:
            said = f"without {_named(less)} {count} {'host' if count == 1 else 'hosts'} would keep the hall"
            raise _refused(f"{said}, and in_sync_min is {in_sync_min}: start another one first")

    async def _must_live(self, node: int) -> MemberDescription:
        member = (await _tried(self._coordinator.members())).get(node)
        if member is None:
            said = f"node {node} is not running: start it with `longhall serve --coordinator` first"
            raise LonghallError(Code.UNKNOWN_MEMBER, said)
        return member

    async def _must_store(self, node: int) -> None:
        """LonghallError unless the node is alive and may have replicas."""
        role = (await self._must_live(node)).role
        if role == FRONT:
            raise _refused(f"node {node} is a front end, which keeps nothing: start it without --role front first")
        if role == STORAGE:
            raise _refused(
                f"node {node} is a storage node, which never keeps the hall: start it without --role storage"
            )

    async def _living(self) -> dict[int, str]:
        """The rack of every live host that may have replicas."""
        members = await _tried(self._coordinator.members())
        return {node: member.rack for node, member in members.items() if member.may_store_hall}

    async def _drained(self) -> frozenset[int]:
        return await _tried(self._coordinator.drains())

    async def _read(self) -> ShardState:
        state = await _tried(self._coordinator.shard(CATALOGUE_SHARD))
        if state is None:
            raise LonghallError(Code.NOT_READY, "the record of the hall is gone")
        return state

    async def _change(self, decide: Callable[[ShardState], ShardState]) -> None:
        for _ in range(TRIES_MAX):
            before = await self._read()
            after = decide(before)
            if after == before:
                return
            try:
                await self._coordinator.change_shard(before, after)
                return
            except (Conflict, OutcomeUnknown):
                continue
            except CoordinationError as error:
                raise LonghallError(Code.NOT_READY, f"the coordinator did not answer: {error}") from None
        raise LonghallError(Code.NOT_READY, "other nodes keep changing the record; try again")


async def _tried(work: Awaitable[_T]) -> _T:
    try:
        return await work
    except CoordinationError as error:
        raise LonghallError(Code.NOT_READY, f"the coordinator did not answer: {error}") from None


def _refused(said: str) -> LonghallError:
    return LonghallError(Code.OPERATION_NOT_ATTEMPTED, said)


def _less(nodes: tuple[int, ...], node: int) -> tuple[int, ...]:
    return tuple(one for one in nodes if one != node)


def _trimmed(stay: list[int], racks: Mapping[int, str], factor: int, state: ShardState) -> list[int]:
    """The replicas that stay if there are to be `factor`: the leader, then those in sync."""
    ready = [node for node in stay if node in state.in_sync]
    order = [*ready, *(node for node in stay if node not in ready)]
    return place(order, {node: rack for node, rack in racks.items() if node in stay}, factor, {state.leader})


def _named(nodes: Set[int]) -> str:
    listed = ", ".join(str(node) for node in sorted(nodes))
    return f"node {listed}" if len(nodes) == 1 else f"nodes {listed}"


def _take_outcome(task: asyncio.Task[bool]) -> None:
    if not task.cancelled():
        task.exception()  # The log has the reason of a failed transfer.
