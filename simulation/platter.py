"""The contents of a disk: for each file the stable bytes and the writes that are not durable yet, and the same for
names.

A power cut keeps a part of what was not synced; the seed chooses which. The rules are the harshest that a file system
may have:

- A file's sectors of 512 bytes survive independently: each has its state after some number of the pending writes.
- The file's size is the size after some number of them; a lost sector reads as before, or as zeros.
- A name that was created, renamed or removed is durable after a sync of its directory, and not before. What is under a
  directory whose own name was lost is lost with it. A rename happens wholly or not at all.
- A failed sync forgets what it was to write: part of it is on the medium, and no later sync writes the rest.

A disk with lost or misdirected writes is worse: the write was synced, and reads return it until the page cache is
evicted.

Log files are allocated long before they are filled. A file knows how far bytes were ever written, so that copies of it
neither read nor touch the zeros behind: those of a fresh bytearray cost no memory until something is written there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final, final

SECTOR_BYTES: Final = 512

_Change = tuple[int, bytes | None]


@final
class Inode:
    """One file, by whatever names. `content` is what processes see; `stable` is the least that a power cut leaves."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.stable = bytearray(content)
        self.reserved = 0  # Allocated up to here; counts as used space.
        self._pending: list[_Change] = []  # (position, bytes written), or (size, None): truncated.
        self._durable_changes = 0  # Number of durable changes, which precede the pending ones.
        self._filled = len(content)  # All bytes behind this are zeros, in the content and on the medium.

    def write(self, position: int, data: bytes) -> None:
        _write(self.content, position, data)
        self._filled = max(self._filled, position + len(data))
        self._pending.append((position, data))

    def truncate(self, size: int) -> None:
        self.content = _truncated(self.content, size)
        self._pending.append((size, None))

    def flip(self, position: int, mask: int) -> None:
        """Flip bits on the medium, without a write."""
        self.content[position] ^= mask
        self._filled = max(self._filled, position + 1)
        if position < len(self.stable):
            self.stable[position] ^= mask

    def lose(self, position: int, data: bytes) -> None:
        """Record a write that is in the page cache and never reaches the medium, although syncs succeed.

        The file has the right size; the medium has the earlier bytes there, or zeros.
        """
        grows = position + len(data) > len(self.content)
        _write(self.content, position, data)
        self._filled = max(self._filled, position + len(data))
        if grows:
            self._pending.append((position + len(data), None))

    def strike(self, position: int, data: bytes) -> None:
        """Overwrite bytes on the medium with a write that was meant for another place; the page cache is unchanged."""
        end = min(position + len(data), len(self.stable))
        if position < end:
            self.stable[position:end] = data[: end - position]
            self._filled = max(self._filled, end)

    def evict(self) -> None:
        """Evict the page cache: readers now see the medium, and pending writes."""
        self.content = _applied(_copy(self.stable, self._filled), self._pending)

    @property
    def used(self) -> int:
        return max(len(self.content), self.reserved)

    @property
    def changes(self) -> int:
        """The number of changes of the file: a sync that starts now covers so many."""
        return self._durable_changes + len(self._pending)

    def harden(self, changes: int) -> None:
        """Make everything up to this change durable."""
        self.stable = _applied(self.stable, self._covered(changes))
        self._drop(changes)

    def forget(self, changes: int, chance: random.Random) -> None:
        """Fail a sync up to this change: part of it reaches the medium, and the rest is never written."""
        self.stable = _torn(self.stable, self._filled, self._covered(changes), chance)
        self._drop(changes)

    def survivor(self, chance: random.Random) -> Inode:
        """The file after a power cut."""
        survivor = Inode()
        survivor.content = _torn(self.stable, self._filled, self._pending, chance)
        survivor.stable = _copy(survivor.content, self._filled)
        survivor._filled = self._filled
        return survivor

    def empty(self) -> None:
        """Remove all bytes."""
        self.content, self.stable, self._pending = bytearray(), bytearray(), []

    def _covered(self, changes: int) -> list[_Change]:
        return self._pending[: max(0, changes - self._durable_changes)]

    def _drop(self, changes: int) -> None:
        dropped = len(self._covered(changes))
        del self._pending[:dropped]
        self._durable_changes += dropped


@final
class Directory:
    """The names in a directory, as processes see them and as a power cut would leave them."""

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        self.stable: dict[str, Inode | Directory] = {}


@final
class NameChange:
    """One atomic change of names, in one directory or, for a rename, in two."""

    def __init__(self, steps: list[tuple[Directory, str, Inode | Directory | None]]) -> None:
        self.steps = steps

    def apply(self) -> None:
        for directory, name, node in self.steps:
            _name(directory.entries, name, node)

    def harden(self) -> None:
        for directory, name, node in self.steps:
            _name(directory.stable, name, node)


@final
class Platter:
    """A tree of directories and files, with everything that is not durable yet."""

    def __init__(self) -> None:
        self.root = Directory()
        self._pending: list[NameChange] = []

    def change(self, steps: list[tuple[Directory, str, Inode | Directory | None]]) -> None:
        change = NameChange(steps)
        change.apply()
        self._pending.append(change)

    def harden_names(self, directory: Directory) -> None:
        rest = []
        for change in self._pending:
            if any(step[0] is directory for step in change.steps):
                change.harden()
            else:
                rest.append(change)
        self._pending = rest

    def inodes(self) -> Iterable[tuple[str, Inode]]:
        """All files with a name, sorted by path."""
        return _walk(self.root, "")

    def used(self) -> int:
        return sum(inode.used for _, inode in self.inodes())

    def evict(self) -> None:
        """Evict the page cache of every file."""
        for _, inode in self.inodes():
            inode.evict()

    def copy(self) -> Platter:
        """A durable copy of everything as processes see it, as `cp -a` or a snapshot of the volume makes it."""
        platter = Platter()
        platter.root = _copied(self.root)
        return platter

    def survivor(self, chance: random.Random) -> Platter:
        """The platter after a power cut. It shares nothing with the old one: files that were open write to the old
        one.
        """
        for change in self._pending:
            if chance.random() < 0.5:
                change.harden()
        platter = Platter()
        platter.root = _survivor(self.root, chance, {})
        # No process reads it any more, though files of dead processes still refer to it.
        for _, inode in self.inodes():
            inode.empty()
        return platter


def _torn(stable: bytearray, filled: int, pending: list[_Change], chance: random.Random) -> bytearray:
    """A part of the pending changes on top of the stable bytes. Nothing and everything are likely choices."""
    kind = chance.randrange(5)
    if kind == 0 or not pending:
        return _copy(stable, filled)
    if kind >= 3:
        return _mixed(stable, filled, pending, chance)
    return _applied(_copy(stable, filled), pending if kind == 1 else pending[: chance.randrange(len(pending) + 1)])


def _mixed(stable: bytearray, filled: int, pending: list[_Change], chance: random.Random) -> bytearray:
    """Each sector in its state after a number of changes of its own."""
    due: dict[int, list[int]] = {}
    for sector in sorted(_touched(stable, pending)):
        kept = chance.randrange(len(pending) + 1)
        if kept and sector * SECTOR_BYTES < filled:  # Sectors behind are zeros in any state.
            due.setdefault(kept, []).append(sector)
    size_after = chance.randrange(len(pending) + 1)
    state = _copy(stable, filled)
    result = _copy(stable, filled)
    size = len(state)
    for number, change in enumerate(pending, 1):
        state = _applied(state, [change])
        if number == size_after:
            size = len(state)
        for sector in due.get(number, ()):
            start = sector * SECTOR_BYTES
            part = bytes(state[start : start + SECTOR_BYTES]).ljust(SECTOR_BYTES, b"\0")
            _write(result, start, part)
    return _truncated(result, size)


def _survivor(directory: Directory, chance: random.Random, seen: dict[int, Inode]) -> Directory:
    result = Directory()
    for name in sorted(directory.stable):
        node = directory.stable[name]
        if isinstance(node, Directory):
            result.entries[name] = _survivor(node, chance, seen)
        else:  # After half of a non-atomic rename one file may have two names.
            if id(node) not in seen:
                seen[id(node)] = node.survivor(chance)
            result.entries[name] = seen[id(node)]
    result.stable = dict(result.entries)
    return result


def _copied(directory: Directory) -> Directory:
    result = Directory()
    for name, node in sorted(directory.entries.items()):
        result.entries[name] = _copied(node) if isinstance(node, Directory) else Inode(bytes(node.content))
    result.stable = dict(result.entries)
    return result


def _walk(directory: Directory, prefix: str) -> Iterable[tuple[str, Inode]]:
    for name in sorted(directory.entries):
        node = directory.entries[name]
        if isinstance(node, Directory):
            yield from _walk(node, f"{prefix}{name}/")
        else:
            yield prefix + name, node


def _name(names: dict[str, Inode | Directory], name: str, node: Inode | Directory | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _touched(stable: bytearray, pending: list[_Change]) -> set[int]:
    sectors: set[int] = set()
    end = len(stable)
    for position, data in pending:
        if data is None:
            first, last = min(position, end), max(position, end)
            end = position
        else:
            first, last = position, position + len(data)
            end = max(end, last)
        if last > first:
            sectors.update(range(first // SECTOR_BYTES, (last - 1) // SECTOR_BYTES + 1))
    return sectors


def _copy(content: bytearray, filled: int) -> bytearray:
    """A copy of bytes that are zeros from a position on."""
    copy = bytearray(len(content))
    end = min(filled, len(content))
    copy[:end] = memoryview(content)[:end]
    return copy


def _applied(content: bytearray, changes: Iterable[_Change]) -> bytearray:
    """The bytes after some changes: the same object, or another one if a change made it longer."""
    for position, data in changes:
        if data is None:
            content = _truncated(content, position)
        else:
            _write(content, position, data)
    return content


def _write(content: bytearray, position: int, data: bytes) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _truncated(content: bytearray, size: int) -> bytearray:
    """The bytes cut off at a size, in place, or a longer object with zeros at its end."""
    if size <= len(content):
        del content[size:]
        return content
    longer = bytearray(size)
    longer[: len(content)] = content
    return longer
