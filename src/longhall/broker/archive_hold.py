"""Archived: how far a topic may be truncated that must be archived first.

A topic with `longhall.archive=required` keeps every message until an archive has it, whatever retention, settling and
compaction say. An archiver tells how far it is by committing offsets as the group `longhall.archive`, once its manifest
is durable. Its metadata begins with the id of the topic: an offset that an ordinary tool has set, or that was meant for
an earlier topic of this name, releases nothing. Where nothing counts, nothing goes. This module never sees an archive.
"""

from __future__ import annotations

from typing import Final

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.names import ARCHIVE_GROUP

NO_HOLD: Final = (1 << 63) - 1
_HIDDEN: Final = bytes(16)  # Logs that no topic shows: what stands in them is shown elsewhere, before or after.


def archived_end(hall: Hall, partition: Partition) -> int:
    """The offset up to which messages may go; NO_HOLD where nothing has to be archived."""
    if not partition.options.archive_required or partition.topic_id == _HIDDEN:
        return NO_HOLD
    place = (partition.topic, partition.number)
    row = hall.groups_of(ARCHIVE_GROUP).fetch_offsets(ARCHIVE_GROUP, [place], False)[0]
    if row.offset < 0 or row.metadata.partition(" ")[0] != partition.topic_id.hex():
        return 0
    return min(row.offset, partition.high_watermark)
