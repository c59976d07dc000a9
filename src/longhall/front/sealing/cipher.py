"""AES-256-GCM under data keys, with nonces that no two processes and no two lives of a process share.

    key of a process   HKDF-SHA256(data key, salt = prefix, "longhall seal 1")
    nonce              4 zero bytes and the counter: 12 bytes
    prefix             16 bytes from the system's random source, drawn once in the life of a process
    counter            counts the seals of this process, over all data keys

Why no nonce is used twice under one key: within a process the counter never repeats. Two processes, or two lives of
one, have different prefixes, and so derive different keys from the same data key; that two of n prefixes are equal has
a probability below n^2 / 2^129, also after a restored backup or a cloned machine, which would repeat any number that is
stored. A seal names its prefix and counter, so every reader derives the same key.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from longhall.errors import Code, LonghallError
from longhall.records.seal import COUNTER_MAX, PREFIX_BYTES, Seal

KEY_BYTES: Final = 32
CIPHERS_MAX: Final = 64  # Of one data key: ciphers of processes that sealed, derived again when they are needed.

_PURPOSE: Final = b"longhall seal 1"
_DIGESTS: Final = b"longhall deduplication 1"


@final
class NonceSource:
    """The prefix of this process, and the counter of its seals."""

    def __init__(self, randomness: Callable[[int], bytes]) -> None:
        self.prefix = randomness(PREFIX_BYTES)
        self._counter = 0

    def next(self) -> int:
        """A number that this process has not used before."""
        assert self._counter < COUNTER_MAX, "a process seals less than 2^64 times"
        self._counter += 1
        return self._counter


@final
class DataCipher:
    """One data key in clear, with the ciphers that follow from it."""

    def __init__(self, topic_id: bytes, number: int, clear: bytes) -> None:
        self.topic_id = topic_id
        self.number = number
        self._clear = clear
        self._ciphers: dict[bytes, AESGCM] = {}

    def seal(self, nonces: NonceSource) -> tuple[bytes, AESGCM, bytes]:
        """A new seal, and the cipher and the nonce to encrypt with."""
        counter = nonces.next()
        raw = Seal(self.topic_id, self.number, nonces.prefix, counter).encode()
        return raw, self._cipher(nonces.prefix), counter.to_bytes(12, "big")

    def open(self, seal: Seal, ciphertext: bytes, binding: bytes) -> bytes:
        """The clear text. SEAL_BROKEN if it, or what it is bound to, is not as it was sealed."""
        try:
            return self._cipher(seal.prefix).decrypt(seal.counter.to_bytes(12, "big"), ciphertext, binding)
        except InvalidTag:
            raise broken() from None

    def digest(self, body: bytes) -> str:
        """A digest of a body for deduplication, which says nothing about the body without the key."""
        key = hmac.digest(self._clear, _DIGESTS, "sha256")
        return hmac.new(key, body, hashlib.sha256).hexdigest()

    def _cipher(self, prefix: bytes) -> AESGCM:
        cipher = self._ciphers.get(prefix)
        if cipher is None:
            if len(self._ciphers) >= CIPHERS_MAX:
                self._ciphers.clear()
            key = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=prefix, info=_PURPOSE).derive(self._clear)
            cipher = self._ciphers[prefix] = AESGCM(key)
        return cipher


def broken(why: str = "a sealed message was altered, cut, or moved from where it was sealed") -> LonghallError:
    """The error for what does not open."""
    return LonghallError(Code.SEAL_BROKEN, why)
