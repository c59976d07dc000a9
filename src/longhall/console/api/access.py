"""Access rules and roles over HTTP: list, add and remove rules, give roles, and explain a decision."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, final

import msgspec

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Route
from longhall.directory.access_rules import CLUSTER_NAME, AccessAction, AccessRule, Kind, RuleFields, rule_id
from longhall.errors import Code, LonghallError
from longhall.front.guard import AccessGuard
from longhall.front.permissions import Need, RequestOrigin
from longhall.front.roles import ROLES
from longhall.service.access_operations import ChangeAccess, GrantRoles, ListAccess
from longhall.service.router import Router

RULES_OF_REQUEST_MAX: Final = 500


class RuleShape(RuleFields, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A rule in JSON; `id` is in responses only."""

    id: str = ""


class RulesWanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Rules to add."""

    rules: list[RuleShape]


class RolesWanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The roles of a user, in place of those that it has."""

    roles: list[str]


class Question(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """May this user do this, from this address?"""

    user: str
    action: AccessAction
    kind: Kind
    name: str = CLUSTER_NAME
    address: str = ""
    tls: bool = False


def shape_of_rule(name: str, rule: AccessRule) -> RuleShape:
    """A rule for JSON."""
    return RuleShape(id=name, **msgspec.structs.asdict(rule))


def _rule(shape: RuleShape) -> AccessRule:
    fields = msgspec.structs.asdict(shape)
    del fields["id"]
    return AccessRule(**fields)


async def list_rules(service: Router, asked: Asked) -> Reply:
    """GET access/rules"""
    view = await service.call(ListAccess(), asked.caller)
    built_in = {role: [shape_of_rule("", rule) for rule in rules] for role, rules in ROLES.items()}
    rules = [shape_of_rule(name, rule) for name, rule in view.rules.items()]
    return Reply({"rules": rules, "roles": view.roles, "built_in": built_in})


async def add_rules(service: Router, asked: Asked) -> Reply:
    """POST access/rules"""
    wanted = asked.read(RulesWanted).rules
    if not 1 <= len(wanted) <= RULES_OF_REQUEST_MAX:
        raise LonghallError(Code.INVALID_REQUEST, f"a request has 1 to {RULES_OF_REQUEST_MAX} rules")
    rules = [_rule(shape) for shape in wanted]
    await service.call(ChangeAccess(rules, []), asked.caller)
    return Reply({"ids": [rule_id(rule) for rule in rules]}, HTTPStatus.CREATED)


async def remove_rule(service: Router, asked: Asked) -> Reply:
    """DELETE access/rules/ID"""
    if not await service.call(ChangeAccess([], [asked.name]), asked.caller):
        raise LonghallError(Code.UNKNOWN_ENTRY, f"there is no rule '{asked.name[:40]}'")
    return Reply({"removed": asked.name})


async def grant_roles(service: Router, asked: Asked) -> Reply:
    """PUT access/roles/USER"""
    roles = asked.read(RolesWanted).roles
    await service.call(GrantRoles(asked.name, roles), asked.caller)
    return Reply({"user": asked.name, "roles": roles})


@final
class AccessExplanations:
    """Explains decisions of the guard of this process."""

    def __init__(self, guard: AccessGuard) -> None:
        self._guard = guard

    async def explain(self, service: Router, asked: Asked) -> Reply:
        """GET access/explain"""
        question = asked.question(Question)
        need = Need(question.action, question.kind, question.name)
        origin = RequestOrigin(question.address, question.tls, self._guard.now_ms())
        found = self._guard.explain(question.user, need, origin)
        rules = [shape_of_rule(rule_id(rule), rule) for rule in found.rules]
        answer = {
            "allowed": found.allowed,
            "reason": found.reason,
            "rules": rules,
            "roles": self._guard.roles_of(question.user),
            "mode": self._guard.mode if self._guard.active else "off",
        }
        return Reply(answer)


def access_routes(guard: AccessGuard) -> tuple[Route, ...]:
    """The routes of a node."""
    return (
        Route("GET", "access/rules", list_rules),
        Route("POST", "access/rules", add_rules),
        Route("DELETE", "access/rules/*", remove_rule),
        Route("PUT", "access/roles/*", grant_roles),
        Route("GET", "access/explain", AccessExplanations(guard).explain),
    )
