"""Small files that an operator writes and the node reads: whole, as text, and never waiting for them."""

from __future__ import annotations

import os
import stat
from typing import Final

from longhall.errors import Code, LonghallError

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
FORBIDDEN_MODE: Final = stat.S_IWGRP | stat.S_IRWXO  # The group may read, so that secrets can be mounted.


def read_text(setting: str, path: str, *, private: bool) -> str:
    """The text of the file that a setting names; a private one must be kept from others.

    Raises LonghallError with one line that names the setting and says what to do.
    """
    try:
        with open(path, "rb", opener=_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise refused(setting, f"{path} is no file")
            if private and status.st_mode & FORBIDDEN_MODE:
                raise refused(setting, f"{path} can be read or changed by others: chmod 600 {path}")
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise refused(setting, f"{path}: {error.strerror or error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise refused(setting, f"{path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise refused(setting, f"{path} is no text in UTF-8") from None


def refused(setting: str, what: str) -> LonghallError:
    """A setting whose file cannot be used."""
    return LonghallError(Code.INVALID_CONFIGURATION, f"{setting}: {what}")


def _at_once(path: str, flags: int) -> int:
    """A pipe in the file's place must not keep the node waiting."""
    return os.open(path, flags | os.O_NONBLOCK)
