"""Who may change users does not become an administrator by it."""

from __future__ import annotations

from typing import Any

import pytest

from longhall.cluster.rpc.operation import Caller
from longhall.directory.access_rules import (
    CLUSTER_NAME,
    ROLES_KIND,
    RULE_KIND,
    AccessAction,
    AccessRule,
    Kind,
    encode_roles,
    encode_rule,
)
from longhall.directory.accounts import User, entry_of
from longhall.directory.directory import Directory
from longhall.directory.events import DirectoryChanged, DirectoryEntry
from longhall.front.guard import AccessGuard
from longhall.front.identity import USER_KIND
from longhall.front.permissions import AccessRefused
from longhall.service import directory_operations as ops

CALLER = Caller("ops", "127.0.0.1", "default", USER_KIND)


@pytest.fixture
def guard() -> AccessGuard:
    """`ops` may alter users; `root` and `ann` may do everything, `cluster` may alter the cluster from one network."""
    users = {
        "root": User("default", administrator=True),
        "ann": User("default"),
        "shop": User("default"),
        "cluster": User("default"),
        "ops": User("default"),
    }
    rules = [
        AccessRule(subject="user:ops", action=AccessAction.ALTER, kind=Kind.USER, name="*"),
        AccessRule(
            subject="user:cluster",
            action=AccessAction.ALL,
            kind=Kind.CLUSTER,
            name=CLUSTER_NAME,
            addresses=("10.0.0.0/8",),
        ),
    ]
    put = [entry_of(name, user) for name, user in users.items()]
    put += [DirectoryEntry(RULE_KIND, f"rule{number}", encode_rule(rule)) for number, rule in enumerate(rules)]
    put.append(DirectoryEntry(ROLES_KIND, "ann", encode_roles(["administrator"])))
    directory = Directory()
    directory.apply(DirectoryChanged(put=put, removed=[]))
    return AccessGuard(directory, lambda: 1_000, lambda name: None, authenticates=lambda: True)


def _operations(user: str) -> list[Any]:
    return [
        ops.EnableUser(user, False),
        ops.RemoveUser(user),
        ops.ReplacePassword(user, []),
        ops.ChangeScramKeys(user, [], []),
        ops.AddAccessKey(user, "KEY", b"sealed"),
        ops.AddToken(user, "0" * 64),
    ]


@pytest.mark.parametrize("user", ["root", "ann", "cluster"])
def test_users_who_may_alter_the_cluster_are_out_of_reach(guard: AccessGuard, user: str) -> None:
    for operation in _operations(user):
        with pytest.raises(AccessRefused, match="alter cluster"):
            guard.check(operation, CALLER)


def test_other_users_are_not(guard: AccessGuard) -> None:
    for operation in _operations("shop"):
        guard.check(operation, CALLER)
