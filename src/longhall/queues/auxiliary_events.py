"""The log events of staging, redrives and large messages. The meaning of a released event never changes.

The tag is stored and identifies the event. Fields are only added, with defaults; unknown ones are ignored, so that
versions can mix. All times are hall time. `queue` names the state machine to which a replay applies the event.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class SliceOpened(msgspec.Struct, kw_only=True, frozen=True, tag="slice-opened"):
    """Messages due in this slice are staged in this lane, from `start_offset` on."""

    queue: int = 0
    slice: int
    lane: int
    start_offset: int = 0


class StagedSettled(msgspec.Struct, kw_only=True, frozen=True, tag="staged-settled"):
    """These left their slice. Written in one entry with the copies that replace them.

    `runs` is first offset, count, first offset, count ...
    """

    queue: int = 0
    slice: int
    runs: tuple[int, ...]
    why: Literal["due", "restaged", "cancelled"] = "due"


class SliceDropped(msgspec.Struct, kw_only=True, frozen=True, tag="slice-dropped"):
    """The slice is empty; its lane is reused for another slice, or deleted."""

    queue: int = 0
    slice: int
    lane_deleted: bool = False


class StagingPurged(msgspec.Struct, kw_only=True, frozen=True, tag="staging-purged"):
    """All staged messages are gone."""

    queue: int = 0


StagingEvent = SliceOpened | StagedSettled | SliceDropped | StagingPurged


class MoveStarted(msgspec.Struct, kw_only=True, frozen=True, tag="move-started"):
    """A redrive begins. It moves what is in the source now: `ends` has the end offset of each partition."""

    task_id: str
    source: str
    target: str = ""
    rate_max: int = 0
    to_move: int
    ends: tuple[tuple[int, int], ...]
    at_ms: int
    ids: tuple[str, ...] = ()  # Only these messages; none: all.
    filter: str = ""  # Only messages that match.


class MoveProgressed(msgspec.Struct, kw_only=True, frozen=True, tag="move-progressed"):
    """All messages up to this offset are moved or skipped. Written in one entry with the moves."""

    task_id: str
    partition: int
    next_offset: int
    moved: int


class MoveCancelling(msgspec.Struct, kw_only=True, frozen=True, tag="move-cancelling"):
    """The task stops after its current step."""

    task_id: str


class MoveEnded(msgspec.Struct, kw_only=True, frozen=True, tag="move-ended"):
    """The task has ended in this state."""

    task_id: str
    state: Literal["COMPLETED", "CANCELLED", "FAILED"]
    failure: str = ""
    at_ms: int


MoveEvent = MoveStarted | MoveProgressed | MoveCancelling | MoveEnded


class UploadStarted(msgspec.Struct, kw_only=True, frozen=True, tag="upload-started"):
    """An upload begins. Its chunks are stored in this hidden lane."""

    upload_id: str
    lane: int
    expires_ms: int
    bytes_max: int
    chunks_max: int
    queue: int = 0


class ChunkStored(msgspec.Struct, kw_only=True, frozen=True, tag="chunk-stored"):
    """One chunk is in the lane. A repeated chunk replaces the first."""

    upload_id: str
    number: int
    offset: int
    size_bytes: int
    expires_ms: int


class UploadEnded(msgspec.Struct, kw_only=True, frozen=True, tag="upload-ended"):
    """The upload became a message (in one entry with it), was aborted, or expired."""

    upload_id: str
    why: Literal["joined", "aborted", "expired"]


UploadEvent = UploadStarted | ChunkStored | UploadEnded


class WholeMade(msgspec.Struct, kw_only=True, frozen=True, tag="whole-made"):
    """Chunks became a large message, represented by a record at `offset` of `lane`. In one entry with that record.

    `runs` is first offset, count, first offset, count ... of the chunks in their order, in the log `parts`.
    """

    whole: str
    parts: int
    runs: tuple[int, ...]
    size_bytes: int
    lane: int
    offset: int


class WholeHeld(msgspec.Struct, kw_only=True, frozen=True, tag="whole-held"):
    """A move added another record of the large message. In one entry with that record."""

    whole: str
    lane: int
    offset: int


class WholeFreed(msgspec.Struct, kw_only=True, frozen=True, tag="whole-freed"):
    """No queue needs the large message: its chunks are gone."""

    whole: str


WholeEvent = WholeMade | WholeHeld | WholeFreed
ParcelEvent = UploadEvent | WholeEvent
