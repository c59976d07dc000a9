"""The data keys of a sealed topic or queue, wrapped under master keys, as the catalogue stores them.

They are a read-only configuration of the topic, so they are durable, replicated and in backups like every other one.
Keys are numbered from 1 on; the last one seals, and all of them open. Nothing here is secret without the master keys.
This module does not know how keys are wrapped.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

KEYS_MAX: Final = 256  # Of one topic. A rotation beyond it is refused until old keys are destroyed.
KEY_NAME_LENGTH_MAX: Final = 2048


class WrappedKey(msgspec.Struct, array_like=True, frozen=True):
    """A data key: its number, the name of the master key, and its bytes under that."""

    number: int
    master: str
    wrapped: bytes
    created_ms: int = 0


class KeyRing(msgspec.Struct, array_like=True, frozen=True):
    """The data keys of one topic or queue. `master` is empty if what is sent now is not sealed."""

    topic_id: bytes
    topic: str
    master: str
    keys: list[WrappedKey]
    next_number: int = 1
    reuse_ms: int = 300_000

    def find(self, number: int) -> WrappedKey | None:
        """The key of this number; None if there is none, or none any more."""
        for key in reversed(self.keys):
            if key.number == number:
                return key
        return None


_decoder: Final = msgspec.msgpack.Decoder(tuple[int, list[WrappedKey]])


def encode_keys(next_number: int, keys: list[WrappedKey]) -> str:
    """The configuration value: the number of the next key, and the keys in the order of their numbers."""
    return base64.b64encode(msgspec.msgpack.encode((next_number, keys))).decode()


def decode_keys(text: str) -> tuple[int, list[WrappedKey]]:
    """Read the configuration value. ValueError if it is none."""
    if not text:
        return 1, []
    try:
        return _decoder.decode(base64.b64decode(text, validate=True))
    except (binascii.Error, msgspec.DecodeError) as error:
        raise ValueError(f"is not a list of wrapped keys: {error}") from None
