"""Log retention for followers: how much of the log stays when a checkpoint of this node does not need it any more.

    followers that come back      the entries they have missed, up to a fixed size
    followers that catch up       all entries that they were not sent yet, up to a larger size and half of the free disk

Without the second rule, a host that has done a full sync under load would find that the log does not reach back to
where it has to go on, and would do one full sync after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from longhall.broker.hall import Hall
from longhall.cluster.replication.follower_stream import FollowerStream

CATCHING_UP_BYTES_MAX: Final = 16 * 1024**3


def retained_from(hall: Hall, streams: Mapping[int, FollowerStream], retained_bytes: int, released: int) -> int:
    """The position at which the log has to begin. A checkpoint needs nothing before `released`."""
    needed = released
    for stream in streams.values():
        place = hall.positions.place_for(stream.next) if stream.is_behind else None
        if place is not None:
            needed = min(needed, place[1])
    most = min(CATCHING_UP_BYTES_MAX, max(hall.space_bytes, 0) // 2)
    return max(needed - retained_bytes, released - retained_bytes - most, 0)
