"""Credentials: access keys and their secrets, from a file in the format of the AWS command line.

    [alice]
    aws_access_key_id = AKIAEXAMPLE
    aws_secret_access_key = secret

A section is one user or program; its name is a label. Anything else in the file is an error, so that a misspelt key
does not lock a user out without a message. This module does not know the path of the file, nor when it is read.
"""

from __future__ import annotations

import binascii
import configparser
import hmac
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Final, NamedTuple, final

from longhall.errors import Code, LonghallError

CREDENTIALS_MAX: Final = 10_000

_KEY_ID: Final = "aws_access_key_id"
_SECRET: Final = "aws_secret_access_key"
_ACCESS_KEY = re.compile(r"[A-Za-z0-9_.-]{1,128}")


@final
class Credentials:
    """The valid secrets by access key. All doors share one object, so that `replace` applies to them at once."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = dict(secrets)

    def __len__(self) -> int:
        return len(self._secrets)

    def replace(self, secrets: Mapping[str, str]) -> None:
        """Make these the only valid secrets."""
        self._secrets = dict(secrets)

    def secret(self, access_key: str) -> str | None:
        """The secret of an access key; None if the key is unknown."""
        return self._secrets.get(access_key)

    def matches(self, access_key: str, shown: str) -> bool:
        """True if this is the secret of an access key."""
        secret = self._secrets.get(access_key, "")
        # An unknown key is compared too, so that the time of the answer does not reveal which keys exist.
        same = hmac.compare_digest(secret.encode(), shown.encode())
        return same and bool(secret)

    @property
    def access_keys(self) -> list[str]:
        """The valid access keys, in order."""
        return sorted(self._secrets)


def basic_login(authorization: bytes | None) -> tuple[str, str] | None:
    """User and password of an HTTP Basic `Authorization` header; None if it has none."""
    scheme, _, encoded = (authorization or b"").strip().partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        user, _, password = b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return user, password


class CredentialsSection(NamedTuple):
    """One section of the file."""

    label: str
    access_key: str
    secret: str


def read_credentials(text: str) -> dict[str, str]:
    """Secrets by access key. Raises LonghallError that names the fault and its place, and never quotes a secret."""
    return {section.access_key: section.secret for section in read_sections(text)}


def read_sections(text: str) -> list[CredentialsSection]:
    """The sections of the file. Raises LonghallError that names the fault and its place, and never quotes a secret."""
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read_string(text)
    except configparser.Error as error:
        # The parser's own message quotes the line, which may have a secret.
        raise _wrong(f"the file is malformed near line {getattr(error, 'lineno', '?')}") from None
    sections: list[CredentialsSection] = []
    known: set[str] = set()
    for label in parser.sections():
        names = set(parser[label])
        if names != {_KEY_ID, _SECRET}:
            raise _wrong(f"[{label}] must have {_KEY_ID} and {_SECRET} and nothing else")
        access_key = parser[label][_KEY_ID]
        if _ACCESS_KEY.fullmatch(access_key) is None or not parser[label][_SECRET]:
            raise _wrong(f"[{label}] has an access key that is malformed or a secret that is empty")
        if access_key in known:
            raise _wrong(f"[{label}] repeats the access key of another section")
        known.add(access_key)
        sections.append(CredentialsSection(label, access_key, parser[label][_SECRET]))
    if not 1 <= len(sections) <= CREDENTIALS_MAX:
        raise _wrong(f"the file must have between 1 and {CREDENTIALS_MAX} sections")
    return sections


def _wrong(what: str) -> LonghallError:
    return LonghallError(Code.INVALID_CONFIGURATION, f"credentials: {what}")
