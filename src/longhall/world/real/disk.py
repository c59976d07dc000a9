"""A data directory on a real file system, and the lock against a second node."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from typing import Final, final

from longhall.world.ports import Buffer, Done, File
from longhall.world.real.file import RealFile
from longhall.world.real.sync_lane import SyncLane
from longhall.world.real.syncer import TOGETHER_FILES_MIN
from longhall.world.real.syncfs import obstacle_to_syncfs
from longhall.world.real.write_lane import WriteLane, wait_for_writes

LOCK_NAME: Final = "lock"
DIRECTORY_MODE: Final = 0o700  # Messages and the secret of receipts are private.
FILE_MODE: Final = 0o600
FILES_UNBOUNDED: Final = 1 << 62  # For file systems that create inodes on demand and report 0.

_libc = ctypes.CDLL(None, use_errno=True)


@final
class RealDisk:
    """Files by their path under `root`, which is created if it is missing.

    Two processes sync, one for commits and one for the background, so that a commit never waits for a checkpoint. A
    third one writes. All start at their first use.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        os.makedirs(self.root, mode=DIRECTORY_MODE, exist_ok=True)
        # Open from now on: the kernel reports failed writes to descriptors that were open at the time.
        self._directory = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # Why many files are synced one by one; empty if they are not.
        self.obstacle_to_syncfs = obstacle_to_syncfs(self.root)
        self._commits = SyncLane("commits")
        file_system = -1 if self.obstacle_to_syncfs else self._directory
        self._background = SyncLane("background", together=True, file_system=file_system)
        self._writes = WriteLane(self.root)

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(path, os.open(self._full(path), flags, FILE_MODE), self.forget)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._full(path))

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._full(path)))
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        os.makedirs(self._full(path), exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(self._full(source), self._full(target))

    def remove(self, path: str) -> None:
        full = self._full(path)
        if os.path.isdir(full):
            shutil.rmtree(full)
        else:
            os.unlink(full)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(self._full(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_directories(self, paths: Sequence[str]) -> None:
        if len(paths) < TOGETHER_FILES_MIN or self.obstacle_to_syncfs:
            for path in paths:
                if self.exists(path):
                    self.sync_directory(path)
            return
        if _libc.syncfs(self._directory) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), self.root)

    def sync(self, files: Sequence[File], done: Done, *, background: bool = False) -> None:
        lane = self._background if background else self._commits
        lane.sync([_real(file) for file in files], done)

    def sync_now(self, file: File) -> None:
        os.fdatasync(_real(file).descriptor)

    def write_behind(self, file: File, position: int, buffers: Sequence[Buffer], done: Done) -> bool:
        return self._writes.write(_real(file), position, buffers, done)

    def finish_writes(self) -> None:
        self._writes.finish()

    def free_bytes(self) -> int:
        numbers = os.statvfs(self.root)
        return numbers.f_bavail * numbers.f_frsize

    def free_files(self) -> int:
        numbers = os.statvfs(self.root)
        return numbers.f_favail if numbers.f_files else FILES_UNBOUNDED

    def is_linked(self, file: File) -> bool:
        opened = os.fstat(_real(file).descriptor)
        try:
            found = os.stat(self._full(file.path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (opened.st_dev, opened.st_ino) == (found.st_dev, found.st_ino)

    def close(self) -> None:
        """Stop the processes that sync and write."""
        self._commits.close()
        self._background.close()
        self._writes.close()
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    @property
    def sync_method(self) -> str:
        """A description for the log."""
        obstacle = self.obstacle_to_syncfs
        return f"one by one: {obstacle}" if obstacle else "with one call for the file system (syncfs)"

    @property
    def syncer_pid(self) -> int | None:
        """The process that syncs commits, once it runs."""
        return self._commits.pid

    @property
    def writer_pid(self) -> int | None:
        """The process that writes, once it runs."""
        return self._writes.pid

    def _full(self, path: str) -> str:
        return os.path.join(self.root, path) if path not in ("", ".") else self.root

    def forget(self, file: RealFile) -> None:
        """Release a file that is being closed."""
        self._commits.forget(file)
        self._background.forget(file)
        self._writes.forget(file)


@final
class DirectoryLock:
    """Holds `lock` in the data directory; the kernel releases it when the process ends, however it ends."""

    def __init__(self, root: str) -> None:
        path = os.path.join(root, LOCK_NAME)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            if error.errno != errno.EWOULDBLOCK:
                raise
            who = f"process {holder}" if holder else "another process"
            sentence = f"the data directory is in use by {who}: stop it or choose another"
            raise OSError(errno.EBUSY, sentence, root) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        try:
            wait_for_writes(root)
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _real(file: File) -> RealFile:
    assert isinstance(file, RealFile), "not a RealFile"
    return file
