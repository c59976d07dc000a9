"""Master keys in a file: the simplest provider, for one machine or for a secret that an orchestrator mounts.

    # NAME = 64 hexadecimal digits; of several lines with one name the first wraps, and all unwrap
    orders = 6f0c...

The file is read when a key is needed, at most once a second, so a key that is added, rotated or removed takes effect
without a restart. Other users must not be able to read it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, final

from longhall.errors import Code, LonghallError
from longhall.front.keys.local_wrapping import Randomness, generate_with, unwrap_with, wrap_with
from longhall.front.keys.provider import DATA_KEY_BYTES, DataKey, KeyContext, unknown_key

READ_AGAIN_S: Final = 1.0
KEYS_MAX: Final = 10_000

_LINE: Final = re.compile(r"\s*([A-Za-z0-9_.:/@-]{1,2048})\s*=\s*([0-9A-Fa-f]{64})\s*")


@final
class KeyFile:
    """The provider over one file."""

    def __init__(self, read: Callable[[], str], now_s: Callable[[], float], randomness: Randomness) -> None:
        """`read` gives the text of the file. Raises LonghallError if the file cannot be used now."""
        self._read = read
        self._now_s = now_s
        self._randomness = randomness
        self._masters = parse_key_file(read())
        self._read_s = now_s()

    async def generate(self, key_id: str, context: KeyContext) -> DataKey:
        return generate_with(self._versions(key_id)[0], context, self._randomness)

    async def unwrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        return unwrap_with(self._versions(key_id), wrapped, context)

    async def rewrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        masters = self._versions(key_id)
        return wrap_with(masters[0], unwrap_with(masters, wrapped, context), context, self._randomness)

    def _versions(self, key_id: str) -> list[bytes]:
        if self._now_s() - self._read_s >= READ_AGAIN_S:
            self._read_s = self._now_s()
            try:
                self._masters = parse_key_file(self._read())
            except LonghallError as error:
                raise LonghallError(Code.KEY_UNAVAILABLE, str(error)) from None
        masters = self._masters.get(key_id)
        if masters is None:
            raise unknown_key(key_id)
        return masters


def parse_key_file(text: str) -> dict[str, list[bytes]]:
    """The versions of each key. INVALID_CONFIGURATION names the line at fault, and nothing of its contents."""
    masters: dict[str, list[bytes]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise LonghallError(
                Code.INVALID_CONFIGURATION,
                f"master keys: line {number} is not NAME = {2 * DATA_KEY_BYTES} hexadecimal digits",
            )
        masters.setdefault(found[1], []).append(bytes.fromhex(found[2]))
        if len(masters) > KEYS_MAX:
            raise LonghallError(Code.INVALID_CONFIGURATION, f"master keys: a file has at most {KEYS_MAX} keys")
    return masters
