"""The fencing of archive writers: one at a time, on any storage; an overtaken writer gets an error."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from longhall.pipeline.archive.manifest import ArchiveManifest, Piece, extended
from longhall.pipeline.archive.manifest_log import VERSIONS_KEPT, ManifestLog
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.refusals import PipelineError


class Memory:
    """An object store without links. Every call waits for its turn, so that the order of calls is the test's."""

    name = "memory"
    has_links = False

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def list(self, directory: str) -> list[str]:
        self.turn()
        return sorted(name for name in self.files if name.startswith(f"{directory}/"))

    def read(self, name: str) -> bytes:
        self.turn()
        if name not in self.files:
            raise PipelineError(f"the archive lacks {name}")
        return self.files[name]

    def put(self, name: str, data: Any) -> None:
        self.turn()
        self.files[name] = bytes(data)

    def delete(self, name: str) -> None:
        self.turn()
        self.files.pop(name, None)

    def turn(self) -> None:
        turns = getattr(threading.current_thread(), "turns", None)
        if turns is not None:
            turns.wait()


class Turns:
    """Lets one of several threads go one step at a time."""

    def __init__(self) -> None:
        self._may = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self.ended = False

    def wait(self) -> None:
        self._stopped.release()
        self._may.acquire()

    def end(self) -> None:
        self.ended = True
        self._stopped.release()

    def step(self) -> None:
        self._may.release()
        self._stopped.acquire()

    def begin(self) -> None:
        self._stopped.acquire()


class Writer(threading.Thread):
    """Claims the archive and publishes a few pieces, each with its own name in it."""

    def __init__(self, memory: Memory, name: str, published: list[tuple[str, int, int]]) -> None:
        super().__init__(daemon=True)
        self.turns = Turns()
        self._memory = memory
        self._word = name
        self._published = published

    def run(self) -> None:
        self.turns.wait()
        try:
            ledger = ManifestLog(self._memory, "t")  # type: ignore[arg-type]
            manifest = ledger.claim(self._word, "aa")
            for _ in range(3):
                end = manifest.end(0) or 0
                manifest = ledger.publish(extended(manifest, {0: [Piece(base=end, end=end + 1, path=self._word)]}))
                self._published.append((self._word, manifest.version, end))
        except PipelineError:
            pass
        finally:
            self.turns.end()


@pytest.mark.parametrize("seed", range(150))
def test_a_published_piece_stays_with_several_writers(seed: int) -> None:
    chance = random.Random(seed)
    stretches = [(chance.randrange(3), chance.randrange(1, 40)) for _ in range(chance.randrange(1, 10))]
    memory = Memory()
    published: list[tuple[str, int, int]] = []
    writers = [Writer(memory, word, published) for word in ("a1", "b2", "c3")]
    for writer in writers:
        writer.start()
        writer.turns.begin()
    choices = [writer for writer, steps in stretches for _ in range(steps)]
    for choice in [*choices, *([0, 1, 2] * 400)]:
        if not writers[choice].turns.ended:
            writers[choice].turns.step()
    assert all(writer.turns.ended for writer in writers)
    latest = ManifestLog(memory, "t").latest()  # type: ignore[arg-type]
    names = [] if latest is None else [piece.path for piece in latest.pieces(0)]
    # Whoever was told that a piece counts finds it in the end where it was put.
    for word, _, end in published:
        assert names[end] == word
    assert len({end for _, _, end in published}) == len(published), "no offset was published twice"


def test_an_overtaken_writer_stops(tmp_path: Path) -> None:
    ledger = ManifestLog(Storage(str(tmp_path)), "t")
    first = ledger.claim("a1", "aa")
    first = ledger.publish(extended(first, {0: [Piece(base=0, end=5)]}))
    second = ledger.claim("b2", "aa")
    assert second.ends() == {0: 5}
    with pytest.raises(PipelineError, match="another archiver has taken over"):
        ledger.publish(extended(first, {0: [Piece(base=5, end=6)]}))
    for end in range(6, 20):
        second = ledger.publish(extended(second, {0: [Piece(base=end - 1, end=end)]}))
    assert ledger.latest() == second
    assert len(list((tmp_path / "topic=t/_manifest").iterdir())) == VERSIONS_KEPT


def test_a_writer_that_was_overtaken_sweeps_nothing(tmp_path: Path) -> None:
    """It paused between its claim and its sweep; the files that it does not know are its successor's."""
    ledger = ManifestLog(Storage(str(tmp_path)), "t")
    first = ledger.claim("a1", "aa")
    second = ledger.claim("b2", "aa")
    file = tmp_path / "topic=t/partition=0/date=2026-01-01/x.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"of b2")
    assert ledger.sweep(first) == 0
    assert file.exists()
    assert ledger.sweep(second) == 1
    assert not file.exists()


def test_old_files_of_a_killed_writer_are_swept(tmp_path: Path) -> None:
    ledger = ManifestLog(Storage(str(tmp_path)), "t")
    manifest = ledger.claim("a1", "aa")
    young, old = (tmp_path / f"topic=t/_manifest/.longhall-{word}" for word in ("young", "old"))
    for file in (young, old):
        file.write_bytes(b"{")
    os.utime(old, (0, 0))
    assert ledger.sweep(manifest) == 1
    assert young.exists()
    assert ledger.latest() == manifest


def test_an_archive_belongs_to_one_topic(tmp_path: Path) -> None:
    ledger = ManifestLog(Storage(str(tmp_path)), "t")
    ledger.claim("a1", "aa")
    with pytest.raises(PipelineError, match="topic t was deleted and made anew"):
        ledger.claim("b2", "bb")


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    ledger = ManifestLog(Storage(str(tmp_path)), "t")
    claimed: ArchiveManifest = ledger.claim("a1", "aa")
    path = tmp_path / f"topic=t/_manifest/{claimed.version:020}.json"
    path.write_bytes(path.read_bytes()[:10])
    with pytest.raises(PipelineError, match=r"_manifest/0+1\.json is damaged"):
        ledger.latest()
