"""The log is kept for those who catch up, as far as there is room."""

from __future__ import annotations

from typing import cast

import pytest

from longhall.cluster.replication import wal_retention
from longhall.cluster.replication.follower_stream import FollowerStream
from longhall.cluster.replication.wal_retention import retained_from
from tests.cluster.replication.test_group_replica import Life, lives


class Catching:
    """As much of a stream as is asked for."""

    def __init__(self, next: int, is_behind: bool = True) -> None:
        self.next = next
        self.is_behind = is_behind


def test_whoever_catches_up_finds_where_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(life: Life) -> None:
        hall = life.hall
        places: dict[int, int] = {}
        for number in range(1, 101):
            places[number] = hall.wal.end
            life.push(1, [f"{number:03d}"])
            await hall.commits.durable()
            hall.positions.note(number, hall.wal.end, 1)
        released = hall.wal.end

        def begins(*streams: Catching, kept_bytes: int = 0) -> int:
            return retained_from(hall, dict(enumerate(cast(list[FollowerStream], list(streams)))), kept_bytes, released)

        hall.space_bytes = 10 * released
        assert begins() == released
        assert begins(kept_bytes=100) == released - 100
        assert begins(kept_bytes=released + 1) == 0
        assert begins(Catching(5, is_behind=False)) == released
        assert begins(Catching(0)) == released  # One of which it is not known yet where it goes on.
        assert begins(Catching(30)) <= places[30]
        assert begins(Catching(30), Catching(20), Catching(35)) <= places[20]
        assert begins(Catching(20), kept_bytes=50) == begins(Catching(20)) - 50
        assert begins(Catching(20)) > places[1]
        hall.space_bytes = 2000
        assert begins(Catching(5)) == released - 1000, "half of what is left on the disk"
        hall.space_bytes = -1
        assert begins(Catching(5)) == released
        hall.space_bytes = 10 * released
        monkeypatch.setattr(wal_retention, "CATCHING_UP_BYTES_MAX", 3000)
        assert begins(Catching(5)) == released - 3000

    lives(play)
