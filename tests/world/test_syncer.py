"""The background syncer writes large files out in slices before it syncs them."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from longhall.world.real.syncer import SLICE_BYTES, Syncer

LARGE_BYTES = 3 * SLICE_BYTES + 1


@pytest.fixture
def large(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "large", os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, LARGE_BYTES)
    os.pwrite(descriptor, b"longhall", LARGE_BYTES - 8)
    yield descriptor
    os.close(descriptor)


def syncer_of(descriptor: int, *, together: bool = True) -> Syncer:
    syncer = Syncer(socket.socket(), together)
    syncer.descriptors[0] = descriptor
    return syncer


def library(monkeypatch: pytest.MonkeyPatch, write: Callable[..., int]) -> None:
    """Replace the sync_file_range of the C library that the syncer loads."""
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(sync_file_range=write))


def test_a_large_file_is_written_out_in_slices_and_a_commit_is_not(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def write(descriptor: int, position: ctypes.c_int64, size: ctypes.c_int64, flags: int) -> int:
        assert descriptor == large
        assert size.value == SLICE_BYTES
        asked.append(position.value)
        return 0

    library(monkeypatch, write)
    syncer = syncer_of(large)
    syncer.sync(0)
    assert asked == [0, SLICE_BYTES, 2 * SLICE_BYTES, 3 * SLICE_BYTES]
    assert syncer.failed == {}
    syncer_of(large, together=False).sync(0)
    os.ftruncate(large, SLICE_BYTES)
    syncer.sync(0)
    assert len(asked) == 4


def test_the_kernel_accepts_slices(large: int) -> None:
    syncer = syncer_of(large)
    syncer.sync(0)
    assert syncer.failed == {}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_slice_is_a_failed_sync(large: int, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    calls: list[int] = []

    def write(*_: object) -> int:
        calls.append(1)
        ctypes.set_errno(code)
        return -1

    library(monkeypatch, write)
    syncer = syncer_of(large)
    syncer.sync(0)
    syncer.sync(0)  # Never retried: the kernel would report success the second time.
    assert syncer.failed == {0: code}
    assert len(calls) == 1


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL, errno.EPERM])
def test_without_slices_the_sync_writes_everything(large: int, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    calls: list[int] = []

    def write(*_: object) -> int:
        calls.append(1)
        ctypes.set_errno(code)
        return -1

    library(monkeypatch, write)
    syncer = syncer_of(large)
    syncer.sync(0)
    syncer.sync(0)
    assert syncer.failed == {}
    assert len(calls) == 1
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())
    other = syncer_of(large)
    other.sync(0)
    assert other.failed == {}
