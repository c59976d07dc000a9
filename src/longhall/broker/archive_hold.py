"""The archive hold: how far a topic with `longhall.archive=required` may be truncated.

Such a topic keeps every message until it is archived, regardless of retention, settles and compaction. The archiver
commits its progress as offsets of the group `longhall.archive`, once its manifest is durable. The metadata of these
offsets begins with the topic id: offsets of other tools, or of an earlier topic of this name, are ignored. Without a
valid offset nothing is released. This module never reads an archive.
"""

from __future__ import annotations

from typing import Final

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.names import ARCHIVE_GROUP

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
