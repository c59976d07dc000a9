"""Checksums of HTTP bodies: `Content-Digest` of RFC 9530, in both directions, and CRC32C of single messages.

    Content-Digest: crc32c=:4waSgw==:    of a request: every known checksum is verified before the request is handled; a
                                         wrong one is refused, and nothing has happened
    Want-Content-Digest: crc32c=1        of a request: the response has such a `Content-Digest`
    "crc32c": "e3069283"                 of a message in JSON: CRC32C of the bytes of its body

A checksum of a request covers the bytes on the wire. That of a message covers the body behind the encoding of JSON,
from the sender to the receiver.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import Final

from longhall.errors import Code, LonghallError
from longhall.records.crc import crc_of_parts

ALGORITHMS_MAX: Final = 16  # In one header.


def _crc32c(data: bytes) -> bytes:
    return crc_of_parts(data).to_bytes(4, "big")


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _sha512(data: bytes) -> bytes:
    return hashlib.sha512(data).digest()


ALGORITHMS: Final[dict[str, Callable[[bytes], bytes]]] = {"crc32c": _crc32c, "sha-256": _sha256, "sha-512": _sha512}
KNOWN: Final = ", ".join(ALGORITHMS)


def verify_digest(header: bytes, body: bytes) -> None:
    """Raises CORRUPT_MESSAGE if a checksum of a `Content-Digest` is wrong, INVALID_REQUEST if none can be verified."""
    verified = 0
    for name, text in _members(header):
        algorithm = ALGORITHMS.get(name)
        if algorithm is None:
            continue
        if len(text) < 2 or text[0] != ":" or text[-1] != ":":
            raise LonghallError(Code.INVALID_REQUEST, f"Content-Digest: write {name}=:BASE64:")
        try:
            given = base64.b64decode(text[1:-1], validate=True)
        except (binascii.Error, ValueError):
            raise LonghallError(Code.INVALID_REQUEST, f"Content-Digest: {name} is not base64") from None
        if given != algorithm(body):
            raise LonghallError(
                Code.CORRUPT_MESSAGE, f"the body does not have the {name} of Content-Digest: send it again"
            )
        verified += 1
    if not verified:
        raise LonghallError(Code.INVALID_REQUEST, f"Content-Digest: this node knows {KNOWN}")


def wanted_digest(header: bytes | None) -> str:
    """The algorithm that a `Want-Content-Digest` prefers among those that are known; empty if none."""
    best, weight = "", 0
    for name, text in _members(header or b""):
        if name in ALGORITHMS and text.isascii() and text.isdigit() and len(text) <= 2 and int(text) > weight:
            best, weight = name, int(text)
    return best


def digest_header(algorithm: str, body: bytes) -> str:
    """A header line with the checksum of a response."""
    return f"Content-Digest: {digest_value(algorithm, body)}\r\n"


def digest_value(algorithm: str, body: bytes) -> str:
    """The value of a `Content-Digest`."""
    return f"{algorithm}=:{base64.b64encode(ALGORITHMS[algorithm](body)).decode()}:"


def _members(header: bytes) -> list[tuple[str, str]]:
    """Names and values of a dictionary header. Names are lower-case."""
    found: list[tuple[str, str]] = []
    for member in header.decode("latin-1").split(",")[:ALGORITHMS_MAX]:
        name, equals, value = member.strip().partition("=")
        if equals:
            found.append((name.strip().lower(), value.strip()))
    return found


def crc32c_text(body: bytes) -> str:
    """CRC32C of a body as a message has it: eight hexadecimal digits."""
    return f"{crc_of_parts(body):08x}"


def verify_crc32c(given: str, body: bytes) -> None:
    """Raises CORRUPT_MESSAGE if a message does not have the checksum that its sender gave."""
    if given and given.lower() != crc32c_text(body):
        raise LonghallError(
            Code.CORRUPT_MESSAGE, f"the body of a message does not have the crc32c {given}: send it again"
        )
