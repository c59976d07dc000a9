"""The plan of an archiver's next round: the ranges behind its manifests, in pieces for tasks. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

from longhall.pipeline.archive.manifest import ArchiveManifest, Piece
from longhall.pipeline.options import Offsets
from longhall.pipeline.plan import Range
from longhall.pipeline.refusals import PipelineError


class Round(NamedTuple):
    """One round: the ranges that were lost before, and those that tasks write."""

    lost: dict[tuple[str, int], Piece]
    ranges: list[Range]


def next_round(
    manifests: Mapping[str, ArchiveManifest],
    earliest: Offsets,
    latest: Offsets,
    row_bytes: Mapping[tuple[str, int], float],
    *,
    content_bytes_max: int,
    ranges_max: int,
    allow_loss: bool,
) -> Round:
    """The first pieces of every partition in turn, so that all advance. Raises PipelineError for lost messages."""
    lost: dict[tuple[str, int], Piece] = {}
    queues: list[list[Range]] = []
    for topic in sorted(latest):
        for partition in sorted(latest[topic]):
            end = latest[topic][partition]
            first = min(earliest[topic][partition], end)  # What is gone behind the end is not asked for now.
            archived = manifests[topic].end(partition)
            start = first if archived is None else archived
            if end < start:
                raise PipelineError(
                    f"{topic}-{partition} ends at offset {end}, and its archive at {start}: the archive is of another "
                    "hall, or the hall has lost messages; archive it to another place"
                )
            if first > start:
                if not allow_loss:
                    raise PipelineError(
                        f"{topic}-{partition}: offsets {start} to {first - 1} were deleted before they were archived; "
                        "go on without them by --allow-loss, and set longhall.archive=required to prevent it"
                    )
                lost[topic, partition] = Piece(base=start, end=first, lost=True)
                start = first
            if end > start:
                size = max(1.0, row_bytes.get((topic, partition), 1.0))
                queues.append(pieces(Range(topic, partition, start, end), max(1, int(content_bytes_max / size))))
    turns = itertools.zip_longest(*queues)
    ranges = [each for turn in turns for each in turn if each is not None]
    return Round(lost, ranges[:ranges_max])


def pieces(whole: Range, rows_max: int) -> list[Range]:
    """Split a range evenly: a rest of one message would be a file of its own."""
    count = math.ceil(whole.size / rows_max)
    cuts = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [whole._replace(start=low, end=high) for low, high in itertools.pairwise(cuts)]
