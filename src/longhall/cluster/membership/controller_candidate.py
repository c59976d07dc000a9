"""The node as a candidate for controller: it campaigns while there is none, and does the controller's work while it is.

The leader leaves the office to other nodes while there are any, and resigns when it is elected leader: a cluster that
loses leader and controller at once waits until the session of the dead node ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, final

from longhall.broker.leadership import NOBODY
from longhall.cluster.membership.controller import Controller
from longhall.cluster.membership.election import may_campaign, should_resign
from longhall.cluster.membership.metadata import ClusterMetadata
from longhall.coordination.ports import Coordinator, Manager

LEADER_PATIENCE_MS: Final = 3_000  # How long a leader leaves the controller's office to others.

_log = logging.getLogger("longhall.session")


@final
class ControllerCandidate:
    """The candidacy of one node. `on_idle` is called after a look of the controller that found nothing to do."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        coordinator: Coordinator,
        controller: Controller,
        on_idle: Callable[[], Awaitable[None]],
    ) -> None:
        self.is_controller_known = False  # The coordinator has said who is controller, or that there is none.
        self.is_record_lost = False  # The coordinator's record was seen to be gone, or older than the one known here.
        self._metadata = metadata
        self._coordinator = coordinator
        self._controller = controller
        self._on_idle = on_idle
        self._elected: Manager | None = None  # The controller, this node or another one.
        self._term: Manager | None = None  # This node's term as controller.
        self._loop = asyncio.get_running_loop()
        self._vacant_since_s = self._loop.time()

    @property
    def controller_node(self) -> int:
        """The node that is controller, as far as is known; NOBODY for none."""
        return self._elected.node_id if self._elected is not None else NOBODY

    def start_waiting(self) -> None:
        """The office counts as vacant from now on."""
        self._vacant_since_s = self._loop.time()

    def controller_changed(self, elected: Manager | None) -> None:
        """The coordinator names the controller; None for none."""
        self._elected = elected
        self.is_controller_known = True
        if elected is None or elected.node_id != self._metadata.node:
            self._term = None
            self.start_waiting()
        self._metadata.changed.set()

    def session_expired(self) -> None:
        """The coordinator's session is over, and this node's term with it."""
        self._term = None

    async def run(self, alive: frozenset[int]) -> None:
        """Campaign if there is no controller, resign if another node should be controller, or do its work once."""
        if self.is_record_lost and self._term is None:
            self.is_record_lost = await self._controller.recover_lost()
        node, leader = self._metadata.node, self._metadata.state.leader
        if self._term is None:
            vacant_ms = int((self._loop.time() - self._vacant_since_s) * 1000)
            elected = NOBODY if self.controller_node == node else self.controller_node  # A term of an earlier session.
            if not may_campaign(node, leader, alive, elected, vacant_ms, LEADER_PATIENCE_MS):
                return
            term = await self._coordinator.campaign(node)
            if term.node_id != node:
                return
            self._term = self._elected = term
            _log.info("this node is controller", extra={"term": term.epoch})
        if should_resign(node, self._metadata.state.leader, alive):
            term, self._term, self._elected = self._term, None, None
            self.start_waiting()
            await self._coordinator.resign(term)
            return
        if not await self._controller.look(self._term):
            await self._on_idle()
