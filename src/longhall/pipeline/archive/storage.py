"""The storage of an archive: a local path, or S3, HDFS and other file systems of pyarrow, by one URL.

A file appears whole or not at all. On a local disk it is synced with its directory before the write returns; an object
store makes it durable when the upload ends. Names are relative to the root of the archive. Every failure is one
`PipelineError` that names the storage.
"""

from __future__ import annotations

import errno
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, final

from longhall.pipeline.archive.hadoop import SCHEMES, missing_hadoop, prepare_hadoop
from longhall.pipeline.refusals import PipelineError

_OBJECT_STORES: Final = ("s3", "gcs", "gs", "abfs", "abfss")
_TEMPORARY: Final = ".longhall-"
_FORGOTTEN_S: Final = 3600


@final
class Storage:
    """One archive. Cheap to create; tasks create their own from the URL."""

    def __init__(self, url: str) -> None:
        import pyarrow as pa
        import pyarrow.fs as fs

        self.url = url
        self.is_local = "://" not in url or url.startswith("file://")
        try:
            if self.is_local:
                self._root = os.path.abspath(url.removeprefix("file://"))
                self._system: Any = fs.LocalFileSystem()
            else:
                if url.startswith(SCHEMES):
                    prepare_hadoop()
                self._system, self._root = fs.FileSystem.from_uri(url)
        except (OSError, pa.ArrowException) as failure:
            reason = missing_hadoop(str(failure)) or _reason(failure)
            raise PipelineError(f"{self.name} is no place for an archive: {reason}") from None
        self._is_object_store = str(self._system.type_name) in _OBJECT_STORES

    @property
    def name(self) -> str:
        """The URL without secrets, for people."""
        return self._root if self.is_local else re.sub(r"//[^/@]*@", "//", self.url.partition("?")[0])

    @property
    def has_links(self) -> bool:
        """True if a file can be created exclusively; elsewhere writers agree by claims."""
        return self.is_local

    def check(self) -> None:
        """Raises PipelineError if files cannot be created."""
        probe = f"{_TEMPORARY}probe-{uuid.uuid4().hex}"
        with self._one_line("cannot be written"):
            self._make_parent(probe)
            self._write(self._whole(probe), b"longhall")
            self._system.delete_file(self._whole(probe))

    def exists(self) -> bool:
        import pyarrow.fs as fs

        with self._one_line("cannot be read"):
            return bool(self._system.get_file_info(self._root).type != fs.FileType.NotFound)

    def read(self, name: str) -> Any:
        """The whole file, as a buffer of pyarrow."""
        with self._one_line(f"lacks {name}"), self._system.open_input_file(self._whole(name)) as file:
            return file.read_buffer()

    def open(self, name: str) -> Any:
        with self._one_line(f"lacks {name}"):
            return self._system.open_input_file(self._whole(name))

    def size_bytes(self, name: str) -> int | None:
        """The size of a file; None if it does not exist."""
        import pyarrow.fs as fs

        with self._one_line("cannot be read"):
            found = self._system.get_file_info(self._whole(name))
            return int(found.size) if found.type == fs.FileType.File else None

    def forgotten(self, directory: str) -> list[str]:
        """Temporary files so old that their writer must be dead."""
        import pyarrow.fs as fs

        selector = fs.FileSelector(self._whole(directory), allow_not_found=True, recursive=True)
        with self._one_line("cannot be read"):
            found = self._system.get_file_info(selector)
        cut = len(self._root.rstrip("/")) + 1
        before_ns = time.time_ns() - _FORGOTTEN_S * 10**9
        return [
            each.path[cut:]
            for each in found
            if each.base_name.startswith(_TEMPORARY) and each.mtime_ns is not None and each.mtime_ns < before_ns
        ]

    def list(self, directory: str) -> list[str]:
        """All files below a directory, including temporary ones."""
        import pyarrow.fs as fs

        selector = fs.FileSelector(self._whole(directory), allow_not_found=True, recursive=True)
        with self._one_line("cannot be read"):
            found = self._system.get_file_info(selector)
        cut = len(self._root.rstrip("/")) + 1
        return sorted(each.path[cut:] for each in found if each.type == fs.FileType.File)

    def put(self, name: str, data: Any) -> None:
        """Write a whole file, replacing an existing one."""
        with self._one_line("cannot be written"):
            self._make_parent(name)
            if self._is_object_store:
                self._write(self._whole(name), data)
            else:
                self._place(name, data, os.replace if self.is_local else self._replace)

    def put_if_absent(self, name: str, data: Any) -> bool:
        """Create a file exclusively; False if it exists. Only with `has_links`."""
        assert self.has_links, "without links two writers could both believe that they were first"
        with self._one_line("cannot be written"):
            self._make_parent(name)
            try:
                self._place(name, data, os.link)
            except FileExistsError:
                return False
        return True

    def delete(self, name: str) -> None:
        """Delete a file; a missing one is not an error."""
        if self.size_bytes(name) is not None:
            with self._one_line("cannot be written"), suppress(FileNotFoundError):
                self._system.delete_file(self._whole(name))

    def _place(self, name: str, data: Any, put: Any) -> None:
        whole = Path(self._whole(name))
        beside = str(whole.with_name(f"{_TEMPORARY}{uuid.uuid4().hex}"))
        try:
            self._write(beside, data)
            put(beside, str(whole))
            if self.is_local:
                _sync(whole.parent)
        finally:
            if self.is_local:
                Path(beside).unlink(missing_ok=True)

    def _replace(self, beside: str, whole: str) -> None:
        """Replace a file. HDFS does not rename onto an existing file; a replaced file is in no manifest yet."""
        import pyarrow.fs as fs

        if self._system.get_file_info(whole).type != fs.FileType.NotFound:
            self._system.delete_file(whole)
        self._system.move(beside, whole)

    def _write(self, whole: str, data: Any) -> None:
        if self.is_local:
            with open(whole, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        else:
            with self._system.open_output_stream(whole) as stream:
                stream.write(data)

    def _make_parent(self, name: str) -> None:
        parent = Path(self._whole(name)).parent
        if not self.is_local:
            if not self._is_object_store:
                self._system.create_dir(str(parent), recursive=True)
            return
        missing = []
        while not parent.is_dir():
            missing.append(parent)
            parent = parent.parent
        for each in reversed(missing):
            try:
                each.mkdir(exist_ok=True)
            except FileExistsError:
                raise NotADirectoryError(errno.ENOTDIR, f"{each} is a file") from None
            _sync(each.parent)

    def _whole(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}" if name else self._root

    @contextmanager
    def _one_line(self, what: str) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except FileExistsError:
            raise
        except (OSError, pa.ArrowException) as failure:
            if getattr(failure, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                raise PipelineError(
                    f"the archive at {self.name} is full; make room and start again, nothing is lost"
                ) from None
            raise PipelineError(f"the archive at {self.name} {what}: {_reason(failure)}") from None


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(failure: BaseException) -> str:
    words = getattr(failure, "strerror", None) or str(failure)
    return " ".join(str(words).split())[:300]
