"""Access rules and roles, carried out by the leader of the hall: each change is one event of the directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from longhall.broker.hall import Hall
from longhall.broker.waiting import committed
from longhall.cluster.rpc.operation import Caller
from longhall.directory.access_rules import (
    ROLES_KIND,
    RULE_KIND,
    RULES_MAX,
    check_roles,
    check_rule,
    decode_roles,
    decode_rule,
    encode_roles,
    encode_rule,
    rule_id,
)
from longhall.directory.directory import Directory
from longhall.directory.events import DirectoryEntry
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.service import access_operations as ops
from longhall.service.accounts import commit_entries
from longhall.service.local import LocalBroker


@final
class AccessService:
    """The operations of `access_operations` on one hall."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    def register(self, broker: LocalBroker) -> None:
        """Carry out these operations in this process."""
        broker.also(ops.ChangeAccess, self._change)
        broker.also(ops.ListAccess, self._list)
        broker.also(ops.GrantRoles, self._grant)

    async def _change(self, op: ops.ChangeAccess, caller: Caller) -> list[str]:
        for rule in op.added:
            check_rule(rule)
        stored = self._directory.entries_of(RULE_KIND)
        put = [DirectoryEntry(RULE_KIND, rule_id(rule), encode_rule(rule)) for rule in op.added]
        kept = {one.name for one in put}
        removed = [one for one in dict.fromkeys(op.removed) if one in stored and one not in kept]
        if len(kept | stored.keys()) - len(removed) > RULES_MAX:
            raise LonghallError(Code.OVERLOADED, f"there are at most {RULES_MAX} access rules")
        await self._commit(put, [(RULE_KIND, one) for one in removed])
        return removed

    async def _list(self, op: ops.ListAccess, caller: Caller) -> ops.AccessView:
        view = access_view(self._directory)
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        return view

    async def _grant(self, op: ops.GrantRoles, caller: Caller) -> None:
        check_roles(op.user, op.roles)
        if op.roles:
            await self._commit([DirectoryEntry(ROLES_KIND, op.user, encode_roles(op.roles))])
        else:
            await self._commit([], [(ROLES_KIND, op.user)])

    @property
    def _directory(self) -> Directory:
        return self._hall.catalogue.directory

    async def _commit(self, put: Sequence[DirectoryEntry], removed: Sequence[tuple[str, str]] = ()) -> None:
        await commit_entries(self._hall, put, removed)


def access_view(directory: Directory) -> ops.AccessView:
    """The rules and roles of a directory. A rule of a newer version that this one cannot read is not listed; the guard
    takes it to deny its subject everything, unless it allows.
    """
    rules = {name: decode_rule(value) for name, value in sorted(directory.entries_of(RULE_KIND).items())}
    roles = {user: list(decode_roles(value)) for user, value in sorted(directory.entries_of(ROLES_KIND).items())}
    return ops.AccessView({name: rule for name, rule in rules.items() if rule is not None}, roles)
