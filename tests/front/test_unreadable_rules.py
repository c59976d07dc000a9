"""Access rules that a newer version wrote: one that denies is not lost, whatever else it says."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from longhall.cluster.rpc.operation import Caller
from longhall.console.access_families import access_families
from longhall.directory.access_rules import RULE_KIND, AccessAction, AccessRule, Kind, encode_rule
from longhall.directory.directory import Directory
from longhall.directory.events import DirectoryChanged, DirectoryEntry
from longhall.front.guard import AccessGuard
from longhall.front.identity import ADMINISTRATOR_KIND, USER_KIND
from longhall.service.access_operations import ChangeAccess

NEWER: dict[str, Any] = {"subject": "user:ann", "action": "teleport", "kind": "topic", "name": "t", "allow": False}


def _guard(*values: bytes) -> AccessGuard:
    """A guard whose directory lets everyone read and has these rules too."""
    directory = Directory()
    everyone = AccessRule(subject="*", action=AccessAction.READ, kind=Kind.TOPIC, name="*")
    rules = [encode_rule(everyone), *values]
    put = [DirectoryEntry(RULE_KIND, f"rule{number}", value) for number, value in enumerate(rules)]
    directory.apply(DirectoryChanged(put=put, removed=[]))
    return AccessGuard(directory, lambda: 1_000, lambda name: None, authenticates=lambda: True)


def _reads(guard: AccessGuard, user: str, kind: str = USER_KIND) -> bool:
    return guard.allows(Caller(identity=user, kind=kind), AccessAction.READ, Kind.TOPIC, "t")


@pytest.mark.parametrize(
    "changed", [{}, {"kind": "galaxy", "action": "read"}, {"pattern": "glob", "action": "read"}, {"name": 7}]
)
def test_a_deny_holds_for_its_subject(changed: dict[str, Any]) -> None:
    guard = _guard(msgspec.msgpack.encode({**NEWER, **changed}))
    assert not _reads(guard, "ann")
    assert _reads(guard, "bob")
    assert _reads(guard, "ann", ADMINISTRATOR_KIND)


@pytest.mark.parametrize("value", [msgspec.msgpack.encode({**NEWER, "subject": "tenant:a"}), b"\xc1", b"\x90"])
def test_a_deny_whose_subject_cannot_be_read_holds_for_everyone(value: bytes) -> None:
    assert not _reads(_guard(value), "bob")


def test_an_allow_allows_nothing_and_denies_nothing() -> None:
    guard = _guard(msgspec.msgpack.encode({**NEWER, "allow": True}))
    assert _reads(guard, "ann")
    assert not guard.allows(Caller(identity="ann", kind=USER_KIND), AccessAction.WRITE, Kind.TOPIC, "t")


def test_an_allow_with_a_condition_that_is_not_known_allows_nothing() -> None:
    rule = {"subject": "user:ann", "action": "write", "kind": "topic", "name": "t", "allow": True}
    guard = _guard(msgspec.msgpack.encode({**rule, "weekdays": ["monday"]}))
    assert not guard.allows(Caller(identity="ann", kind=USER_KIND), AccessAction.WRITE, Kind.TOPIC, "t")
    assert _reads(guard, "ann"), "other rules hold"
    assert guard.unreadable == {"rule1"}
    assert _guard(msgspec.msgpack.encode(rule)).allows(
        Caller(identity="ann", kind=USER_KIND), AccessAction.WRITE, Kind.TOPIC, "t"
    )


def test_a_deny_with_a_condition_that_is_not_known_holds_without_it() -> None:
    rule = {**NEWER, "action": "read", "weekdays": ["monday"]}
    guard = _guard(msgspec.msgpack.encode(rule))
    assert not _reads(guard, "ann")
    assert guard.allows(Caller(identity="ann", kind=USER_KIND), AccessAction.READ, Kind.TOPIC, "other")
    assert guard.unreadable == frozenset()


def test_a_leader_refuses_to_store_a_rule_without_its_new_condition() -> None:
    newer = {"subject": "user:ann", "action": "read", "kind": "topic", "name": "t", "allow": True, "weekdays": []}
    known = AccessRule(subject="user:ann", action=AccessAction.READ, kind=Kind.TOPIC, name="t")
    sent = msgspec.to_builtins(ChangeAccess(added=[known], removed=[]))
    assert msgspec.convert(sent, ChangeAccess).added == [known]
    index = next(place for place, field in enumerate(sent) if field == [msgspec.to_builtins(known)])
    sent[index] = [newer]
    with pytest.raises(msgspec.ValidationError, match="weekdays"):
        msgspec.convert(sent, ChangeAccess)


def test_it_is_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "longhall.access"):
        guard = _guard(msgspec.msgpack.encode(NEWER))
        for _ in range(2):
            guard.directory_changed(DirectoryChanged(put=[DirectoryEntry(RULE_KIND, "x", b"")], removed=[]))
            _reads(guard, "ann")
    assert [record.rule for record in caplog.records] == ["rule1"]
    samples = {family.name: family.samples for family in access_families(guard)}
    assert samples["longhall_access_rules_unreadable"] == (("", "", 1),)
