"""Who may ask: access keys and their secrets, from a file in the format that AWS's own tools read.

    [alice]
    aws_access_key_id = AKIAEXAMPLE
    aws_secret_access_key = secret

A section is a person or a program; its name is for people. Anything that is not understood is an error: a key that was
misspelt must not leave somebody locked out in silence. Where the file lies and when it is read is the node's business.
"""

from __future__ import annotations

import binascii
import configparser
import hmac
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Final, final

from longhall.errors import Code, LonghallError

CREDENTIALS_MAX: Final = 10_000

_KEY_ID: Final = "aws_access_key_id"
_SECRET: Final = "aws_secret_access_key"
_ACCESS_KEY = re.compile(r"[A-Za-z0-9_.-]{1,128}")


@final
class Credentials:
    """The secrets that hold now. Whoever checks against them keeps this object and sees a new list at once."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = dict(secrets)

    def __len__(self) -> int:
        return len(self._secrets)

    def replace(self, secrets: Mapping[str, str]) -> None:
        """From now on these hold and no others."""
        self._secrets = dict(secrets)

    def secret(self, access_key: str) -> str | None:
        """The secret of an access key; None for a stranger."""
        return self._secrets.get(access_key)

    def basic(self, authorization: bytes | None) -> str | None:
        """The access key of who shows it with its secret as HTTP's Basic scheme has it; None for anybody else."""
        scheme, _, encoded = (authorization or b"").strip().partition(b" ")
        if scheme.lower() != b"basic":
            return None
        try:
            access_key, _, shown = b64decode(encoded.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        secret = self._secrets.get(access_key, "")
        # A stranger is compared as well, so that the time does not tell who is known.
        same = hmac.compare_digest(secret.encode(), shown.encode())
        return access_key if same and secret else None


def read_credentials(text: str) -> dict[str, str]:
    """Secrets by access key. Raises LonghallError with what is wrong and where; never with a secret in it."""
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read_string(text)
    except configparser.Error as error:
        # The parser's own sentences quote lines, and a line may hold a secret.
        raise _wrong(f"the file is malformed near line {getattr(error, 'lineno', '?')}") from None
    secrets: dict[str, str] = {}
    for section in parser.sections():
        names = set(parser[section])
        if names != {_KEY_ID, _SECRET}:
            raise _wrong(f"[{section}] must have {_KEY_ID} and {_SECRET} and nothing else")
        access_key = parser[section][_KEY_ID]
        if _ACCESS_KEY.fullmatch(access_key) is None or not parser[section][_SECRET]:
            raise _wrong(f"[{section}] has an access key or a secret that is none")
        if access_key in secrets:
            raise _wrong(f"[{section}] has the access key of another one")
        secrets[access_key] = parser[section][_SECRET]
    if not 1 <= len(secrets) <= CREDENTIALS_MAX:
        raise _wrong(f"the file must have between 1 and {CREDENTIALS_MAX} sections")
    return secrets


def _wrong(what: str) -> LonghallError:
    return LonghallError(Code.INVALID_CONFIGURATION, f"credentials: {what}")
