"""Wrapping of data keys in this process, for providers that hand out the master key itself.

    0         1                 13
    +---------+-----------------+----------------------------------------+
    | version | nonce, at       | AES-256-GCM of the data key under the  |
    | = 1  u8 | random 12 bytes | master key, with its tag: 48 bytes     |
    +---------+-----------------+----------------------------------------+

The nonces are random: a master key wraps a few thousand data keys in its life, far below the 2^32 that random nonces
allow. The context is the associated data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from longhall.errors import Code, LonghallError
from longhall.front.keys.provider import DATA_KEY_BYTES, DataKey, KeyContext

VERSION: Final = b"\x01"
NONCE_BYTES: Final = 12

Randomness = Callable[[int], bytes]


def generate_with(master: bytes, context: KeyContext, randomness: Randomness) -> DataKey:
    """A new data key, wrapped under this master key."""
    clear = randomness(DATA_KEY_BYTES)
    return DataKey(clear, wrap_with(master, clear, context, randomness))


def wrap_with(master: bytes, clear: bytes, context: KeyContext, randomness: Randomness) -> bytes:
    """A data key wrapped under this master key."""
    nonce = randomness(NONCE_BYTES)
    return VERSION + nonce + AESGCM(master).encrypt(nonce, clear, context_bytes(context))


def unwrap_with(masters: list[bytes], wrapped: bytes, context: KeyContext) -> bytes:
    """The data key, under whichever of the versions of its master key it was wrapped."""
    nonce, ciphertext = wrapped[1 : 1 + NONCE_BYTES], wrapped[1 + NONCE_BYTES :]
    if wrapped[:1] == VERSION and len(nonce) == NONCE_BYTES:
        for master in masters:
            try:
                return AESGCM(master).decrypt(nonce, ciphertext, context_bytes(context))
            except InvalidTag:
                continue
    raise LonghallError(Code.KEY_UNKNOWN, "no version of the master key opens the data key")


def context_bytes(context: KeyContext) -> bytes:
    """The context as bytes, the same for the same context."""
    return "\n".join(f"{name}={context[name]}" for name in sorted(context)).encode()
