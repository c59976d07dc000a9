"""What the handwritten codecs of Produce and Fetch have in common: partitions that stand below their topics.

    topics: (name string | id (13+), parts: (...))

In memory every part names its topic, so that a request is one flat list.
"""

from __future__ import annotations

from typing import Final, TypeVar

from longhall.doors.kafka.wire.reader import Reader
from longhall.doors.kafka.wire.writer import write_count, write_text

TOPIC_IDS_FROM: Final = 13


class TopicPart:
    """One partition of a request or of a response. A subclass sets these fields, so that no second call is needed."""

    topic: str  # Empty from version 13 on.
    topic_id: bytes  # Empty before version 13.
    partition: int


P = TypeVar("P", bound=TopicPart)


def read_topic(reader: Reader, version: int, flexible: bool) -> tuple[str, bytes]:
    """The name and the id of a topic, one of which is empty."""
    if version >= TOPIC_IDS_FROM:
        return "", reader.slice(16)
    return reader.text(reader.string_size(flexible)), b""


def write_topic(out: bytearray, part: TopicPart, count: int, version: int, flexible: bool) -> None:
    """The topic of this part, and how many parts follow."""
    if version >= TOPIC_IDS_FROM:
        out += part.topic_id
    else:
        write_text(out, part.topic, flexible)
    write_count(out, count, flexible)


def by_topic(parts: list[P]) -> list[list[P]]:
    """Neighbouring parts of one topic together."""
    groups: list[list[P]] = []
    last: P | None = None
    for part in parts:
        if last is not None and last.topic == part.topic and last.topic_id == part.topic_id:
            groups[-1].append(part)
        else:
            groups.append([part])
        last = part
    return groups
