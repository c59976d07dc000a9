"""The state of the directory: entries by kind and name, the same on every replica, read from memory.

decide_change() reads and returns an event or a refusal; apply() alone mutates. The directory is a generic store: a
kind is owned by one module, which defines the structure of its values. Kinds of this room are in `accounts`; another
owner (for example of access rules) adds a kind of its own and changes it with the operation `ChangeDirectory`:

    kind            name                      value                       owner
    tenant          tenant                    accounts.Tenant             service/accounts.py
    user            user                      accounts.User               service/accounts.py
    access-key      access key id             accounts.AccessKey          service/accounts.py
    token           SHA-256 in hexadecimal    accounts.Token              service/accounts.py
    ended-session   session id in hex.        its end in ms, as text      service/accounts.py
    anything else   any text                  bytes, usually MessagePack  the room that uses it

A process reads `entries_of(kind)` and is told of changes through `observers`, with the event. Processes that do not
have the log of the main hall copy the directory from its leader (`node/directory_follower.py`) into an object of the
same class, so readers need not know the difference. `known` is False in such a process until the first copy is there.

`version` counts changes and follows from the events alone: it is the same on all replicas, and followers use it to
ask for what has changed. This module does not know secrets, clocks, or who may change what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, final

from mypy_extensions import mypyc_attr

from longhall.directory.accounts import Accounts
from longhall.directory.events import DirectoryChanged, DirectoryEntry
from longhall.errors import Code, LonghallError

ENTRIES_MAX: Final = 50_000
ENTRY_BYTES_MAX: Final = 64 * 1024  # Kind, name and value of one entry.
DIRECTORY_BYTES_MAX: Final = 16 * 1024 * 1024  # All entries.
CHANGES_MAX: Final = 1_000  # Entries of one event,
CHANGE_BYTES_MAX: Final = 512 * 1024  # and their bytes.
NAME_CHARACTERS_MAX: Final = 1_024
RECENT_MAX: Final = 10_000  # Changes that are remembered for followers; others copy everything.

Key = tuple[str, str]


@mypyc_attr(allow_interpreted_subclasses=True)
class DirectoryObserver:
    """A collaborator that reacts to changes of the directory, now and during recovery."""

    def directory_changed(self, event: DirectoryChanged) -> None:
        """These entries have changed."""
        raise NotImplementedError


@final
class Directory:
    """All entries, with the accounts decoded."""

    def __init__(self, known: bool = True) -> None:
        self.version = 0
        self._known = known
        self.accounts = Accounts()
        self.observers: list[DirectoryObserver] = []
        self._entries: dict[str, dict[str, bytes]] = {}  # By kind and name.
        self._count = 0
        self._bytes = 0
        self._recent: deque[tuple[int, str, str]] = deque(maxlen=RECENT_MAX)  # With the version of the change.

    @property
    def known(self) -> bool:
        """False in a process that has not copied the directory yet."""
        return self._known

    @known.setter
    def known(self, known: bool) -> None:
        """Call the observers: they may act on the fact that there are no users."""
        if known != self._known:
            self._known = known
            for observer in self.observers:
                observer.directory_changed(DirectoryChanged(put=[], removed=[]))

    def __len__(self) -> int:
        return self._count

    def entries_of(self, kind: str) -> Mapping[str, bytes]:
        """The values of one kind, by name."""
        return self._entries.get(kind, {})

    def rows(self) -> list[DirectoryEntry]:
        """All entries, in an order that does not depend on their history."""
        return [
            DirectoryEntry(kind, name, value)
            for kind, entries in sorted(self._entries.items())
            for name, value in sorted(entries.items())
        ]

    # Deciding

    def decide_change(self, put: Sequence[DirectoryEntry], removed: Sequence[Key] = ()) -> DirectoryChanged | None:
        """None if nothing would change. LonghallError for what is out of bounds."""
        changed = [one for one in put if self.entries_of(one.kind).get(one.name) != one.value]
        gone = [(kind, name) for kind, name in removed if name in self.entries_of(kind)]
        if not changed and not gone:
            return None
        self._check(changed, gone)
        return DirectoryChanged(put=changed, removed=gone)

    def _check(self, put: Sequence[DirectoryEntry], removed: Sequence[Key]) -> None:
        sizes = [_size(one.kind, one.name, one.value) for one in put]
        for one, size in zip(put, sizes, strict=True):
            if not one.kind or not 0 < len(one.name) <= NAME_CHARACTERS_MAX:
                raise _refused(
                    f"an entry of the directory has a kind, and a name of 1 to {NAME_CHARACTERS_MAX} characters"
                )
            if size > ENTRY_BYTES_MAX:
                raise _refused(f"an entry of the directory has at most {ENTRY_BYTES_MAX} bytes")
        if len(put) + len(removed) > CHANGES_MAX or sum(sizes) > CHANGE_BYTES_MAX:
            raise _refused(f"one change has at most {CHANGES_MAX} entries and {CHANGE_BYTES_MAX} bytes")
        new = sum(one.name not in self.entries_of(one.kind) for one in put)
        if new and (self._count + new > ENTRIES_MAX or self._bytes + sum(sizes) > DIRECTORY_BYTES_MAX):
            raise LonghallError(
                Code.OVERLOADED,
                f"the directory is full: it has at most {ENTRIES_MAX} entries and {DIRECTORY_BYTES_MAX} bytes",
            )

    # Applying

    def apply(self, event: DirectoryChanged) -> None:
        """Apply an event: the only way in which a directory with a log changes."""
        self.version += 1
        for kind, name in event.removed:
            self._remove(kind, name)
        for one in event.put:
            self._put(one)
        for observer in self.observers:
            observer.directory_changed(event)

    def _put(self, one: DirectoryEntry) -> None:
        entries = self._entries.setdefault(one.kind, {})
        before = entries.get(one.name)
        self._count += before is None
        self._bytes += _size(one.kind, one.name, one.value)
        if before is not None:
            self._bytes -= _size(one.kind, one.name, before)
        entries[one.name] = one.value
        self.accounts.put(one)
        self._recent.append((self.version, one.kind, one.name))

    def _remove(self, kind: str, name: str) -> None:
        before = self._entries.get(kind, {}).pop(name, None)
        if before is not None:
            self._count -= 1
            self._bytes -= _size(kind, name, before)
            self.accounts.remove(kind, name)
        self._recent.append((self.version, kind, name))

    # Copies of processes without the log

    def changes_since(self, version: int) -> DirectoryChanged | None:
        """What has changed since a version, as one event; None if only a copy of everything tells."""
        oldest = self._recent[0][0] if self._recent else self.version + 1
        if version > self.version or (version < self.version and (oldest > version + 1 or self._is_cut(version))):
            return None
        keys = {(kind, name) for at, kind, name in self._recent if at > version}
        put = [
            DirectoryEntry(kind, name, value)
            for kind, name in sorted(keys)
            if (value := self.entries_of(kind).get(name)) is not None
        ]
        removed = [(kind, name) for kind, name in sorted(keys) if name not in self.entries_of(kind)]
        return DirectoryChanged(put=put, removed=removed)

    def _is_cut(self, version: int) -> bool:
        """True if a part of the first change after a version may have been forgotten."""
        return len(self._recent) == RECENT_MAX and self._recent[0][0] == version + 1

    def follow(self, version: int, event: DirectoryChanged) -> None:
        """Take changes of the leader's directory, in a process without the log."""
        self.version = version - 1
        self._known = True
        self.apply(event)

    def replace(self, version: int, entries: Iterable[DirectoryEntry]) -> None:
        """Take a copy of the leader's directory, in a process without the log."""
        wanted = {(one.kind, one.name): one for one in entries}
        put = [one for one in wanted.values() if self.entries_of(one.kind).get(one.name) != one.value]
        removed = [(one.kind, one.name) for one in self.rows() if (one.kind, one.name) not in wanted]
        self._recent.clear()
        self.follow(version, DirectoryChanged(put=put, removed=removed))

    # Snapshots

    def snapshot(self) -> list[Any]:
        """For `restore`."""
        return [self.version, [[one.kind, one.name, one.value] for one in self.rows()]]

    def restore(self, state: Sequence[Any]) -> None:
        """Take the state of a `snapshot`."""
        version, rows = state
        self.replace(version, [DirectoryEntry(kind, name, value) for kind, name, value in rows])


def _size(kind: str, name: str, value: bytes) -> int:
    return len(kind.encode()) + len(name.encode()) + len(value)


def _refused(text: str) -> LonghallError:
    return LonghallError(Code.INVALID_REQUEST, text)
