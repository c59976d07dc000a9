"""The leader's side of a stream: entries to one follower, under credit, before the leader's own sync ends.

    next        the first entry that was not sent yet
    in flight   sent and not synced there; never more than the credit, which bounds what a follower has pending

Batches in memory are pushed at once. Older entries are read from the log beside the loop, slowly enough not to disturb
followers that are further ahead.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, final

from crc32c import crc32c

from longhall.broker.hall import Hall
from longhall.cluster.replication.catchup import LogReader, Stretch
from longhall.cluster.replication.push_batches import RecentBatches
from longhall.cluster.rpc.link import Link
from longhall.cluster.rpc.wire import (
    BEAT,
    FOLLOW,
    REFUSAL,
    Beat,
    Follow,
    Greeting,
    Refusal,
    decode,
    encode_push,
    said_level,
)
from longhall.errors import Code, LonghallError
from longhall.shards.replica import Replica

CATCH_UP_BYTES_A_SECOND: Final = 128 * 1024 * 1024

_log = logging.getLogger("longhall.replicate")


@final
class FollowerStream:
    """The stream to one follower, under one epoch, over one connection."""

    def __init__(self, hall: Hall, replica: Replica, recent: RecentBatches, link: Link, node: int, epoch: int) -> None:
        self.node = node
        self.link = link
        self.next = 0
        self.answered_ms = 0  # When the follower last answered.
        self.credit_bytes = 0
        self._hall = hall
        self._replica = replica
        self._recent = recent
        self._epoch = epoch
        self._in_flight: deque[tuple[int, int]] = deque()  # Last index and bytes.
        self._in_flight_bytes = 0
        self._reading: asyncio.Task[None] | None = None
        self._room: asyncio.Event = asyncio.Event()
        link.on_drained = self.pump

    def begin(self, next: int, credit_bytes: int, now_ms: int) -> None:
        """The follower has everything before `next`."""
        self.next = next
        self.credit_bytes = credit_bytes
        self.answered_ms = now_ms
        self.pump()

    def answered(self, index: int, now_ms: int) -> None:
        """The follower has synced up to here."""
        self.answered_ms = now_ms
        while self._in_flight and self._in_flight[0][0] <= index:
            self._in_flight_bytes -= self._in_flight.popleft()[1]
        self.pump()

    @property
    def is_behind(self) -> bool:
        """True if the follower needs entries that are no longer in memory."""
        return self.next < self._recent.first

    def beat(self, time_ms: int) -> None:
        """Send a heartbeat with the commit position and the feature level."""
        replica = self._replica
        beat = Beat(
            epoch=self._epoch,
            index=replica.index,
            committed=replica.committed,
            time_ms=time_ms,
            level=said_level(self._hall.feature_level),
        )
        self.link.send(BEAT, beat)

    def pump(self) -> None:
        """Send the batches in memory, as far as the credit goes."""
        self._room.set()
        while self._reading is None and self._may_send():
            batch = self._recent.beginning_at(self.next)
            if batch is not None:
                self._push(batch.first, batch.count, batch.time_ms, batch.pieces, batch.size_bytes, batch.crc)
            elif self.next < self._recent.first:
                self._reading = self._hall.background.start("catch-up", self._read)
            else:
                return

    def close(self, why: str) -> None:
        """Close the connection."""
        if self._reading is not None:
            self._reading.cancel()
        self.link.abort(why)

    def _may_send(self) -> bool:
        return self.link.is_open and not self.link.is_full and self._in_flight_bytes < self.credit_bytes

    def _push(self, first: int, count: int, time_ms: int, pieces: list[bytes], size_bytes: int, crc: int) -> None:
        head = encode_push(self._epoch, self._replica.committed, first, count, time_ms, size_bytes, crc)
        self.link.write(head, *pieces)
        self.next = first + count
        self._in_flight.append((self.next - 1, size_bytes))
        self._in_flight_bytes += size_bytes

    async def _read(self) -> None:
        """Send entries from the log on disk, until the rest is in memory."""
        try:
            reader = LogReader(self._hall, self._replica, self.next - 1)
            while self.link.is_open and self.next < self._recent.first:
                stretch = await reader.next(self._recent.first - 1)
                if stretch is None:
                    break
                await self._send_read(stretch)
        except LonghallError as error:
            _log.warning("a follower cannot catch up", extra={"follower": self.node, "reason": str(error)})
            self.link.send(REFUSAL, Refusal(reason=str(error), refetch=True))
            self.link.close(str(error))
        except OSError as error:
            self.link.abort(f"the log cannot be read: {error}")
        except Exception:
            self.link.abort("an internal error")  # The follower connects again.
            raise
        finally:
            self._reading = None
        self.pump()

    async def _send_read(self, stretch: Stretch) -> None:
        while not self._may_send():
            if not self.link.is_open:
                return
            self._room.clear()
            await self._room.wait()
        entries = stretch.encode()
        self._push(stretch.first, len(stretch.entries), stretch.time_ms, [entries], len(entries), crc32c(entries))
        await asyncio.sleep(len(entries) / CATCH_UP_BYTES_A_SECOND)


def expect_follower(meet: Callable[[Link, int, Follow], None], link: Link, greeting: Greeting) -> None:
    """A node wants to follow; its next frame reports the end of its log."""

    def frame(kind: int, body: bytes) -> None:
        if kind != FOLLOW:
            raise LonghallError(Code.INVALID_REQUEST, "a follower reports the end of its log first")
        meet(link, greeting.node, decode(body, Follow))

    link.on_frame = frame
