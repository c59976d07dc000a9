"""The text of messages: which characters the service allows, and the MD5 digests that clients verify.

The service allows #x9 #xA #xD #x20-#xD7FF #xE000-#xFFFD #x10000-#x10FFFF in UTF-8. The check works on the encoded form,
where two searches and a translation replace a loop over all characters.

A digest is that of a body, or of attributes in the service's own encoding:

    for each attribute, by name:  length name  length type  kind  length value      (lengths: four bytes, big-endian)

Kind is 1 for text (numbers are text) and 2 for bytes. MD5 detects damage in transit here; it is no protection.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from longhall.queues.messages import Attribute

# Each forbidden control character becomes another byte. Without characters to delete, `translate` is twice as fast.
_WITHOUT_CONTROLS: Final = bytes(
    ord(" ") if code < 0x20 and code not in (0x9, 0xA, 0xD) else code for code in range(0x100)
)
_NONCHARACTERS: Final = ("\ufffe".encode(), "\uffff".encode())

_md5: Final = hashlib.md5  # Every message needs one.


def is_allowed(encoded: bytes) -> bool:
    """True if UTF-8 bytes have allowed characters only."""
    if encoded.translate(_WITHOUT_CONTROLS) != encoded:
        return False
    return encoded.isascii() or not any(code in encoded for code in _NONCHARACTERS)


def needs_no_check(request: bytes) -> bool:
    """True if every string of a JSON request that was decoded is allowed: without an escape there is no control
    character in it, because the decoder refuses raw ones, and ASCII has no other character that is not allowed.
    """
    return request.isascii() and b"\\" not in request


def encode(text: str) -> bytes | None:
    """The text as UTF-8, or None if it has characters that are not allowed, such as an unpaired surrogate."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return None
    return encoded if is_allowed(encoded) else None


def decode(data: bytes) -> str | None:
    """The bytes as text, or None if they are not allowed text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if is_allowed(data) else None


def digest_of_body(body: bytes) -> str:
    """The MD5 of a body, in hexadecimal."""
    return _md5(body, usedforsecurity=False).hexdigest()


def digest_of_attributes(attributes: Mapping[str, Attribute]) -> str | None:
    """The MD5 of attributes, in hexadecimal; None if there are none."""
    if not attributes:
        return None
    out = _md5(usedforsecurity=False)
    for name in sorted(attributes):
        data_type, value = attributes[name]
        for part in (name.encode(), data_type.encode()):
            out.update(len(part).to_bytes(4, "big") + part)
        kind = b"\x02" if is_binary(data_type) else b"\x01"
        out.update(kind + len(value).to_bytes(4, "big") + value)
    return out.hexdigest()


def is_binary(data_type: str) -> bool:
    """True if values of this type are bytes and not text."""
    return data_type.startswith("Binary")
