"""Small files that an operator writes and the node reads: as a whole, as text, and without blocking."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from typing import Final

from longhall.errors import Code, LonghallError

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
FORBIDDEN_MODE: Final = stat.S_IWGRP | stat.S_IRWXO  # The group may read, so that secrets can be mounted.
OTHERS_MODE: Final = stat.S_IRWXG | stat.S_IRWXO

_log = logging.getLogger("longhall.node")


def read_text(setting: str, path: str, *, private: bool, group: bool = True) -> str:
    """The text of the file that a setting names. Other users must not have access to a private file, nor its group if
    `group` is False.

    Raises LonghallError with one line that names the setting and says what to do.
    """
    try:
        with open(path, "rb", opener=_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise refused(setting, f"{path} is no file")
            if private and status.st_mode & (FORBIDDEN_MODE if group else OTHERS_MODE):
                raise refused(setting, f"{path} can be read or changed by others: chmod 600 {path}")
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise refused(setting, f"{path}: {error.strerror or error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise refused(setting, f"{path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise refused(setting, f"{path} is not text in UTF-8") from None


def make_private(directory: str, names: Iterable[str]) -> None:
    """Remove the permissions of other users from these files, if they exist and belong to this user."""
    for name in names:
        path = os.path.join(directory, name)
        try:
            if os.stat(path).st_mode & OTHERS_MODE:
                os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)
        except FileNotFoundError:
            continue
        except OSError as error:
            _log.warning("other users can read a file with a secret", extra={"path": path, "reason": str(error)})


def refused(setting: str, what: str) -> LonghallError:
    """The error for a setting whose file cannot be used."""
    return LonghallError(Code.INVALID_CONFIGURATION, f"{setting}: {what}")


def _at_once(path: str, flags: int) -> int:
    """Open without blocking: the path may be a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)
