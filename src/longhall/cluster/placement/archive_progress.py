"""The progress of archives, for the replication groups that store topics with `longhall.archive=required`.

The archiver commits its offsets in the main hall. The leader of the main hall tells each group what is committed there:
when it changes, and every TOLD_S, because a group may have lost its leader in between. Told twice, it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from longhall.broker.archive_hold import ArchivedRow, archive_progress
from longhall.broker.catalogue import Topic
from longhall.broker.hall import Hall
from longhall.broker.pending import Pending
from longhall.broker.waiting import committed
from longhall.cluster.placement.topic_operations import NoteArchived
from longhall.names import ARCHIVE_GROUP

TOLD_S: Final = 60.0


@final
class ArchiveTeller:
    """The progress that groups have received from this leader of the main hall. Not durable: the next leader sends all
    of it again.
    """

    def __init__(self, hall: Hall, call: Callable[[int, NoteArchived], Pending[Any]]) -> None:
        self._hall = hall
        self._call = call
        self._told: dict[tuple[int, bytes], tuple[float, list[ArchivedRow]]] = {}  # By group and topic id.

    async def tell(self, number: int, now_s: float) -> None:
        """Tell one group the progress of its topics, as far as it does not know it."""
        topics = self._topics(number)
        known = {topic.topic_id for topic in topics}
        gone = [key for key in self._told if key[0] == number and key[1] not in known]
        for key in gone:
            del self._told[key]
        fresh: list[tuple[Topic, list[ArchivedRow]]] = []
        for topic in topics:
            rows = archive_progress(self._hall, topic)
            at_s, told = self._told.get((number, topic.topic_id), (-TOLD_S, []))
            if rows != told or now_s - at_s >= TOLD_S:
                fresh.append((topic, rows))
        if not fresh:
            return
        await committed(self._hall, self._hall.shard_of(ARCHIVE_GROUP))
        for topic, rows in fresh:
            await self._call(number, NoteArchived(topic.name, topic.topic_id, rows))
            self._told[number, topic.topic_id] = (now_s, rows)

    def _topics(self, number: int) -> list[Topic]:
        topics = self._hall.catalogue.topics.values()
        return [topic for topic in topics if topic.options.archive_required and number in topic.options.wings]
