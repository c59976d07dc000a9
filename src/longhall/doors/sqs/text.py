"""The text that the service allows: UTF-8 of #x9 #xA #xD #x20-#xD7FF #xE000-#xFFFD #x10000-#x10FFFF.

The check works on the encoded form, where two searches and a translation replace a loop over all characters.
"""

from __future__ import annotations

from typing import Final

# Each forbidden control character becomes another byte. Without characters to delete, `translate` is twice as fast.
_WITHOUT_CONTROLS: Final = bytes(
    ord(" ") if code < 0x20 and code not in (0x9, 0xA, 0xD) else code for code in range(0x100)
)
_NONCHARACTERS: Final = ("\ufffe".encode(), "\uffff".encode())


def is_allowed(encoded: bytes) -> bool:
    """True if UTF-8 bytes have allowed characters only."""
    if encoded.translate(_WITHOUT_CONTROLS) != encoded:
        return False
    return encoded.isascii() or not any(code in encoded for code in _NONCHARACTERS)


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
