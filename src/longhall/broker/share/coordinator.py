"""The coordinator of share groups: members, and the life of the groups with their cursors.

A group exists while it has members, for a while after the last one left, and as long as it has cursors of its own. The
members are in memory (see `topics.share_groups`); cursors and the configuration of groups are durable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from longhall.broker.deadline_timer import DeadlineTimer
from longhall.broker.group_coordinator import GroupCoordinator
from longhall.broker.hall import Hall
from longhall.broker.share.cursors import open_cursor
from longhall.broker.share.positions import HallSharePositions, SharePositions
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.topics.share_groups import EMPTY, JOIN, LEAVE, Assignment, ShareGroup, ShareGroups, ShareHeartbeat
from longhall.topics.share_settings import ShareSettings
from longhall.topics.views import GroupListing

SHARE: Final = "share"  # The type of these groups, and the type of their protocol.


@final
class ShareGroupCoordinator:
    """All share-group operations of one hall, except those on records."""

    def __init__(self, hall: Hall, coordinator: GroupCoordinator) -> None:
        self._hall = hall
        self._coordinator = coordinator
        self._groups = ShareGroups()
        self._timer = DeadlineTimer(hall.time, self._tick)
        self.positions: SharePositions = HallSharePositions(hall)

    def connect(self, positions: SharePositions) -> None:
        """Set the positions in the topics of other replication groups, before the door opens."""
        self.positions = positions

    def settings_of(self, group_id: str) -> ShareSettings:
        """The settings of a group, whether or not it exists."""
        return ShareSettings(self._hall.groups_of(group_id).configurations.given(group_id))

    async def heartbeat(self, request: ShareHeartbeat) -> tuple[int, Assignment | None, int]:
        """ShareGroupHeartbeat: the epoch of the member, its assignment if it is new, and the time to the next
        heartbeat. Raises LonghallError.
        """
        settings = self.settings_of(request.group_id)
        if request.epoch == JOIN and self._groups.find(request.group_id) is None:
            self._check_type(request.group_id)
        now_ms = self._hall.time.now_ms()
        epoch, assigned = self._groups.heartbeat(request, settings, self._assign, now_ms)
        if epoch == LEAVE:
            self._groups.note_empty(request.group_id, now_ms)
        self._arm()
        if assigned is not None:
            await self._open_cursors(request.group_id, assigned, settings)
        return epoch, assigned, settings.heartbeat_interval_ms

    def _check_type(self, group_id: str) -> None:
        if self._coordinator.describe_group(group_id) is not None:
            raise LonghallError(Code.GROUP_UNKNOWN, f"Group {group_id} is not a share group.")

    def _assign(self, topics: tuple[str, ...]) -> Assignment:
        found: list[tuple[bytes, str, int]] = []
        for name in topics:
            shown = self._hall.shown(name)
            if shown:
                found.append((shown[0].topic_id, name, len(shown)))
        return tuple(found)

    async def _open_cursors(self, group_id: str, assigned: Assignment, settings: ShareSettings) -> None:
        """Create the cursors of new subscriptions, so that "latest" means the time of the subscription.

        A partition in another replication group gets its cursor there, with the first fetch.
        """
        for topic_id, name, _ in assigned:
            route = self._hall.routes.get(name)
            if route and not any(partition.elsewhere for partition in route):
                await open_cursor(self._hall, group_id, topic_id, settings)

    def has_members(self, group_id: str) -> bool:
        """True if this is a share group with members."""
        group = self._groups.find(group_id)
        return group is not None and bool(group.members)

    def is_remembered(self, group_id: str) -> bool:
        """True if this is a share group that has members, or had some lately."""
        return self._groups.find(group_id) is not None

    async def find(self, group_id: str) -> ShareGroup | None:
        """The group of this name; one without members if it has cursors alone. None if there is none."""
        group = self._groups.find(group_id)
        if group is None and await self.positions.topics(group_id):
            return ShareGroup(group_id)
        return group

    async def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """All share groups with one of these states and types; an empty filter accepts all."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        if wanted_types and SHARE not in wanted_types:
            return []
        found = {group.group_id: group.state for group in self._groups.all()}
        for group_id in await self.positions.groups():
            found.setdefault(group_id, EMPTY)
        return [
            GroupListing(group_id=group_id, protocol_type=SHARE, state=state, kind=SHARE)
            for group_id, state in sorted(found.items())
            if not wanted_states or state.lower() in wanted_states
        ]

    async def check_empty(self, group_id: str) -> None:
        """Raises GROUP_UNKNOWN if there is no such group, GROUP_NOT_EMPTY if it has members."""
        group = await self.find(group_id)
        if group is None:
            raise LonghallError(Code.GROUP_UNKNOWN, f"Group {group_id} not found.")
        if group.members:
            raise LonghallError(Code.GROUP_NOT_EMPTY, f"Group {group_id} has {len(group.members)} members.")

    async def create_empty(self, group_id: str) -> None:
        """Create a group that does not exist yet, as Kafka does before it sets offsets. GROUP_NOT_EMPTY if it has
        members, GROUP_UNKNOWN if it is a group of another type.
        """
        if await self.find(group_id) is not None:
            await self.check_empty(group_id)
            return
        self._check_type(group_id)
        self._groups.find_or_create(group_id)
        self._groups.note_empty(group_id, self._hall.time.now_ms())
        self._arm()

    async def delete_group(self, group_id: str) -> Code | None:
        """Delete a group without members, with its cursors. A queue that it consumed stays."""
        try:
            await self.check_empty(group_id)
            await self.positions.delete_all(group_id)
        except LonghallError as error:
            return error.code
        self._groups.forget(group_id)
        return None

    def _tick(self) -> None:
        leadership = self._hall.leadership
        if leadership is None or leadership.leads(CATALOGUE_SHARD):
            self._groups.tick(self._hall.time.now_ms())
        self._arm()

    def _arm(self) -> None:
        self._timer.arm([self._groups.next_deadline_ms()])

    def stop(self) -> None:
        """Stop the timer."""
        self._timer.cancel()
