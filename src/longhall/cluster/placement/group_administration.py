"""Operations of an operator on wings: create one on chosen hosts, shared or reserved, move it, remove it.

The leader of the hall carries them out. Each is checked and stored in the coordinator; the reconciler and the wing then
apply it step by step. The reply says what has begun, and `/cluster` shows the progress. A refused operation has changed
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import Final, TypeVar, final

import msgspec

from longhall.cluster.membership.coordinator_session import CoordinatorSession
from longhall.cluster.membership.hosts import Hosts
from longhall.cluster.placement.group_reconciler import GroupReconciler
from longhall.cluster.placement.placement_rules import home_of, reserved_hosts
from longhall.coordination.ports import Conflict, CoordinationError, Coordinator, OutcomeUnknown, ReplicationGroup
from longhall.errors import Code, LonghallError

HOSTS_MAX: Final = 7

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_T = TypeVar("_T")


@final
class GroupAdministration:
    """The operations on wings at the leader of the main hall."""

    def __init__(
        self, reconciler: GroupReconciler, hosts: Hosts, coordinator: Coordinator, session: CoordinatorSession
    ) -> None:
        self._reconciler = reconciler
        self._hosts = hosts
        self._coordinator = coordinator
        self._session = session

    async def add(self, name: str, hosts: tuple[int, ...], reserved: bool) -> str:
        """Create a wing on these hosts, or move it there. The first host is the preferred leader."""
        if _NAME.fullmatch(name) is None or home_of(ReplicationGroup(name=name, number=0)):
            raise _refused(
                f"a wing is called by up to 40 letters, digits, - and _, unlike those of hosts: not {name!r}"
            )
        least = self._session.in_sync_min
        if len(set(hosts)) != len(hosts) or not least <= len(hosts) <= HOSTS_MAX:
            raise _refused(f"a wing is on {least} (in_sync_min) to {HOSTS_MAX} different hosts")
        wings = await _tried(self._coordinator.wings())
        self._must_be_free(hosts, [wing for wing in wings.values() if wing.name != name])
        if reserved:
            for host in hosts:
                await self._hosts.drain(host)  # Refused if the hall needs this host.
        before = wings.get(name)
        if before is None:
            await _tried(self._reconciler.make(name, hosts, reserved=reserved))
        else:
            # Hosts with replicas stay until the new hosts have caught up; then the reconciler removes them.
            going = tuple(host for host in before.hosts if host not in hosts)
            after = msgspec.structs.replace(before, hosts=(*hosts, *going), wanted=hosts, reserved=reserved)
            await self._change(before, after)
        where = ", ".join(map(str, hosts))
        return f"the wing {name} is {'alone ' if reserved else ''}on {'node' if len(hosts) == 1 else 'nodes'} {where}"

    async def remove(self, name: str) -> str:
        """Remove a wing in which nothing is placed. Hosts that were reserved for it can be added to the hall again."""
        before = (await _tried(self._coordinator.wings())).get(name)
        if before is None or not before.hosts:
            raise LonghallError(Code.UNKNOWN_MEMBER, f"there is no wing {name!r}")
        if home_of(before):
            raise _refused("the wing of a host goes with the host: drain it")
        placed = self._reconciler.placed_in(before.number)
        if placed:
            said = f"{len(placed)} topics and queues are placed there, {placed[0]!r} among them"
            raise _refused(f"{said}: delete them first")
        await self._change(before, msgspec.structs.replace(before, hosts=(), wanted=(), reserved=False))
        return f"the wing {name} is removed; hosts that were reserved for it store nothing until `longhall cluster add`"

    def _must_be_free(self, hosts: tuple[int, ...], others: list[ReplicationGroup]) -> None:
        living = {host.node for host in self._session.members()}
        away = [host for host in hosts if host not in living]
        if away:
            said = f"node {away[0]} is not running: start it with `longhall serve --coordinator` first"
            raise LonghallError(Code.UNKNOWN_MEMBER, said)
        unable = [host for host in self._session.members() if not host.may_store_wings and host.node in hosts]
        if unable:
            role = "front end, which keeps nothing" if unable[0].is_front else "metadata node, which keeps no wings"
            raise _refused(f"node {unable[0].node} is a {role}: choose another host")
        taken = reserved_hosts(others).intersection(hosts)
        if taken:
            raise _refused(f"node {min(taken)} is reserved for another wing")

    async def _change(self, before: ReplicationGroup, after: ReplicationGroup) -> None:
        try:
            await self._coordinator.change_wing(before, after)
        except (Conflict, OutcomeUnknown):
            raise LonghallError(Code.NOT_READY, "the record of the wing has just been changed; try again") from None
        except CoordinationError as error:
            raise LonghallError(Code.NOT_READY, f"the coordinator is of no help: {error}") from None


async def _tried(work: Awaitable[_T]) -> _T:
    try:
        return await work
    except CoordinationError as error:
        raise LonghallError(Code.NOT_READY, f"the coordinator is of no help: {error}") from None


def _refused(said: str) -> LonghallError:
    return LonghallError(Code.OPERATION_NOT_ATTEMPTED, said)
