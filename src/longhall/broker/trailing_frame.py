"""The trailing frame: an idle node writes one small frame, which proves that the frame before it was durable.

After a crash a broken frame is damage if a later frame or a snapshot proves that it was durable; otherwise it is a torn
write that was never acknowledged, and is truncated. The last frame of an idle log would have no such proof, and damage
in it would pass for a torn write. So an idle node writes one more frame, a second after the last round. Under load
there is always a next frame, and this costs nothing.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.events import CommittedTo, encoder
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.log.frames import ENTRY_HEADER_BYTES, FRAME_HEADER_BYTES, encode_event
from longhall.names import CATALOGUE_SHARD
from longhall.shards.shard import SHARD

ROOM_BYTES: Final = 1  # The byte before an event, in its entry.


@final
class TrailingFrameWriter:
    """Writes the trailing frame of one log; the housekeeper calls `look` once a second."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._seen = -1  # The end of the log at the last call.
        self._last = (-1, -1)  # Start and end of the last trailing frame.

    def look(self) -> None:
        """Write a trailing frame if the log is idle and its last frame has no proof."""
        wal = self._hall.wal
        seen, self._seen = self._seen, wal.end
        if wal.end != seen or wal.horizon < wal.end or wal.pending_bytes or wal.is_held:
            return
        if wal.end <= max(wal.vouched, self._hall.checkpoint_at) or (wal.vouched, wal.end) == self._last:
            return
        if self._hall.commits.failure is None and wal.room_bytes() >= EVENT_ROOM_BYTES:
            self._write()

    def _write(self) -> None:
        hall = self._hall
        replica = hall.replica
        event = encoder.encode(CommittedTo(index=replica.committed if replica is not None else 0))
        start = hall.wal.end
        self._last = (start, start + FRAME_HEADER_BYTES + ENTRY_HEADER_BYTES + ROOM_BYTES + len(event))
        shard = hall.shards[CATALOGUE_SHARD]
        if replica is None:
            shard.append_event(SHARD, event)
        else:  # A local note without an index in the replicated log.
            hall.wal.append(encode_event(0, CATALOGUE_SHARD, 0, replica.epoch, SHARD, event))
        hall.journal.touch(shard, True)
        hall.commits.kick()
