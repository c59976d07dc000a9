"""The one exception of the wire: bytes or a value that do not fit the message.

It stays uncompiled, because exceptions that carry attributes do.
"""

from __future__ import annotations

from longhall.errors import Code, LonghallError


class WireError(LonghallError):
    """A decoder found what the protocol does not allow, or an encoder was given what it cannot express."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.INVALID_REQUEST, message)
