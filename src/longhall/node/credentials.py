"""The file of credentials: read at the start, and again when the operator says so (SIGHUP).

A file that others may read gives away everybody's secrets, so it is refused. At the start a file that cannot be used is
an error; later the old list goes on to hold, and the log says why.
"""

from __future__ import annotations

import logging
import os
import stat
from typing import Final

from longhall.errors import Code, LonghallError
from longhall.front.credentials import Credentials, read_credentials

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
FORBIDDEN_MODE: Final = stat.S_IWGRP | stat.S_IRWXO  # The group may read, so that secrets can be mounted.

_log = logging.getLogger("longhall.node")


def load_credentials(path: str) -> Credentials:
    """Raises LonghallError with one line that says what to do."""
    return Credentials(read_credentials(_text(path)))


def reload_credentials(path: str, credentials: Credentials) -> None:
    """Put the file's present list in place, if it can be used."""
    try:
        credentials.replace(read_credentials(_text(path)))
    except LonghallError as error:
        _log.error("the credentials could not be read again; the old ones hold", extra={"reason": str(error)})
    else:
        _log.info("the credentials were read again", extra={"access_keys": len(credentials)})


def _text(path: str) -> str:
    try:
        with open(path, "rb", opener=_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _refused(f"{path} is no file")
            if status.st_mode & FORBIDDEN_MODE:
                raise _refused(f"{path} can be read or changed by others: chmod 600 {path}")
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise _refused(f"{path}: {error.strerror or error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise _refused(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _refused(f"{path} is no text in UTF-8") from None


def _at_once(path: str, flags: int) -> int:
    """A pipe in the file's place must not keep the node waiting."""
    return os.open(path, flags | os.O_NONBLOCK)


def _refused(what: str) -> LonghallError:
    return LonghallError(Code.INVALID_CONFIGURATION, f"credentials: {what}")
