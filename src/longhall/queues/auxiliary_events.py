"""What staging, redrives and uploads in parts write to the log. Released events keep their meaning for ever.

Events are told apart by their tag, which is stored. Fields are only added, with defaults; unknown ones are ignored, so
that versions can mix. All times are hall time. `queue` is for whoever finds the machine that an event is for.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class SliceOpened(msgspec.Struct, kw_only=True, frozen=True, tag="slice-opened"):
    """What is due in this slice is staged in this lane from now on, from `start_offset` on."""

    queue: int = 0
    slice: int
    lane: int
    start_offset: int = 0


class StagedSettled(msgspec.Struct, kw_only=True, frozen=True, tag="staged-settled"):
    """These left their slice, for good. Written in one entry with whatever took their place.

    `runs` is first offset, count, first offset, count ...
    """

    queue: int = 0
    slice: int
    runs: tuple[int, ...]
    why: Literal["due", "restaged", "cancelled"] = "due"


class SliceDropped(msgspec.Struct, kw_only=True, frozen=True, tag="slice-dropped"):
    """Nothing of this slice is left; its lane waits for another slice, or is deleted."""

    queue: int = 0
    slice: int
    lane_deleted: bool = False


class StagingPurged(msgspec.Struct, kw_only=True, frozen=True, tag="staging-purged"):
    """Everything that was staged is gone."""

    queue: int = 0


StagingEvent = SliceOpened | StagedSettled | SliceDropped | StagingPurged


class MoveStarted(msgspec.Struct, kw_only=True, frozen=True, tag="move-started"):
    """A redrive begins. It takes what is in the source now: `ends` has partition and end offset for each partition."""

    task_id: str
    source: str
    target: str = ""
    rate_max: int = 0
    to_move: int
    ends: tuple[tuple[int, int], ...]
    at_ms: int
    ids: tuple[str, ...] = ()  # Only these messages; none: all.
    filter: str = ""  # Only those that fit.


class MoveProgressed(msgspec.Struct, kw_only=True, frozen=True, tag="move-progressed"):
    """Up to this offset of this partition all are moved, or passed over. One entry with the moves themselves."""

    task_id: str
    partition: int
    next_offset: int
    moved: int


class MoveCancelling(msgspec.Struct, kw_only=True, frozen=True, tag="move-cancelling"):
    """Somebody wants it to stop after the step that it is in."""

    task_id: str


class MoveEnded(msgspec.Struct, kw_only=True, frozen=True, tag="move-ended"):
    """It is over, this way."""

    task_id: str
    state: Literal["COMPLETED", "CANCELLED", "FAILED"]
    failure: str = ""
    at_ms: int


MoveEvent = MoveStarted | MoveProgressed | MoveCancelling | MoveEnded


class UploadStarted(msgspec.Struct, kw_only=True, frozen=True, tag="upload-started"):
    """A message comes in chunks. They stand in this lane, which nobody sees."""

    upload_id: str
    lane: int
    expires_ms: int
    bytes_max: int
    chunks_max: int
    queue: int = 0


class ChunkStored(msgspec.Struct, kw_only=True, frozen=True, tag="chunk-stored"):
    """One chunk is in the lane. A chunk that comes again takes the place of the first."""

    upload_id: str
    number: int
    offset: int
    size_bytes: int
    expires_ms: int


class UploadEnded(msgspec.Struct, kw_only=True, frozen=True, tag="upload-ended"):
    """The chunks are joined (one entry with the message that they became), given up, or too late."""

    upload_id: str
    why: Literal["joined", "aborted", "expired"]


UploadEvent = UploadStarted | ChunkStored | UploadEnded


class WholeMade(msgspec.Struct, kw_only=True, frozen=True, tag="whole-made"):
    """Chunks became a message: a record at `offset` of `lane` stands for it. One entry with that record.

    `runs` is first offset, count, first offset, count ... of the chunks in their order, in the log `parts`.
    """

    whole: str
    parts: int
    runs: tuple[int, ...]
    size_bytes: int
    lane: int
    offset: int


class WholeHeld(msgspec.Struct, kw_only=True, frozen=True, tag="whole-held"):
    """Another record stands for the message as well: it was moved. One entry with that record."""

    whole: str
    lane: int
    offset: int


class WholeFreed(msgspec.Struct, kw_only=True, frozen=True, tag="whole-freed"):
    """No record that is still wanted stands for it: its chunks are gone."""

    whole: str


WholeEvent = WholeMade | WholeHeld | WholeFreed
ParcelEvent = UploadEvent | WholeEvent
