"""The operations on access rules and roles. The leader of the main hall carries them out; each waits for the commit."""

from __future__ import annotations

import msgspec

from longhall.cluster.rpc.operation import Operation
from longhall.directory.access_rules import AccessRule


class AccessView(msgspec.Struct, array_like=True):
    """All rules by their ids, and the roles of users."""

    rules: dict[str, AccessRule]
    roles: dict[str, list[str]]


class ChangeAccess(Operation[list[str]]):
    """Add rules and remove others by their ids, all of it or nothing; the reply has the ids that were removed. A rule
    that exists is not added again, and what is not there is not removed. INVALID_REQUEST for a rule that means nothing.
    """

    added: list[AccessRule]
    removed: list[str]


class ListAccess(Operation[AccessView]):
    """All rules, and the roles of users."""


class GrantRoles(Operation[None]):
    """Give a user these roles in place of the ones it has."""

    user: str
    roles: list[str]
