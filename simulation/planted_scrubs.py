"""Planted bugs of data at rest: rot that is taken for a torn write, or that the scrub misses."""

from __future__ import annotations

from typing import Any, Final

from longhall.broker.scrub import Scrubber
from longhall.broker.trailing_frame import TrailingFrameWriter
from longhall.log import wal
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _cut_rotten_tails() -> _Replacements:
    return [
        (wal, "correct_frame", lambda buffer, at, position: None),
        (TrailingFrameWriter, "look", lambda self: None),
    ]


def _scrub_skips_the_newest() -> _Replacements:
    good: Any = Scrubber._check_segment

    async def check(self: Any, number: int, partition: Any, segment: Any) -> None:
        if segment is not partition.log.segments[-1]:
            await good(self, number, partition, segment)

    return [(Scrubber, "_check_segment", check)]


def _scrub_from_where_it_stopped() -> _Replacements:
    """A requested pass continues in the middle, and what precedes is not read."""

    def begin_now(self: Any) -> int:
        self._pace.hurried = True
        self._wanted.set()
        self.report.progress.reach(max(self._hall.partitions, default=-1), 0)
        self.report.progress.is_under_way = True
        passes: int = self.report.passes
        return passes + 1

    return [(Scrubber, "begin_now", begin_now)]


SCRUB_BUGS: Final[dict[str, Bug]] = {
    "cut-rotten-tails": Bug("Rot in the last frame is taken for a torn write.", "damage", 4, _cut_rotten_tails),
    "scrub-skips-the-newest": Bug(
        "The scrub leaves out the segment that is being written.", "cluster-scrubs", 4, _scrub_skips_the_newest
    ),
    "scrub-from-where-it-stopped": Bug(
        "A requested scrub pass reads only the rest.", "cluster-scrubs", 4, _scrub_from_where_it_stopped
    ),
}
