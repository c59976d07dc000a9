"""Power cut: the disk has only what was written to it, not what the kernel still had in memory.

The data is on an ext4 in a file. The node is paused and the file is copied: the copy is the disk at the moment of the
cut. A node on the copy must have everything that was acknowledged before.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from soak import reckoning
from soak.history import History, Told, missing
from soak.load import Load
from soak.reckoning import read_until_all_is_there, reckon
from tests.clients.presence import need_command
from tests.crash.conftest import Mount, NewNode, injected

CUTS = 4
IMAGE_BYTES = 400 << 20


Judge = Callable[[str, Told], list[str]]


class Machine:
    """A node under load on a disk of its own, and nodes on copies of that disk."""

    def __init__(self, tmp_path: Path, new_node: NewNode, mount: Mount, prefix: Sequence[str] = ()) -> None:
        self._disk = tmp_path / "disk.img"
        self._new_node = new_node
        self._mount = mount
        _make_file_system(self._disk)
        self._node = new_node(mount("-o", "loop", os.fspath(self._disk)) / "data", prefix=prefix)
        self._node.start()
        self._history = History()
        self.load = Load(self._node.bootstrap, self._history)
        self.load.start()

    def cut(self, number: int, judge: Judge) -> tuple[Told, list[str]]:
        """Copy the disk as it is now, start a node on the copy, and return what was acknowledged and what is wrong
        there.
        """
        copy = self._disk.with_name(f"copy{number}.img")
        self._node.suspend()
        time.sleep(0.2)  # Answers that were already on their way arrive and count.
        told = self._history.snapshot()
        subprocess.run(["cp", "--sparse=always", self._disk, copy], check=True)
        self._node.resume()
        with self._new_node(self._mount("-o", "loop", os.fspath(copy)) / "data") as after:
            return told, judge(after.bootstrap, told)


@pytest.mark.timeout(240)
def test_power_cuts_under_load(tmp_path: Path, new_node: NewNode, mount: Mount) -> None:
    machine = Machine(tmp_path, new_node, mount)
    counts = []
    for number in range(CUTS):
        time.sleep(1.0)
        told, complaints = machine.cut(number, lambda bootstrap, told: reckon(bootstrap, told)[1])
        assert not complaints, "\n".join(complaints)
        counts.append(told.count())
    machine.load.finish()
    assert counts[-1] > 200, "the load did next to nothing, so the cuts prove nothing"


@pytest.mark.timeout(120)
def test_a_power_cut_after_ineffective_syncs_is_found(
    tmp_path: Path, new_node: NewNode, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same on a machine whose syncs do nothing and report success.

    If nothing were missing then, the test above would prove nothing: the syncs, and not luck, make acknowledged
    messages durable.
    """
    monkeypatch.setattr(reckoning, "READ_SECONDS_MAX", 3.0)  # Lost messages do not come back by waiting.
    machine = Machine(tmp_path, new_node, mount, prefix=injected("fdatasync,fsync:retval=0"))
    time.sleep(2.0)
    told, lost = machine.cut(0, lambda bootstrap, told: missing(told, read_until_all_is_there(bootstrap, told)))
    assert told.count() > 100
    assert lost


@pytest.mark.timeout(120)
def test_a_cut_loses_what_was_not_synced(tmp_path: Path, mount: Mount) -> None:
    """The method itself: the copy has what was synced and not what was not; otherwise the test above would prove
    nothing.
    """
    disk, copy = tmp_path / "disk.img", tmp_path / "copy.img"
    _make_file_system(disk)
    place = mount("-o", "loop", os.fspath(disk))
    with (place / "synced").open("wb") as synced:
        synced.write(b"here" * 1000)
        synced.flush()
        os.fsync(synced.fileno())
    (place / "unsynced").write_bytes(b"gone" * 1000)
    shutil.copyfile(disk, copy)
    after = mount("-o", "loop", os.fspath(copy))
    assert (after / "synced").read_bytes() == b"here" * 1000
    lost = after / "unsynced"
    assert not lost.exists() or lost.read_bytes() != b"gone" * 1000


def _make_file_system(disk: Path) -> None:
    maker = need_command("mkfs.ext4", "a power cut")
    with disk.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    subprocess.run([maker, "-q", "-F", os.fspath(disk)], check=True)
