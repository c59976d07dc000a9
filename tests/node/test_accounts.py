"""Accounts on whole nodes: durable, the same behind every process, refused in their bounds, and never in clear."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from longhall.cluster.rpc.operation import Operation
from longhall.directory.access_rules import AccessAction, AccessRule, Kind
from longhall.directory.accounts import DEFAULT_TENANT
from longhall.directory.directory import Directory
from longhall.directory.events import DirectoryEntry
from longhall.errors import Code, LonghallError
from longhall.front.identity import Principal
from longhall.node.assembly import Node
from longhall.node.authentication import needs_administrator
from longhall.node.directory_follower import DirectoryFollower
from longhall.node.first_administrator import FILE, make_first_administrator
from longhall.node.settings import Settings
from longhall.service import directory_operations as ops
from longhall.service.access_operations import ChangeAccess, GrantRoles, ListAccess
from longhall.service.accounts import RULES_REMOVED_MAX
from longhall.shards.replica import Replica
from longhall.world.real.world import real_world
from tests.doors.two_nodes import FREE, two_nodes

PASSWORD = "correct horse battery staple"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@asynccontextmanager
async def running(directory: Path, **settings: object) -> AsyncIterator[Node]:
    world = real_world(str(directory))
    try:
        node = Node(world, Settings(**{**FREE, "data": str(directory), "drain_ms": 0, **settings}))  # type: ignore[arg-type]
        await node.start(lambda error: None)
        yield node
        await node.stop()
    finally:
        world.close()


async def add(node: Node, name: str, password: str = PASSWORD, **fields: object) -> None:
    scram = node.authentication.secrets.scram_keys(password)
    await node.service.dispatch(ops.AddUser(name, scram=scram, **fields))  # type: ignore[arg-type]


async def refused(node: Node, operation: Operation[None]) -> Code:
    with pytest.raises(LonghallError) as caught:
        await node.service.dispatch(operation)
    return caught.value.code


async def test_accounts_survive_a_restart_and_a_crash(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.service.dispatch(ops.AddTenant("acme"))
        await add(node, "root", administrator=True)
        await add(node, "alice", tenant="acme")
        sealed = node.authentication.secrets.seal("AKIA1", SECRET)
        await node.service.dispatch(ops.AddAccessKey("alice", "AKIA1", sealed))
        token, digest = node.authentication.secrets.new_token()
        await node.service.dispatch(ops.AddToken("alice", digest, "ci"))
        await node.service.dispatch(ops.ChangeDirectory([DirectoryEntry("rule", "r1", b"x")]))
    alice = Principal("acme", "alice", "user")
    for _ in range(2):  # From a checkpoint, and from the log.
        world = real_world(str(tmp_path))
        node = Node(world, Settings(**{**FREE, "data": str(tmp_path), "drain_ms": 0}))
        await node.start(lambda error: None)
        authenticator = node.authentication.authenticator
        assert authenticator.check_password("alice", PASSWORD) == alice
        assert authenticator.check_token(token) == alice
        known = authenticator.secret_of("AKIA1")
        assert known is not None
        assert known.secret == SECRET
        assert node.hall.catalogue.directory.entries_of("rule") == {"r1": b"x"}
        await node.service.dispatch(ops.EnableUser("root", True))
        await node.drop()
        world.close()


async def test_what_is_wrong_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        assert await refused(node, ops.AddUser("alice")) is Code.INVALID_REQUEST, "the first is an administrator"
        await add(node, "root", administrator=True)
        version = node.hall.catalogue.directory.version
        for name in ("", " a", "a ", "a:b", "a/b", "a\n", "x" * 129):
            assert await refused(node, ops.AddUser(name)) is Code.INVALID_NAME, name
        assert await refused(node, ops.AddUser("root")) is Code.ENTRY_EXISTS
        assert await refused(node, ops.AddUser("bob", "nowhere")) is Code.UNKNOWN_ENTRY
        assert await refused(node, ops.EnableUser("nobody", True)) is Code.UNKNOWN_ENTRY
        assert await refused(node, ops.EnableUser("root", False)) is Code.INVALID_REQUEST, "the last administrator"
        assert await refused(node, ops.SetAdministrator("root", False)) is Code.INVALID_REQUEST
        assert await refused(node, ops.AddTenant(DEFAULT_TENANT)) is Code.ENTRY_EXISTS
        assert await refused(node, ops.RemoveTenant(DEFAULT_TENANT)) is Code.INVALID_REQUEST
        assert await refused(node, ops.AddToken("root", "short")) is Code.INVALID_REQUEST
        assert await refused(node, ops.RemoveToken("0" * 16)) is Code.UNKNOWN_ENTRY
        assert await refused(node, ops.AddAccessKey("root", "a b", b"x")) is Code.INVALID_NAME
        change = ops.ChangeDirectory([DirectoryEntry("user", "x", b"")])
        assert await refused(node, change) is Code.INVALID_REQUEST
        assert node.hall.catalogue.directory.version == version
        await node.service.dispatch(ops.AddTenant("acme"))
        await add(node, "bob", tenant="acme")
        assert await refused(node, ops.RemoveTenant("acme")) is Code.ENTRY_IN_USE
        assert await refused(node, ops.RemoveUser("root")) is Code.INVALID_REQUEST
        await node.service.dispatch(ops.RemoveUser("bob"))
        await node.service.dispatch(ops.RemoveTenant("acme"))
        await node.service.dispatch(ops.RemoveUser("root"))
        assert not node.authentication.authenticator.has_users


async def test_disabling_a_tenant_shuts_out_no_last_administrator(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.service.dispatch(ops.AddTenant("acme"))
        await add(node, "root", administrator=True)
        assert await refused(node, ops.EnableTenant(DEFAULT_TENANT, False)) is Code.INVALID_REQUEST
        await add(node, "ann", tenant="acme", administrator=True)
        await node.service.dispatch(ops.EnableTenant("acme", False))
        assert await refused(node, ops.EnableUser("root", False)) is Code.INVALID_REQUEST, "ann cannot log in"
        await node.service.dispatch(ops.EnableTenant("acme", True))
        await node.service.dispatch(ops.EnableTenant(DEFAULT_TENANT, False))
        assert await refused(node, ops.EnableUser("ann", False)) is Code.INVALID_REQUEST, "nor can root"
        assert await refused(node, ops.EnableTenant("acme", False)) is Code.INVALID_REQUEST


async def test_a_removed_user_leaves_no_roles_and_rules_to_its_successor(tmp_path: Path) -> None:
    def rule(subject: str, number: int) -> AccessRule:
        return AccessRule(subject=subject, action=AccessAction.READ, kind=Kind.TOPIC, name=f"t{number}")

    async with running(tmp_path) as node:
        await add(node, "root", administrator=True)
        await add(node, "bob")
        others = [rule("*", 0), rule("user:bobby", 0), rule("role:bob", 0)]
        own = [rule("user:bob", number) for number in range(RULES_REMOVED_MAX + 100)]
        await node.service.dispatch(ChangeAccess([*others, *own], []))
        await node.service.dispatch(GrantRoles("bob", ["operator"]))
        await node.service.dispatch(GrantRoles("bobby", ["viewer"]))
        await node.service.dispatch(ops.RemoveUser("bob"))
        await add(node, "bob")
        view = await node.service.dispatch(ListAccess())
        assert sorted(one.subject for one in view.rules.values()) == ["*", "role:bob", "user:bobby"]
        assert view.roles == {"bobby": ["viewer"]}


async def test_below_the_feature_level_nothing_is_written(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        node.hall.replica = Replica(1)
        node.hall.feature_level = 6
        try:
            assert await refused(node, ops.AddUser("root", administrator=True)) is Code.NOT_READY
        finally:
            node.hall.replica = None


async def test_what_one_node_adds_another_one_knows(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        two.leader.hall.feature_level = two.follower.hall.feature_level = 7
        scram = two.follower.authentication.secrets.scram_keys(PASSWORD)
        await two.follower.service.dispatch(ops.AddUser("root", scram=scram, administrator=True))
        root = Principal(DEFAULT_TENANT, "root", "administrator")
        assert two.leader.authentication.authenticator.check_password("root", PASSWORD) == root
        copy = Directory(known=False)
        follower = DirectoryFollower(two.follower.hall, copy, two.follower.service.dispatch)
        follower.start()
        await asyncio.wait_for(follower.known(), 20)
        assert copy.accounts.users == two.leader.hall.catalogue.directory.accounts.users
        found = await two.follower.service.dispatch(ops.FollowDirectory(-1, 0))
        assert [entry.name for entry in found.entries] == ["root"]
        waiting = asyncio.ensure_future(_follow(two.follower, found.version))
        await asyncio.sleep(0.05)
        await two.leader.service.dispatch(ops.AddTenant("acme"))
        update = await asyncio.wait_for(waiting, 20)
        assert update.changes is not None
        assert [entry.name for entry in update.changes.put] == ["acme"]
        await asyncio.sleep(0.1)
        assert "acme" in copy.accounts.tenants
        await follower.stop()


async def _follow(node: Node, version: int) -> ops.DirectoryUpdate:
    return await node.service.dispatch(ops.FollowDirectory(version, 20_000))


async def test_no_secret_is_in_a_file_or_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    data = tmp_path / "data"
    async with running(data) as node:
        await add(node, "root", administrator=True)
        sealed = node.authentication.secrets.seal("AKIA1", SECRET)
        await node.service.dispatch(ops.AddAccessKey("root", "AKIA1", sealed))
        token, digest = node.authentication.secrets.new_token()
        await node.service.dispatch(ops.AddToken("root", digest))
        door = node.authentication.door("kafka", "127.0.0.1:0")
        assert door.check("root", PASSWORD, "10.0.0.1") is not None
        assert door.check("root", "a password that is wrong", "10.0.0.1") is None
    written = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert b"root" in written, "the search finds what is there"
    logged = (caplog.text + repr([vars(record) for record in caplog.records])).encode()
    assert b"a login was refused" in logged
    for secret in (PASSWORD, SECRET, token, "a password that is wrong"):
        assert secret.encode() not in written
        assert secret.encode() not in logged
    assert os.stat(data / "master.key").st_mode & 0o777 == 0o600


async def test_the_first_administrator_is_made_once(tmp_path: Path) -> None:
    settings = {"authentication": "required"}
    async with running(tmp_path, **settings) as node:
        assert await make_first_administrator(node)
        assert not await make_first_administrator(node)
        secret = tmp_path / FILE
        assert secret.stat().st_mode & 0o777 == 0o600
        found = node.authentication.authenticator.check_password("admin", secret.read_text().strip())
        assert found == Principal(DEFAULT_TENANT, "admin", "administrator")


def test_who_needs_a_first_administrator() -> None:
    assert not needs_administrator(Settings())
    assert needs_administrator(Settings(authentication="required"))
    assert needs_administrator(Settings(kafka="0.0.0.0:9092"))
    assert not needs_administrator(Settings(kafka="0.0.0.0:9092", insecure=True))
    assert not needs_administrator(Settings(kafka="0.0.0.0:9092", credentials="file"))
    assert not needs_administrator(Settings(kafka="0.0.0.0:9092", authentication="none"))
