"""Users and their permissions in RabbitMQ's shapes: three regular expressions for each user and virtual host.

    configure, write, read    two rules each, for queues and for exchanges, with the expression and the virtual host
    an empty expression       rules that match nothing: the user may use the virtual host, and nothing in it
    tag administrator         an administrator of the directory
    tag monitoring            the role `viewer`
    tag management            no effect: everybody who has a login may log in here

Administrators, access keys of `--credentials`, and everybody while the directory has no users are shown with `.*`.
Rules that are made otherwise are not shown here: `longhall access list` has all of them.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, final

from longhall.console.api.asked import Asked, Reply
from longhall.console.management.bodies import body_of
from longhall.console.management.pages import Row, listed, shown
from longhall.console.management.queues import NO_CONTENT, check_host
from longhall.console.management.sources import ManagedNode
from longhall.directory.access_rules import USER, AccessAction, AccessRule, Kind, Pattern
from longhall.errors import Code, LonghallError
from longhall.front.account_secrets import AccountSecrets
from longhall.front.identity import ADMINISTRATOR_KIND, ANONYMOUS_KIND
from longhall.front.roles import ADMINISTRATOR, VIEWER
from longhall.service.access_operations import AccessView, ChangeAccess, GrantRoles, ListAccess
from longhall.service.directory_operations import (
    AddUser,
    ListUsers,
    RemoveUser,
    ReplacePassword,
    SetAdministrator,
    UserView,
)
from longhall.service.exchange_operations import ListVirtualHosts
from longhall.service.router import Router

ACTIONS: Final = {"configure": AccessAction.CONFIGURE, "write": AccessAction.WRITE, "read": AccessAction.READ}
EVERYTHING: Final = {"configure": ".*", "write": ".*", "read": ".*"}
HASHING: Final = "rabbit_password_hashing_sha256"
MONITORING: Final = "monitoring"
MANAGEMENT: Final = "management"
TAGS: Final = (ADMINISTRATOR, MONITORING, MANAGEMENT)

Permissions = dict[tuple[str, str], dict[str, str]]  # By user and virtual host.


@final
class PermissionHandlers:
    """The handlers of users and permissions."""

    def __init__(self, node: ManagedNode, secrets: AccountSecrets | None) -> None:
        self._node = node
        self._secrets = secrets

    async def whoami(self, service: Router, asked: Asked) -> Reply:
        """GET whoami"""
        caller = asked.caller
        is_administrator = caller.kind in (ADMINISTRATOR_KIND, ANONYMOUS_KIND)
        tags = [ADMINISTRATOR] if is_administrator else [MANAGEMENT]
        return Reply({"name": caller.identity, "tags": tags, "is_internal_user": True})

    # Users

    async def list_users(self, service: Router, asked: Asked) -> Reply:
        """GET users"""
        return await listed(asked, list((await self._users(service, asked)).values()))

    async def show_user(self, service: Router, asked: Asked) -> Reply:
        """GET users/NAME"""
        return shown(asked, await self._user(service, asked, asked.name))

    async def put_user(self, service: Router, asked: Asked) -> Reply:
        """PUT users/NAME"""
        body = body_of(asked)
        tags = _tags(body.get("tags", ""))
        password = body.get("password")
        if body.get("password_hash"):
            raise LonghallError(
                Code.INVALID_REQUEST, "a hash of RabbitMQ cannot be used for SCRAM and is not stored: give the password"
            )
        if password is not None and not isinstance(password, str):
            raise LonghallError(Code.INVALID_REQUEST, "the password is a string")
        known = {user.name: user for user in await service.call(ListUsers(), asked.caller)}.get(asked.name)
        assert self._secrets is not None
        scram = self._secrets.scram_keys(password, asked.name) if password else []
        if known is None:
            await service.call(AddUser(asked.name, scram=scram, administrator=ADMINISTRATOR in tags), asked.caller)
        else:
            if known.administrator != (ADMINISTRATOR in tags):
                await service.call(SetAdministrator(asked.name, ADMINISTRATOR in tags), asked.caller)
            if scram:
                await service.call(ReplacePassword(asked.name, scram), asked.caller)
        held = set((await service.call(ListAccess(), asked.caller)).roles.get(asked.name, []))
        wanted = held | {VIEWER} if MONITORING in tags else held - {VIEWER}
        if wanted != held:
            await service.call(GrantRoles(asked.name, sorted(wanted)), asked.caller)
        return Reply(None, HTTPStatus.CREATED) if known is None else NO_CONTENT

    async def remove_user(self, service: Router, asked: Asked) -> Reply:
        """DELETE users/NAME"""
        view = await service.call(ListAccess(), asked.caller)
        await service.call(RemoveUser(asked.name), asked.caller)
        rules = [name for name, rule in view.rules.items() if rule.subject == USER + asked.name]
        await service.call(ChangeAccess([], rules), asked.caller)
        await service.call(GrantRoles(asked.name, []), asked.caller)
        return NO_CONTENT

    # Permissions

    async def list_permissions(self, service: Router, asked: Asked) -> Reply:
        """GET permissions, vhosts/VHOST/permissions"""
        if asked.names:
            await check_host(service, asked.caller, asked.name)
        rows = await self._permissions(service, asked)
        host = asked.name if asked.names else None
        return await listed(asked, [row for row in rows if host in (None, row["vhost"])])

    async def list_of_user(self, service: Router, asked: Asked) -> Reply:
        """GET users/NAME/permissions"""
        await self._user(service, asked, asked.name)
        return await listed(
            asked, [row for row in await self._permissions(service, asked) if row["user"] == asked.name]
        )

    async def show_permission(self, service: Router, asked: Asked) -> Reply:
        """GET permissions/VHOST/USER"""
        host, user = asked.names
        await check_host(service, asked.caller, host)
        for row in await self._permissions(service, asked):
            if (row["vhost"], row["user"]) == (host, user):
                return shown(asked, row)
        raise LonghallError(Code.UNKNOWN_ENTRY, f"user '{user}' has no permissions in vhost '{host}'")

    async def put_permission(self, service: Router, asked: Asked) -> Reply:
        """PUT permissions/VHOST/USER"""
        host, user = asked.names
        await check_host(service, asked.caller, host)
        await self._user(service, asked, user)
        body = body_of(asked)
        missing = [word for word in ACTIONS if not isinstance(body.get(word), str)]
        if missing:
            raise LonghallError(Code.INVALID_REQUEST, f"key_missing: {missing[0]}")
        wanted = [
            AccessRule(subject=USER + user, action=action, kind=kind, name=body[word], pattern=Pattern.REGEX, host=host)
            for word, action in ACTIONS.items()
            for kind in (Kind.QUEUE, Kind.EXCHANGE)
        ]
        before = _rules_of(await service.call(ListAccess(), asked.caller), user, host)
        await service.call(ChangeAccess(wanted, before), asked.caller)
        return NO_CONTENT if before else Reply(None, HTTPStatus.CREATED)

    async def remove_permission(self, service: Router, asked: Asked) -> Reply:
        """DELETE permissions/VHOST/USER"""
        host, user = asked.names
        rules = _rules_of(await service.call(ListAccess(), asked.caller), user, host)
        if not rules:
            raise LonghallError(Code.UNKNOWN_ENTRY, f"user '{user}' has no permissions in vhost '{host}'")
        await service.call(ChangeAccess([], rules), asked.caller)
        return NO_CONTENT

    # Inside

    async def _users(self, service: Router, asked: Asked) -> dict[str, Row]:
        """The users that may log in. Without authentication the caller is the only one in the list."""
        stored = {user.name: user for user in await service.call(ListUsers(), asked.caller)}
        roles = (await service.call(ListAccess(), asked.caller)).roles if stored else {}
        names = self._node.users or [asked.caller.identity]
        return {name: _row(name, stored.get(name), roles.get(name, [])) for name in names}

    async def _user(self, service: Router, asked: Asked, name: str) -> Row:
        found = (await self._users(service, asked)).get(name)
        if found is None:
            raise LonghallError(Code.UNKNOWN_MEMBER, f"no user '{name}'")
        return found

    async def _permissions(self, service: Router, asked: Asked) -> list[Row]:
        hosts = await service.call(ListVirtualHosts(), asked.caller)
        users = await self._users(service, asked)
        found = permissions_of(await service.call(ListAccess(), asked.caller))
        rows: list[Row] = []
        for user, row in users.items():
            for host in hosts:
                patterns = EVERYTHING if ADMINISTRATOR in row["tags"] else found.get((user, host))
                if patterns is not None:
                    rows.append({"user": user, "vhost": host, **patterns})
        return rows


def permissions_of(view: AccessView) -> Permissions:
    """The three expressions of each user and virtual host, from the rules for queues."""
    words = {action: word for word, action in ACTIONS.items()}
    found: Permissions = {}
    for rule in view.rules.values():
        if rule.pattern is Pattern.REGEX and rule.kind is Kind.QUEUE and rule.host and rule.allow:
            word = words.get(rule.action)
            if word is not None and rule.subject.startswith(USER):
                nothing = dict.fromkeys(ACTIONS, "")
                found.setdefault((rule.subject[len(USER) :], rule.host), nothing)[word] = rule.name
    return found


def _rules_of(view: AccessView, user: str, host: str) -> list[str]:
    return [
        name
        for name, rule in view.rules.items()
        if rule.subject == USER + user
        and rule.host == host
        and rule.pattern is Pattern.REGEX
        and rule.allow
        and rule.action in ACTIONS.values()
        and rule.kind in (Kind.QUEUE, Kind.EXCHANGE)
    ]


def _row(name: str, user: UserView | None, roles: list[str]) -> Row:
    is_administrator = user is None or user.administrator or ADMINISTRATOR in roles
    tags = [ADMINISTRATOR] if is_administrator else [MONITORING] if VIEWER in roles else [MANAGEMENT]
    return {"name": name, "tags": tags, "password_hash": "", "hashing_algorithm": HASHING, "limits": {}}


def _tags(given: Any) -> set[str]:
    tags = given.split(",") if isinstance(given, str) else given
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise LonghallError(Code.INVALID_REQUEST, "tags are a list of strings, or one with commas")
    found = {tag.strip() for tag in tags} - {"", "none"}
    unknown = sorted(found - set(TAGS))
    if unknown:
        said = f"the tag '{unknown[0]}' has no meaning here: use {', '.join(TAGS)}, or roles (`longhall role`)"
        raise LonghallError(Code.INVALID_REQUEST, said)
    return found
