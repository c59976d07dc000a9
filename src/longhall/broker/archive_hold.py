"""The archive hold: how far a topic with `longhall.archive=required` may be truncated.

Such a topic keeps every message until it is archived, regardless of retention, settles and compaction. The archiver
commits its progress as offsets of the group `longhall.archive`, once its manifest is durable. The metadata of these
offsets begins with the topic id: offsets of other tools, or of an earlier topic of this name, are ignored. Without a
valid offset nothing is released. This module never reads an archive.

The main hall has the offsets of all groups. A replication group that stores such a topic gets them from the main hall
and commits them as its own, so that all its replicas truncate alike; until it has them it releases nothing.
"""

from __future__ import annotations

from typing import Final

from longhall.broker.catalogue import Topic
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.waiting import committed
from longhall.names import ARCHIVE_GROUP
from longhall.shards.shard import GROUPS
from longhall.topics.effects import CommitRequest, Persist

NO_HOLD: Final = (1 << 63) - 1
_HIDDEN: Final = bytes(16)  # The topic id of hidden logs; their messages also go through the topic.


def archived_end(hall: Hall, partition: Partition) -> int:
    """The offset up to which messages may be removed; NO_HOLD if archiving is not required."""
    if not partition.options.archive_required or partition.topic_id == _HIDDEN:
        return NO_HOLD
    place = (partition.topic, partition.number)
    row = hall.groups_of(ARCHIVE_GROUP).fetch_offsets(ARCHIVE_GROUP, [place], False)[0]
    if row.offset < 0 or row.metadata.partition(" ")[0] != partition.topic_id.hex():
        return 0
    return min(row.offset, partition.high_watermark)


# Partition, offset and metadata; the offset is 0 while nothing is released.
ArchivedRow = tuple[int, int, str]


def archive_progress(hall: Hall, topic: Topic) -> list[ArchivedRow]:
    """How far each partition of a topic is archived, by the offsets of this hall."""
    places = [(topic.name, number) for number in range(len(topic.partitions))]
    topic_id = topic.topic_id.hex()
    rows = hall.groups_of(ARCHIVE_GROUP).fetch_offsets(ARCHIVE_GROUP, places, False)
    return [
        (row.partition, row.offset, row.metadata)
        if row.offset >= 0 and row.metadata.partition(" ")[0] == topic_id
        else (row.partition, 0, topic_id)
        for row in rows
    ]


async def note_archived(hall: Hall, topic: Topic, rows: list[ArchivedRow]) -> None:
    """Commit the progress that the main hall tells of a topic which this group stores."""
    known = set(archive_progress(hall, topic))
    fresh = tuple((topic.name, number, offset, -1, words) for number, offset, words in rows)
    fresh = tuple(row for row in fresh if (row[1], row[2], row[4]) not in known)
    if not fresh:
        return
    shard = hall.shard_of(ARCHIVE_GROUP)
    request = CommitRequest(group_id=ARCHIVE_GROUP, offsets=fresh)
    for effect in hall.groups_of(ARCHIVE_GROUP).commit_offsets(request, None, hall.time.now_ms()):
        if isinstance(effect, Persist):
            hall.append_event(shard, GROUPS, effect.event)
    await committed(hall, shard)
