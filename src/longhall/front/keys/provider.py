"""What a key provider does: it makes data keys, and unwraps and rewraps them under a master key that never leaves it.

A `context` (topic id and key number) is authenticated with every wrapped key, so that a wrapped key of one topic cannot
be passed off as that of another. A refusal is a `LonghallError` with one of the codes KEY_*; KEY_UNAVAILABLE
means that the provider gave no answer, and that a later try may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from longhall.errors import Code, LonghallError

DATA_KEY_BYTES: Final = 32
WRAPPED_BYTES_MAX: Final = 8192  # A wrapped data key is stored in the catalogue.

KeyContext = Mapping[str, str]


class DataKey(NamedTuple):
    """A data key, in clear for this process and wrapped for the catalogue."""

    clear: bytes
    wrapped: bytes


class KeyProvider(Protocol):
    """A service, a program or a file that has master keys, each with an id of its own."""

    async def generate(self, key_id: str, context: KeyContext) -> DataKey:
        """A new data key of 32 bytes, wrapped under a master key."""

    async def unwrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        """The data key in clear."""

    async def rewrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        """The same data key under the newest version of a master key."""


def checked(data_key: DataKey) -> DataKey:
    """A data key as it has to be; KEY_INVALID_STATE for what a provider returned otherwise."""
    if len(data_key.clear) != DATA_KEY_BYTES:
        raise LonghallError(Code.KEY_INVALID_STATE, f"the key provider gave a data key of {len(data_key.clear)} bytes")
    if not 0 < len(data_key.wrapped) <= WRAPPED_BYTES_MAX:
        raise LonghallError(Code.KEY_INVALID_STATE, "the key provider gave a wrapped key that is empty or too large")
    return data_key


def unknown_key(key_id: str) -> LonghallError:
    """No provider has this master key."""
    return LonghallError(Code.KEY_UNKNOWN, f"there is no master key '{key_id[:200]}'")
