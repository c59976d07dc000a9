"""The embedded protocol of classic consumers: what they subscribe to, and what they are assigned, in bytes.

    subscription   | version i16 | topics | user data | 1+: owned partitions | 2+: generation i32 | 3+: rack |
    assignment     | version i16 | partitions by topic | user data |

The beginning is the same in all versions, and newer versions only add fields at the end. Strings have a length of two
bytes, arrays and bytes one of four; -1 is null.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple, final

TopicPartitions = dict[str, tuple[int, ...]]


class ConsumerSubscription(NamedTuple):
    """A consumer's subscription."""

    topics: tuple[str, ...]
    owned: TopicPartitions
    rack: str | None


@final
class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def integer(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big", signed=True)

    def text(self) -> str | None:
        length = self.integer(2)
        return None if length < 0 else self._take(length).decode()

    def skip_bytes(self) -> None:
        self._take(max(0, self.integer(4)))

    def count(self) -> int:
        return max(0, self.integer(4))

    def partitions(self) -> TopicPartitions:
        found: TopicPartitions = {}
        for _ in range(self.count()):
            topic = self.text() or ""
            found[topic] = tuple(self.integer(4) for _ in range(self.count()))
        return found

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError("the embedded consumer protocol ends too early")
        self._at += size
        return taken


def parse_subscription(data: bytes) -> ConsumerSubscription:
    """Raises ValueError if this is not a consumer's subscription."""
    reader = _Reader(data)
    version = reader.integer(2)
    topics = tuple(reader.text() or "" for _ in range(reader.count()))
    reader.skip_bytes()
    owned = reader.partitions() if version >= 1 else {}
    if version >= 2:
        reader.integer(4)
    return ConsumerSubscription(topics, owned, reader.text() if version >= 3 else None)


def parse_assignment(data: bytes) -> TopicPartitions:
    """Raises ValueError if this is not a consumer's assignment; nothing is an empty one."""
    if not data:
        return {}
    reader = _Reader(data)
    reader.integer(2)
    return reader.partitions()


def encode_assignment(version: int, partitions: Mapping[str, tuple[int, ...]]) -> bytes:
    """An assignment in this version of the embedded protocol."""
    parts = [struct.pack(">hi", version, len(partitions))]
    for topic, numbers in partitions.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    parts.append(struct.pack(">i", -1))
    return b"".join(parts)
