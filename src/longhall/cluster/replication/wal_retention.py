"""How much of the log is kept for others when a checkpoint of this node needs it no more.

    those that come back        what they have missed, up to a fixed size
    those that are catching up  everything that they were not sent yet, up to a larger one and half of what the disk has

Without the second a host that has just fetched everything under load would find that the log does not reach back to
where it has to go on, and would fetch everything again, and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from longhall.broker.hall import Hall
from longhall.cluster.replication.follower_stream import FollowerStream

CATCHING_UP_BYTES_MAX: Final = 16 * 1024**3


def retained_from(hall: Hall, streams: Mapping[int, FollowerStream], kept_bytes: int, released: int) -> int:
    """Where the log has to begin. A checkpoint needs nothing before `released`."""
    needed = released
    for stream in streams.values():
        place = hall.positions.place_for(stream.next) if stream.is_behind else None
        if place is not None:
            needed = min(needed, place[1])
    most = min(CATCHING_UP_BYTES_MAX, max(hall.space_bytes, 0) // 2)
    return max(needed - kept_bytes, released - kept_bytes - most, 0)
