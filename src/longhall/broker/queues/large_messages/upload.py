"""Uploads of large messages: their parts are stored in a hidden log until the message is complete.

    begin      creates a hidden log for the parts
    store      returns when the part is durable; a repeated part replaces the first
    complete   the record of the message, the end of the upload and the large message are one atomic write
    give_up    removes the log

An abandoned upload expires (`queues.chunks`), and the chunk collector removes it. Each message has its own log, so that
its space is freed at once, and a move to another queue copies no chunks.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.events import PartsDropped, PartsMade
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import shard_of_whole, together, write_records, write_upload, write_whole
from longhall.broker.waiting import Commit, committed
from longhall.errors import Code, LonghallError
from longhall.queues.auxiliary_events import UploadEnded
from longhall.queues.chunked_messages import ChunkedMessage
from longhall.queues.chunks import CHUNK_BYTES, ChunkManifest, Uploads, split
from longhall.records.record import Record

PART_BYTES_MAX: Final = CHUNK_BYTES
PARTS_UNDER_WAY_MAX: Final = 4  # Of a body that the broker splits: parts written before a wait for the commit.
REPEATED_SHARE_MAX: Final = (
    2  # The log of the parts may have this many times the size of the message, for repeated parts.
)


async def begin(hall: Hall, queue: RunningQueue) -> str:
    """Open an upload and return its id."""
    bytes_max = queue.settings.whole_bytes_max
    if not bytes_max:
        raise LonghallError(Code.MESSAGE_TOO_LARGE, f"Queue '{queue.entry.name}' takes no messages in parts.")
    if hall.storage_full or not hall.has_room(EVENT_ROOM_BYTES):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")
    shard = queue.shard
    upload_id = f"{shard.number:x}.{hall.world.entropy.bytes(16).hex()}"
    number = hall.catalogue.next_partition
    now_ms = hall.time.now_ms()
    started = uploads_of(hall, queue).decide_start(upload_id, number, bytes_max, now_ms, queue=queue.number)
    if isinstance(started, Code) or hall.chunked_messages[shard.number - 1].is_full:
        raise LonghallError(Code.OVERLOADED, "too many large messages are stored or uploading")
    with together(hall):
        hall.append_catalogue(PartsMade(partition=number, shard=shard.number), Commit())
        write_upload(hall, shard.number, started)
    await committed(hall, shard)
    return upload_id


async def store(hall: Hall, queue: RunningQueue, upload_id: str, number: int, part: bytes | memoryview) -> None:
    """Store one part; it is durable when this returns."""
    store_nowait(hall, queue, upload_id, number, part)
    await committed(hall, queue.shard)


def store_nowait(hall: Hall, queue: RunningQueue, upload_id: str, number: int, part: bytes | memoryview) -> None:
    """Write one part; the caller waits for the shard."""
    if len(part) > PART_BYTES_MAX:
        raise LonghallError(Code.MESSAGE_TOO_LARGE, f"a part may have {PART_BYTES_MAX} bytes")
    uploads = uploads_of(hall, queue)
    partition = _parts_of(hall, queue, upload_id)
    now_ms = hall.time.now_ms()
    refusal = uploads.check_chunk(upload_id, number, len(part), now_ms)
    if refusal is not None:
        raise LonghallError(refusal, _why_not(refusal, queue))
    if partition.log.bytes_kept() + len(part) > REPEATED_SHARE_MAX * (queue.settings.whole_bytes_max + PART_BYTES_MAX):
        raise LonghallError(Code.MESSAGE_TOO_LARGE, "too many parts were repeated: begin a new upload")
    with together(hall):
        offset = write_records(hall, partition, [Record(-1, now_ms, None, bytes(part), ())], now_ms)
        stored = uploads.decide_chunk(upload_id, number, offset, len(part), now_ms)
        assert not isinstance(stored, Code), "check_chunk accepted it"
        write_upload(hall, queue.shard.number, stored)


async def store_body(hall: Hall, queue: RunningQueue, body: bytes) -> tuple[str, int]:
    """Split a body and store its parts. Returns the upload id and the number of parts."""
    upload_id = await begin(hall, queue)
    parts = split(body)
    try:
        for number, part in enumerate(parts):
            store_nowait(hall, queue, upload_id, number, part)
            if number % PARTS_UNDER_WAY_MAX == PARTS_UNDER_WAY_MAX - 1:
                await committed(hall, queue.shard)
    except BaseException:  # Also on cancellation: only this call knows the upload.
        give_up(hall, upload_id)
        raise
    return upload_id, len(parts)


async def abort(hall: Hall, queue: RunningQueue, upload_id: str) -> None:
    """Abort an upload for its sender."""
    _parts_of(hall, queue, upload_id)
    give_up(hall, upload_id)
    await committed(hall, queue.shard)


def give_up(hall: Hall, upload_id: str, expired: bool = False) -> None:
    """End an upload without a message; no effect if it has ended."""
    shard = shard_of_whole(hall, upload_id)
    if shard == 0:
        return
    uploads = hall.uploads[shard - 1]
    place = uploads.place(upload_id)
    if place is None:
        return
    with together(hall):
        write_upload(hall, shard, UploadEnded(upload_id=upload_id, why="expired" if expired else "aborted"))
        hall.append_catalogue(PartsDropped(partition=place[1]), Commit())


@final
class UploadCompletion:
    """Completes an upload: makes its parts a message of the queue."""

    def __init__(self, hall: Hall, queue: RunningQueue, upload_id: str, parts: int) -> None:
        self.upload_id = upload_id
        self.parts = parts
        self._hall = hall
        self._queue = queue

    def manifest(self) -> ChunkManifest:
        """The chunks of the upload. Raises LonghallError if some are missing."""
        uploads = uploads_of(self._hall, self._queue)
        _parts_of(self._hall, self._queue, self.upload_id)
        manifest = uploads.decide_finish(self.upload_id, self.parts, self._hall.time.now_ms())
        if isinstance(manifest, Code):
            missing = uploads.missing(self.upload_id, self.parts)[:10]
            said = f"parts are missing: {missing} ..." if missing else "it has another number of parts, or has expired"
            raise LonghallError(manifest, f"The message is not complete: {said}.")
        return manifest

    def complete(self, manifest: ChunkManifest, lane: int, offset: int) -> None:
        """Make the chunks a large message with this record. In one atomic write with the record."""
        number = self._queue.shard.number
        write_upload(self._hall, number, manifest.ended)
        messages = self._hall.chunked_messages[number - 1]
        write_whole(self._hall, number, messages.decide_make(self.upload_id, manifest, (lane, offset)))

    def made_before(self) -> ChunkedMessage | None:
        """The large message, if the upload was finished before."""
        return self._hall.chunked_messages[self._queue.shard.number - 1].get(self.upload_id)


def uploads_of(hall: Hall, queue: RunningQueue) -> Uploads:
    """The uploads of the shard of this queue."""
    return hall.uploads[queue.shard.number - 1]


def _parts_of(hall: Hall, queue: RunningQueue, upload_id: str) -> Partition:
    place = uploads_of(hall, queue).place(upload_id)
    partition = hall.partitions.get(place[1]) if place is not None and place[0] == queue.number else None
    if partition is None:
        raise LonghallError(Code.INVALID_REQUEST, f"Queue '{queue.entry.name}' has no such upload; it may have ended.")
    return partition


def _why_not(code: Code, queue: RunningQueue) -> str:
    if code is Code.MESSAGE_TOO_LARGE:
        return f"a message of this queue may have {queue.settings.whole_bytes_max} bytes in all"
    return "the upload has expired, or the part number is not allowed"
