"""Uploads: messages larger than the limit, stored as chunks in hidden lanes until they are complete.

An upload is opened, receives its chunks in any order and any number of times, and is finished. Chunks are ordinary
records of a hidden lane. Only the finish makes a message: one entry appends it to the queue and ends the upload. An
upload expires a while after its last chunk; then its chunks are dead, and the lane is freed up to the first offset that
another upload needs (`lane_floor`).

    upload      by                                     then
    (none)      decide_start: UploadStarted            open
    open        decide_chunk: ChunkStored              open
    open        decide_finish: UploadEnded(joined)     gone, and the message is there
    open        decide_abort: UploadEnded(aborted)     gone
    open        expired(): UploadEnded(expired)        gone

Bounded: bytes and chunks of one upload, and open uploads. This machine holds no message bytes and does not know how
doors transport chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from longhall.errors import Code, LonghallError
from longhall.queues.auxiliary_events import ChunkStored, UploadEnded, UploadEvent, UploadStarted

CHUNK_BYTES: Final = 1024 * 1024  # Of bodies that the broker splits itself.
CHUNKS_MAX: Final = 10_000
UPLOADS_MAX: Final = 1000
IDLE_MS: Final = 3_600_000  # An upload expires this long after its last chunk.


def chunk_count(size_bytes: int, chunk_bytes: int = CHUNK_BYTES) -> int:
    """The number of chunks of a body of this size; an empty body has one."""
    return max(1, (size_bytes + chunk_bytes - 1) // chunk_bytes)


def split(body: bytes, chunk_bytes: int = CHUNK_BYTES) -> list[memoryview]:
    """The chunks of a body, in order, without copying."""
    view = memoryview(body)
    return [view[at : at + chunk_bytes] for at in range(0, max(len(body), 1), chunk_bytes)]


def join(chunks: Sequence[bytes | memoryview], size_bytes: int) -> bytes:
    """The body of these chunks. Raises CORRUPT_MESSAGE if its size is not the size that the upload counted."""
    body = b"".join(chunks)
    if len(body) != size_bytes:
        raise LonghallError(Code.CORRUPT_MESSAGE, f"the chunks make {len(body)} bytes and not {size_bytes}")
    return body


@final
class ChunkManifest:
    """The chunks of a finished upload: their offsets in the lane, in order."""

    def __init__(self, lane: int, offsets: list[int], size_bytes: int, ended: UploadEnded) -> None:
        self.lane = lane
        self.offsets = offsets
        self.size_bytes = size_bytes
        self.ended = ended


@final
class _Upload:
    """An open upload. `chunks` maps the chunk number to offset and size."""

    def __init__(self, started: UploadStarted) -> None:
        self.lane = started.lane
        self.queue = started.queue
        self.bytes_max = started.bytes_max
        self.chunks_max = started.chunks_max
        self.expires_ms = started.expires_ms
        self.chunks: dict[int, tuple[int, int]] = {}
        self.size_bytes = 0
        self.first_offset = -1  # The lowest offset that is still needed.


@final
class Uploads:
    """All open uploads of one queue."""

    def __init__(self, uploads_max: int = UPLOADS_MAX) -> None:
        self._uploads_max = uploads_max
        self._uploads: dict[str, _Upload] = {}

    @property
    def count(self) -> int:
        return len(self._uploads)

    def decide_start(
        self, upload_id: str, lane: int, bytes_max: int, now_ms: int, chunks_max: int = CHUNKS_MAX, queue: int = 0
    ) -> UploadStarted | Code:
        """Open an upload; `bytes_max` is the queue's bound for a large message."""
        if upload_id in self._uploads or not upload_id:
            return Code.INVALID_REQUEST
        if len(self._uploads) >= self._uploads_max:
            return Code.OVERLOADED
        return UploadStarted(
            upload_id=upload_id,
            lane=lane,
            expires_ms=now_ms + IDLE_MS,
            bytes_max=bytes_max,
            chunks_max=min(chunks_max, CHUNKS_MAX),
            queue=queue,
        )

    def check_chunk(self, upload_id: str, number: int, size_bytes: int, now_ms: int) -> Code | None:
        """None if the chunk may be appended to the lane. Numbers start at 0; a repeat replaces the first."""
        upload = self._uploads.get(upload_id)
        if upload is None or upload.expires_ms <= now_ms:
            return Code.INVALID_REQUEST
        if not 0 <= number < upload.chunks_max or size_bytes < 0:
            return Code.INVALID_REQUEST
        known = upload.chunks.get(number)
        if upload.size_bytes - (0 if known is None else known[1]) + size_bytes > upload.bytes_max:
            return Code.MESSAGE_TOO_LARGE
        return None

    def decide_chunk(
        self, upload_id: str, number: int, offset: int, size_bytes: int, now_ms: int
    ) -> ChunkStored | Code:
        """The event for a chunk at this offset of the lane; it is written in the same entry as the append."""
        refusal = self.check_chunk(upload_id, number, size_bytes, now_ms)
        if refusal is not None:
            return refusal
        return ChunkStored(
            upload_id=upload_id, number=number, offset=offset, size_bytes=size_bytes, expires_ms=now_ms + IDLE_MS
        )

    def decide_finish(self, upload_id: str, chunk_count: int, now_ms: int) -> ChunkManifest | Code:
        """All chunks in order, if none is missing. Its event is written in one entry with the message."""
        upload = self._uploads.get(upload_id)
        if upload is None or upload.expires_ms <= now_ms:
            return Code.INVALID_REQUEST
        chunks = upload.chunks
        if chunk_count < 1 or len(chunks) != chunk_count:
            return Code.INVALID_REQUEST
        offsets = []
        for number in range(chunk_count):
            chunk = chunks.get(number)
            if chunk is None:
                return Code.INVALID_REQUEST
            offsets.append(chunk[0])
        return ChunkManifest(upload.lane, offsets, upload.size_bytes, UploadEnded(upload_id=upload_id, why="joined"))

    def place(self, upload_id: str) -> tuple[int, int] | None:
        """Target queue and chunk lane of an upload; None if there is no such upload."""
        upload = self._uploads.get(upload_id)
        return None if upload is None else (upload.queue, upload.lane)

    def places(self) -> list[tuple[str, int, int]]:
        """Every open upload with its queue and lane."""
        return [(upload_id, upload.queue, upload.lane) for upload_id, upload in self._uploads.items()]

    def missing(self, upload_id: str, chunk_count: int) -> list[int]:
        """The chunk numbers that are missing, for the error message."""
        upload = self._uploads.get(upload_id)
        known: dict[int, tuple[int, int]] = {} if upload is None else upload.chunks
        return [number for number in range(min(chunk_count, CHUNKS_MAX)) if number not in known]

    def decide_abort(self, upload_id: str) -> UploadEnded | Code:
        """End an upload without a message."""
        if upload_id not in self._uploads:
            return Code.INVALID_REQUEST
        return UploadEnded(upload_id=upload_id, why="aborted")

    def expired(self, now_ms: int) -> list[UploadEnded]:
        """The uploads whose time is over."""
        return [
            UploadEnded(upload_id=upload_id, why="expired")
            for upload_id, upload in self._uploads.items()
            if upload.expires_ms <= now_ms
        ]

    def next_deadline_ms(self) -> int | None:
        """When the next upload expires, if no further chunk arrives."""
        return min((upload.expires_ms for upload in self._uploads.values()), default=None)

    def lane_floor(self, lane: int, end_offset: int) -> int:
        """The lowest offset of the lane that an upload needs; the end of the lane if none does."""
        floor = end_offset
        for upload in self._uploads.values():
            if upload.lane == lane and upload.first_offset >= 0:
                floor = min(floor, upload.first_offset)
        return floor

    def apply(self, event: UploadEvent) -> None:
        """Apply an event: the only way in which the uploads change."""
        if isinstance(event, UploadStarted):
            self._uploads[event.upload_id] = _Upload(event)
        elif isinstance(event, UploadEnded):
            self._uploads.pop(event.upload_id, None)
        else:
            upload = self._uploads.get(event.upload_id)
            if upload is None:
                return
            known = upload.chunks.get(event.number)
            upload.size_bytes += event.size_bytes - (0 if known is None else known[1])
            upload.chunks[event.number] = (event.offset, event.size_bytes)
            upload.expires_ms = event.expires_ms
            if upload.first_offset < 0:
                upload.first_offset = event.offset
            elif known is not None and known[0] == upload.first_offset:
                upload.first_offset = min(offset for offset, _ in upload.chunks.values())

    def snapshot(self) -> list[Any]:
        """Builtins only; `restore` takes it back."""
        return [
            [
                upload_id,
                upload.lane,
                upload.bytes_max,
                upload.chunks_max,
                upload.expires_ms,
                [[number, offset, size] for number, (offset, size) in upload.chunks.items()],
                upload.queue,
            ]
            for upload_id, upload in self._uploads.items()
        ]

    def restore(self, state: list[Any]) -> None:
        self._uploads = {}
        for upload_id, lane, bytes_max, chunks_max, expires_ms, chunks, queue in state:
            self.apply(
                UploadStarted(
                    upload_id=upload_id,
                    lane=lane,
                    expires_ms=expires_ms,
                    bytes_max=bytes_max,
                    chunks_max=chunks_max,
                    queue=queue,
                )
            )
            upload = self._uploads[upload_id]
            for number, offset, size in chunks:
                upload.chunks[int(number)] = (int(offset), int(size))
            upload.size_bytes = sum(size for _, size in upload.chunks.values())
            upload.first_offset = min((offset for offset, _ in upload.chunks.values()), default=-1)
