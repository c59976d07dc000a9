"""An archiver whose tasks die: a round is done again and then given up in one line, a merge is left for later."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from longhall.pipeline.archive.job import ROUND_TRIES_MAX, Archiver, Options
from longhall.pipeline.archive.manifest import PIECES_MERGED_MIN, Piece, extended, piece_path
from longhall.pipeline.archive.manifest_log import ManifestLog
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.options import Offsets
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.subscription_metadata import Topic

TOPIC = Topic("t", bytes(16), {0: ("127.0.0.1", 1)})
DIED = "Job aborted: Lost task\norg.apache.spark.SparkException: Python worker exited (crashed). Consider this.\n\tat x"


class DeadSpark:
    """A session and its context; whatever is to run on it dies."""

    defaultParallelism = 2

    def __init__(self) -> None:
        self.runs = 0

    @property
    def sparkContext(self) -> DeadSpark:
        return self

    def parallelize(self, tasks: Any, slices: int) -> DeadSpark:
        return self

    def map(self, function: Any) -> DeadSpark:
        return self

    def collect(self) -> Any:
        self.runs += 1
        raise RuntimeError(DIED)


class Survey:
    """Ten messages of one partition."""

    def earliest(self, topics: dict[str, Topic]) -> Offsets:
        return {"t": {0: 0}}

    def row_bytes(self, topics: dict[str, Topic]) -> dict[tuple[str, int], float]:
        return {}


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def dead() -> DeadSpark:
    return DeadSpark()


@pytest.fixture
def archiver(tmp_path: Path, said: list[str], dead: DeadSpark) -> Archiver:
    options = Options(bootstrap="nowhere", topics=("t",), to=str(tmp_path))
    made = Archiver(cast("Any", dead), options, said.append, lambda done, total: None)
    made._claim({"t": TOPIC})
    return made


def test_a_failing_round_ends_in_one_line(archiver: Archiver, said: list[str], dead: DeadSpark) -> None:
    with pytest.raises(PipelineError) as failure:
        archiver._round(cast("Any", None), cast("Any", Survey()), {"t": TOPIC}, {"t": {0: 10}})
    assert str(failure.value) == (
        "tasks failed 3 times in a row, at last with: Python worker exited (crashed); start again, nothing is lost"
    )
    assert dead.runs == ROUND_TRIES_MAX
    assert said == ["a task failed; this round is done again"] * ROUND_TRIES_MAX


def test_a_failing_merge_is_postponed(archiver: Archiver, said: list[str], tmp_path: Path) -> None:
    pieces = [
        Piece(base=base, end=base + 1, path=piece_path("t", 0, "2026-01-01", base, base + 1), rows=1, content_bytes=9)
        for base in range(PIECES_MERGED_MIN)
    ]
    archiver._publish("t", extended(archiver._manifests["t"], {0: pieces}))
    archiver._merge("t")
    assert said == ["a task failed; small files are merged later"]
    kept = ManifestLog(Storage(str(tmp_path)), "t").latest()
    assert kept is not None
    assert kept.pieces(0) == pieces
