"""A last word of the write-ahead log: when the log falls idle, one small frame vouches for the one before it.

After a crash a broken frame is damage if a later frame, or a snapshot, says that it was durable; otherwise it is a torn
write that nobody was promised, and is cut. The last frame of a log at rest would have nobody to vouch for it, and rot
in it would be taken for a torn write. So a second after the last round an idle node writes one more frame. Under load
there is always a next frame, and this costs nothing.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.events import CommittedTo, encoder
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.log.frames import ENTRY_HEADER_BYTES, FRAME_HEADER_BYTES, encode_event
from longhall.names import CATALOGUE_SHARD
from longhall.shards.shard import SHARD

ROOM_BYTES: Final = 1  # Before an event, in its entry.


@final
class TrailingFrameWriter:
    """See the module. Asked once a second."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._seen = -1  # Where the log ended a second ago.
        self._last = (-1, -1)  # Where the last word stands, if it stands alone in its frame.

    def look(self) -> None:
        """Vouch for the last frame if nobody has done so and nothing happens."""
        wal = self._hall.wal
        seen, self._seen = self._seen, wal.end
        if wal.end != seen or wal.horizon < wal.end or wal.pending_bytes or wal.is_held:
            return
        if wal.end <= max(wal.vouched, self._hall.checkpoint_at) or (wal.vouched, wal.end) == self._last:
            return
        if self._hall.commits.failure is None and wal.room_bytes() >= EVENT_ROOM_BYTES:
            self._vouch()

    def _vouch(self) -> None:
        hall = self._hall
        replica = hall.replica
        event = encoder.encode(CommittedTo(index=replica.committed if replica is not None else 0))
        start = hall.wal.end
        self._last = (start, start + FRAME_HEADER_BYTES + ENTRY_HEADER_BYTES + ROOM_BYTES + len(event))
        shard = hall.shards[CATALOGUE_SHARD]
        if replica is None:
            shard.append_event(SHARD, event)
        else:  # A note for this node alone: it has no number in the log that all members keep.
            hall.wal.append(encode_event(0, CATALOGUE_SHARD, 0, replica.epoch, SHARD, event))
        hall.journal.touch(shard, True)
        hall.commits.kick()
