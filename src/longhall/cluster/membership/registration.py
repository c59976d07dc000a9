"""A node's registration with the coordinator: its addresses, its rack, and whether it should lead.

A registration ends with the coordinator's session, and is lost with the coordinator's data. The node registers again in
both cases.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol, final

import msgspec

from longhall.coordination.ports import Conflict, CoordinationError, Coordinator, MemberDescription

PAUSE_S: Final = 0.2  # After the coordinator could not be reached.
CHECK_S: Final = 2.0  # How often a node checks that it is still registered.

_log = logging.getLogger("longhall.session")


class RegistrationOwner(Protocol):
    """What the registration needs of its node."""

    def condition(self) -> str:
        """Why another node should lead instead of this one; empty if this one can."""

    def restart(self, reason: str) -> None:
        """The node's number is registered by another process: start anew."""


@final
class Registration:
    """The registration of one node, renewed as long as its session lasts."""

    def __init__(self, owner: RegistrationOwner, coordinator: Coordinator, description: MemberDescription) -> None:
        self._owner = owner
        self._coordinator = coordinator
        self._description = description
        self._checked_s = 0.0
        self._loop = asyncio.get_running_loop()

    async def register(self) -> None:
        """Register for the first time. CoordinationError if that fails."""
        self._description = await self._coordinator.register(self._description)

    async def register_again(self) -> None:
        """A new session has begun: register until that succeeds, or until another process has the number."""
        while True:
            try:
                self._description = await self._coordinator.register(self._description)
                return
            except Conflict as error:
                self._owner.restart(str(error))
                return
            except CoordinationError:
                await asyncio.sleep(PAUSE_S)

    async def check(self) -> None:
        """Register again if the coordinator lost the registration with its data, although the session goes on."""
        if self._loop.time() - self._checked_s > CHECK_S:
            self._checked_s = self._loop.time()
            if await self._coordinator.member(self._description.node_id) is None:
                _log.warning("the coordinator has lost the registration of this node; it registers again")
                self._description = await self._coordinator.register(self._description)

    async def publish_condition(self) -> None:
        """Register whether this node should lead, if that has changed."""
        unfit = self._owner.condition()
        if unfit != self._description.unfit:
            _log.warning("whether this node should lead has changed", extra={"unfit": unfit})
            self._description = await self._coordinator.register(
                msgspec.structs.replace(self._description, unfit=unfit)
            )
