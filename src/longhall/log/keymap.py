"""A map from key to last offset for a bounded number of keys in a fixed amount of memory.

A hash table with open addressing: sixteen bytes of the key's hash and eight for the offset. A million keys take 24 to
48 MB, whatever their length. Two keys with the same hash would count as one; with 128 bits that does not happen.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final, final

DIGEST_BYTES: Final = 16
SLOT_BYTES: Final = DIGEST_BYTES + 8
_SLOTS_MIN: Final = 1024


@final
class KeyMap:
    """A table for `keys_wanted` keys, or as many as `memory_bytes_max` allows; at most three quarters are filled."""

    def __init__(self, keys_wanted: int, memory_bytes_max: int) -> None:
        slots = _SLOTS_MIN
        while slots * 3 // 4 < keys_wanted and slots * 2 * SLOT_BYTES <= memory_bytes_max:
            slots *= 2
        self.keys_max = slots * 3 // 4
        self._mask = slots - 1
        self._digests = bytearray(slots * DIGEST_BYTES)
        self._offsets: array[int] = array("q", bytes(slots * 8))  # The offset plus one; 0 is an empty slot.
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, key: bytes, offset: int) -> bool:
        """Set the last offset of `key`; False if the table has no room for another key."""
        digest = blake2b(key, digest_size=DIGEST_BYTES).digest()
        slot = self._slot(digest)
        if self._offsets[slot] == 0:
            if self._count >= self.keys_max:
                return False
            self._count += 1
            self._digests[slot * DIGEST_BYTES : (slot + 1) * DIGEST_BYTES] = digest
        self._offsets[slot] = offset + 1
        return True

    def last_offset(self, key: bytes) -> int:
        """The last offset of `key`, or -1."""
        return self._offsets[self._slot(blake2b(key, digest_size=DIGEST_BYTES).digest())] - 1

    def _slot(self, digest: bytes) -> int:
        """The slot of this hash, or the empty slot for it."""
        slot = int.from_bytes(digest[:8], "little") & self._mask
        while self._offsets[slot] != 0:
            at = slot * DIGEST_BYTES
            if self._digests[at : at + DIGEST_BYTES] == digest:
                break
            slot = (slot + 1) & self._mask
        return slot
