"""Who may ask, and the keys that queues may name: files that are read at the start and again on SIGHUP.

A file of credentials that others may read gives away everybody's secrets, so it is refused. At the start a file that
cannot be used is an error; later the old list goes on to hold, and the log says why.
"""

from __future__ import annotations

import logging
from typing import Final, final

from longhall.doors.sqs.keys import Keys, read_keys
from longhall.errors import LonghallError
from longhall.front.credentials import Credentials, read_credentials
from longhall.node.files import read_text

CREDENTIALS: Final = "credentials"
KEYS: Final = "keys"

_log = logging.getLogger("longhall.node")


@final
class Known:
    """What the two files said when they were last read; None for a file that no setting names."""

    def __init__(self, credentials_file: str | None, keys_file: str | None) -> None:
        """Raises LonghallError with one line that says what to do."""
        self._credentials_file = credentials_file
        self._keys_file = keys_file
        self.credentials: Credentials | None = None
        self.keys: Keys | None = None
        if credentials_file:
            self.credentials = Credentials(read_credentials(read_text(CREDENTIALS, credentials_file, private=True)))
        if keys_file:
            self.keys = Keys(read_keys(read_text(KEYS, keys_file, private=False)))

    def reload(self) -> None:
        """Put what the files say now in place, each as far as it can be used."""
        if self._credentials_file and self.credentials is not None:
            try:
                secrets = read_credentials(read_text(CREDENTIALS, self._credentials_file, private=True))
            except LonghallError as error:
                _log.error("the credentials could not be read again; the old ones hold", extra={"reason": str(error)})
            else:
                self.credentials.replace(secrets)
                _log.info("the credentials were read again", extra={"access_keys": len(secrets)})
        if self._keys_file and self.keys is not None:
            try:
                states = read_keys(read_text(KEYS, self._keys_file, private=False))
            except LonghallError as error:
                _log.error("the keys could not be read again; the old ones hold", extra={"reason": str(error)})
            else:
                self.keys.replace(states)
                _log.info("the keys were read again", extra={"keys": len(states)})
