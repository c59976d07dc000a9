"""The positions of share groups in the topics of a hall, as administrators see them: where they are does not matter.

The coordinator asks this interface. `HallSharePositions` has the cursors of one hall; in a cluster
`cluster.placement.share_positions` asks the groups that store the topics as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, final

from longhall.broker.hall import Hall
from longhall.broker.share.cursors import groups_with_cursors, own_cursors, remove_cursor
from longhall.broker.share.offsets import SharePosition, delete_positions, move_positions, position_of
from longhall.errors import Code, LonghallError
from longhall.topics.share_settings import ShareSettings

PositionErrors = dict[int, LonghallError]  # By partition.


class SharePositions(Protocol):
    """The positions of all share groups. The methods raise LonghallError if a replication group does not answer."""

    async def groups(self) -> set[str]:
        """The groups that have cursors of their own, as far as their replication groups answer now."""

    async def topics(self, group_id: str) -> set[str]:
        """The names of the topics on which a group has cursors of its own."""

    async def describe(self, group_id: str, topic: str, numbers: list[int]) -> list[SharePosition]:
        """The positions in these partitions, in their order."""

    async def move(self, group_id: str, topic: str, offsets: Mapping[int, int]) -> PositionErrors:
        """Let a group go on from these offsets. Partitions of one replication group are moved together, or refused."""

    async def delete(self, group_id: str, topic: str) -> None:
        """Delete the cursors of a group on a topic. UNKNOWN_TOPIC if it has none."""

    async def delete_all(self, group_id: str) -> None:
        """Delete all cursors of a group's own."""


@final
class HallSharePositions:
    """The positions in the topics that one hall stores. Fulfils `SharePositions`."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    async def groups(self) -> set[str]:
        return groups_with_cursors(self._hall)

    async def topics(self, group_id: str) -> set[str]:
        return {self._hall.topic_name(queue.entry.topic_id) for queue in own_cursors(self._hall, group_id)}

    async def describe(self, group_id: str, topic: str, numbers: Iterable[int]) -> list[SharePosition]:
        return [self._describe(group_id, topic, number) for number in numbers]

    def _describe(self, group_id: str, topic: str, number: int) -> SharePosition:
        partition = self._hall.partition(topic, number)
        if partition is None:
            return SharePosition(code=Code.UNKNOWN_TOPIC, message=f"There is no partition {number} of '{topic}'.")
        return position_of(self._hall, group_id, partition)

    async def move(self, group_id: str, topic: str, offsets: Mapping[int, int]) -> PositionErrors:
        given = self._hall.groups_of(group_id).configurations.given(group_id)
        return await self.move_with(group_id, topic, offsets, ShareSettings(given))

    async def move_with(
        self, group_id: str, topic: str, offsets: Mapping[int, int], settings: ShareSettings
    ) -> PositionErrors:
        """`move` in a replication group that does not have the settings of share groups."""
        try:
            await move_positions(self._hall, group_id, topic, offsets, settings)
        except LonghallError as error:
            return dict.fromkeys(offsets, error)
        return {}

    async def delete(self, group_id: str, topic: str) -> None:
        await delete_positions(self._hall, group_id, topic)

    async def delete_all(self, group_id: str) -> None:
        for queue in own_cursors(self._hall, group_id):
            await remove_cursor(self._hall, queue)
