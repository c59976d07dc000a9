"""The files of credentials and of master keys, read at the start and again on SIGHUP.

A file that other users can read is refused, because it exposes secrets, or where they are. At the start a file that
cannot be used is an error; later the old values stay in force and the reason is logged.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sized
from typing import Final, TypeVar, final

from longhall.errors import LonghallError
from longhall.front.credentials import Credentials, read_credentials
from longhall.front.keys.master_keys import MasterKeys, read_keys
from longhall.node.files import read_text
from longhall.node.settings import Settings
from longhall.world.ports import World

CREDENTIALS: Final = "credentials"
KEYS: Final = "keys"

_log = logging.getLogger("longhall.node")

_Entries = TypeVar("_Entries", bound=Sized)


@final
class Known:
    """The contents of the two files, as last read; None for a file that no setting names."""

    def __init__(
        self,
        credentials_file: str | None,
        keys_file: str | None,
        now_s: Callable[[], float] = time.monotonic,
        randomness: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Raises LonghallError with one line that says what to do."""
        self._credentials_file = credentials_file
        self._keys_file = keys_file
        self.credentials: Credentials | None = None
        self.keys: MasterKeys | None = None
        if credentials_file:
            self.credentials = Credentials(read_credentials(read_text(CREDENTIALS, credentials_file, private=True)))
        if keys_file:
            self.keys = MasterKeys(
                read_keys(_read_private(keys_file)),
                _read_private,
                now_s,
                _timestamp,
                randomness,
            )

    def reload(self) -> None:
        """Read both files again. If a file cannot be used, its old values stay in force."""
        if self._credentials_file and self.credentials is not None:
            path = self._credentials_file
            _reload(
                "credentials",
                "access_keys",
                lambda: read_credentials(read_text(CREDENTIALS, path, private=True)),
                self.credentials.replace,
            )
        if self._keys_file and self.keys is not None:
            try:
                self.keys.replace(read_keys(_read_private(self._keys_file)))
            except LonghallError as error:
                _log.error("the keys could not be read again; the old ones stay in force", extra={"reason": str(error)})
            else:
                _log.info("the keys were read again", extra={"keys": len(self.keys)})


def known_of(world: World, settings: Settings) -> Known:
    """The files that the settings name, with the clock and the randomness of a world."""
    clock = world.clock
    return Known(settings.credentials, settings.keys, lambda: clock.monotonic_ms() / 1000, world.entropy.bytes)


def _read_private(path: str) -> str:
    return read_text(KEYS, path, private=True)


def _timestamp() -> str:
    """The time as AWS signatures have it."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def _reload(what: str, count: str, read: Callable[[], _Entries], replace: Callable[[_Entries], None]) -> None:
    try:
        entries = read()
    except LonghallError as error:
        _log.error(f"the {what} could not be read again; the old ones stay in force", extra={"reason": str(error)})
    else:
        replace(entries)
        _log.info(f"the {what} were read again", extra={count: len(entries)})
