"""A catalogue with one ring of data keys, and providers that count, for tests of sealing without a node."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable
from typing import Any

from longhall.broker.seal_keys import KeyRing, WrappedKey
from longhall.errors import Code, LonghallError
from longhall.front.keys.master_keys import MasterKeys, read_keys
from longhall.front.sealing.data_keys import DataKeys
from longhall.service.seal_operations import AddDataKey, DestroyDataKey, ReadKeyRing, RewrapDataKey

KEYS = """
managed = "house"
[providers.disk]
kind = "file"
path = "masters"
[keys]
house = { provider = "disk" }
other = { provider = "disk" }
"""


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def wall_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def monotonic_us(self) -> int:
        return self.ms * 1000


class Catalogue:
    """Rings by topic, with the rule of the broker: of two additions of one number the first wins."""

    def __init__(self, *topics: str, master: str = "house", reuse_ms: int = 300_000) -> None:
        self.rings = {
            name: KeyRing(name.encode().ljust(16, b"."), name, master, [], 1, reuse_ms) for name in topics or ("q",)
        }
        self.reads = 0
        self.clock = Clock()

    def call(self, operation: Any, /) -> Awaitable[Any]:
        return self._carry_out(operation)

    async def _carry_out(self, operation: Any) -> KeyRing:
        if isinstance(operation, ReadKeyRing):
            self.reads += 1
            found = [
                ring
                for ring in self.rings.values()
                if ring.topic == operation.name or ring.topic_id == operation.topic_id
            ]
            if not found:
                raise LonghallError(Code.UNKNOWN_TOPIC)
            return found[0]
        [ring] = [ring for ring in self.rings.values() if ring.topic_id == operation.topic_id]
        keys, following = list(ring.keys), ring.next_number
        if isinstance(operation, AddDataKey):
            if operation.key.number == following:
                keys.append(operation.key)
                following += 1
        elif isinstance(operation, RewrapDataKey):
            keys = [operation.key if key.number == operation.key.number else key for key in keys]
        elif isinstance(operation, DestroyDataKey):
            keys = [key for key in keys if key.number != operation.number]
        changed = KeyRing(ring.topic_id, ring.topic, ring.master, keys, following, ring.reuse_ms)
        self.rings[ring.topic] = changed
        return changed

    def set_master(self, name: str, master: str) -> None:
        ring = self.rings[name]
        self.rings[name] = KeyRing(ring.topic_id, name, master, ring.keys, ring.next_number, ring.reuse_ms)


class CountingMasters:
    """The text of the file of master keys, which a test may change, and how often it was read."""

    def __init__(self) -> None:
        self.text = f"house = {secrets.token_hex(32)}\nother = {secrets.token_hex(32)}\n"

    def read(self, path: str) -> str:
        return self.text


def data_keys(catalogue: Catalogue, masters: CountingMasters) -> DataKeys:
    """The data keys of one process."""
    known = MasterKeys(
        read_keys(KEYS), masters.read, lambda: catalogue.clock.ms / 1000, lambda: "", secrets.token_bytes
    )
    return DataKeys(known, catalogue.call, catalogue.clock)


__all__ = ["Catalogue", "CountingMasters", "WrappedKey", "data_keys"]
