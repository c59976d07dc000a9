"""The messages that were damaged, by host: readers may be refused those of which every copy was damaged, and no
others.
"""

from __future__ import annotations

from typing import Final, cast, final

from longhall.log.layout import base_offset_of
from longhall.log.segment_scan import Damage, Found, scan_segment
from longhall.world.ports import File

BEHIND_ALL: Final = 1000  # More offsets than any segment's end has, for damage where the number of messages is unknown.


@final
class DamagedMessages:
    """Records each flipped bit as the host, file and offsets that it damages."""

    def __init__(self) -> None:
        self._hosts: dict[tuple[str, int], set[str]] = {}  # By path and offset.

    def note(self, host: str, path: str, content: bytes, position: int) -> None:
        """A bit of this segment is about to flip."""
        for one in scan_segment(cast(File, _Content(content)), base_offset_of(path), len(content)):
            size = len(one.batch) if isinstance(one, Found) else one.size_bytes
            if one.position <= position < one.position + size:
                for offset in _offsets(one):
                    self._hosts.setdefault((path, offset), set()).add(host)

    def lost(self, copies: int) -> set[int]:
        """Offsets, of any partition, that at least so many hosts have had damaged."""
        return {offset for (_, offset), hosts in self._hosts.items() if len(hosts) >= copies}


def _offsets(one: Found | Damage) -> range:
    if isinstance(one, Found):
        return range(one.header.base_offset, one.header.next_offset)
    behind = one.next_offset_hint
    return range(one.first_offset, behind if behind >= 0 else one.first_offset + BEHIND_ALL)


@final
class _Content:
    """The bytes of a file, as a segment scan reads them."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read_at(self, position: int, size: int) -> bytes:
        return self._content[position : position + size]
