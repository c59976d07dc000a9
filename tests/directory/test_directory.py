"""The directory as a state machine: bounds, snapshots, and what followers are told."""

from __future__ import annotations

import pytest

from longhall.directory.accounts import DEFAULT_TENANT, Tenant, User, entry_of
from longhall.directory.directory import ENTRY_BYTES_MAX, RECENT_MAX, Directory, DirectoryObserver
from longhall.directory.events import DirectoryChanged, DirectoryEntry
from longhall.errors import LonghallError


def _put(directory: Directory, *entries: DirectoryEntry, removed: tuple[tuple[str, str], ...] = ()) -> None:
    event = directory.decide_change(entries, removed)
    assert event is not None
    directory.apply(event)


def test_an_entry_is_found_by_kind_and_name_until_it_is_removed() -> None:
    directory = Directory()
    _put(directory, entry_of("alice", User(DEFAULT_TENANT)), DirectoryEntry("rule", "alice", b"x"))
    assert directory.accounts.active_user("alice") == User(DEFAULT_TENANT)
    assert directory.entries_of("rule") == {"alice": b"x"}
    assert directory.decide_change([DirectoryEntry("rule", "alice", b"x")], [("rule", "nobody")]) is None
    _put(directory, removed=(("user", "alice"),))
    assert directory.accounts.active_user("alice") is None
    assert len(directory) == 1


def test_a_user_of_a_disabled_or_missing_tenant_is_not_active() -> None:
    directory = Directory()
    _put(directory, entry_of("alice", User("acme")))
    assert directory.accounts.active_user("alice") is None
    _put(directory, entry_of("acme", Tenant()))
    assert directory.accounts.active_user("alice") is not None
    _put(directory, entry_of("acme", Tenant(enabled=False)))
    assert directory.accounts.active_user("alice") is None


def test_a_snapshot_restores_everything_and_the_version() -> None:
    directory = Directory()
    _put(directory, entry_of("alice", User(DEFAULT_TENANT)))
    _put(directory, DirectoryEntry("rule", "r", b"1"))
    copy = Directory()
    copy.restore(directory.snapshot())
    assert (copy.rows(), copy.version) == (directory.rows(), 2)
    assert copy.accounts.users == directory.accounts.users


def test_a_follower_gets_what_has_changed_or_everything() -> None:
    leader, follower = Directory(), Directory(known=False)
    _put(leader, DirectoryEntry("rule", "a", b"1"), DirectoryEntry("rule", "b", b"1"))
    assert leader.changes_since(-1) is None
    follower.replace(leader.version, leader.rows())
    assert follower.known
    _put(leader, DirectoryEntry("rule", "a", b"2"), removed=(("rule", "b"),))
    changes = leader.changes_since(follower.version)
    assert changes is not None
    assert changes.removed == [("rule", "b")]
    follower.follow(leader.version, changes)
    assert (follower.rows(), follower.version) == (leader.rows(), leader.version)
    for number in range(RECENT_MAX + 1):
        _put(leader, DirectoryEntry("rule", "c", b"%d" % number))
    assert leader.changes_since(follower.version) is None
    assert leader.changes_since(leader.version + 1) is None, "another history"


def test_what_is_too_large_is_refused() -> None:
    directory = Directory()
    with pytest.raises(LonghallError, match="at most"):
        directory.decide_change([DirectoryEntry("rule", "a", bytes(ENTRY_BYTES_MAX))])
    with pytest.raises(LonghallError, match="a name"):
        directory.decide_change([DirectoryEntry("rule", "", b"")])


def test_an_entry_that_cannot_be_decoded_opens_no_door() -> None:
    directory = Directory()
    _put(directory, entry_of("alice", User(DEFAULT_TENANT)))
    _put(directory, DirectoryEntry("user", "alice", b"\xc1"))
    assert directory.accounts.active_user("alice") is None
    assert directory.entries_of("user") == {"alice": b"\xc1"}


def test_observers_are_told_when_a_copy_is_known_though_it_is_empty() -> None:
    directory = Directory(known=False)
    told: list[bool] = []

    class Observer(DirectoryObserver):
        def directory_changed(self, event: DirectoryChanged) -> None:
            told.append(directory.known)

    directory.observers.append(Observer())
    directory.known = True
    directory.known = True
    assert told == [True]
