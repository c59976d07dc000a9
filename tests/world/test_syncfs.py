"""Whether syncfs may be used: only where the kernel reports failed writes."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path

import pytest

from longhall.world.real import syncer, syncfs
from longhall.world.real.disk import RealDisk
from longhall.world.real.syncer import TOGETHER_FILES_MIN, Syncer
from longhall.world.real.syncfs import obstacle_to_syncfs


@pytest.mark.parametrize("release", ["5.8.0", "5.10.0-28-amd64", "6.1.0", "10.0.1"])
def test_syncfs_is_used_with_a_kernel_that_reports_failures(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncfs, "_file_system_of", lambda path: 0xEF53)
    assert obstacle_to_syncfs(str(tmp_path), release) == ""


@pytest.mark.parametrize("release", ["5.7.19", "4.19.0-26-amd64", "3.10.0-1160.el7", "strange"])
def test_syncfs_is_not_used_with_an_older_kernel(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncfs, "_file_system_of", lambda path: 0xEF53)
    assert release in obstacle_to_syncfs(str(tmp_path), release)


def test_syncfs_is_not_used_on_a_forwarding_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncfs, "_file_system_of", lambda path: 0x65735546)  # FUSE.
    assert "0x65735546" in obstacle_to_syncfs(str(tmp_path), "6.1.0")


def test_the_type_of_the_file_system_is_found(tmp_path: Path) -> None:
    assert syncfs._file_system_of(str(tmp_path)) != 0
    assert syncfs._file_system_of(str(tmp_path / "missing")) == 0


@pytest.mark.parametrize("release", ["5.7.0", "6.1.0"])
def test_many_files_are_synced_with_either_method(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's version selects the method, and both succeed."""
    monkeypatch.setattr(syncfs, "_file_system_of", lambda path: 0xEF53)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "host", release, "", "x86_64")))
    disk = RealDisk(str(tmp_path))
    assert disk.sync_method.startswith("one by one" if release == "5.7.0" else "with one call")
    monkeypatch.undo()

    async def sync() -> OSError | None:
        files = [disk.open(f"file{number}", create=True) for number in range(TOGETHER_FILES_MIN + 2)]
        for file in files:
            file.write_at(0, (b"something",))
        done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        disk.sync(files, done.set_result, background=True)
        return await done

    assert asyncio.run(sync()) is None
    disk.sync_directories([""] * TOGETHER_FILES_MIN)
    disk.close()


class Library:
    """The system calls: a syncfs that succeeds, and one file that reports a failure."""

    def __init__(self, bad: int) -> None:
        self.bad = bad
        self.synced: list[int] = []

    def syncfs(self, descriptor: int) -> int:
        self.synced.append(descriptor)
        return 0

    def sync_file_range(self, descriptor: int, position: object, size: object, flags: int) -> int:
        assert flags == syncer.WAIT
        return -1 if descriptor == self.bad else 0


def test_a_failure_reported_to_another_descriptor_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ctypes

    files = [os.open(tmp_path / f"file{number}", os.O_CREAT | os.O_RDWR) for number in range(3)]
    directory = os.open(tmp_path, os.O_RDONLY)
    library = Library(files[1])
    monkeypatch.setattr(ctypes, "CDLL", lambda name, use_errno: library)
    monkeypatch.setattr(ctypes, "get_errno", lambda: errno.EIO)
    made = Syncer(socket.socket(), True, directory)
    made.descriptors = dict(enumerate(files))
    try:
        assert made.sync_together([0, 1, 2]) == {0, 1, 2}
        assert library.synced == [directory]  # The descriptor that was open before anything was written.
        assert made.failed == {1: errno.EIO}
    finally:
        for descriptor in (*files, directory):
            os.close(descriptor)
