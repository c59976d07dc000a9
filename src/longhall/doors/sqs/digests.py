"""The MD5 digests that clients verify: of a body, and of attributes in the service's own encoding.

    for each attribute, by name:  length name  length type  kind  length value      (lengths: four bytes, big-endian)

Kind is 1 for text (numbers are text) and 2 for bytes. MD5 detects damage in transit here; it is no protection.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from longhall.queues.messages import Attribute

_md5: Final = hashlib.md5  # Every message needs one.


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
