"""Permission: may this caller do this with that resource?

    some deny rule holds      refused
    some allow rule holds     allowed
    otherwise                 refused

    an allowed        allows also
    read, write       describe
    delete, alter     describe
    alter-configs     describe-configs
    configure         create, delete, alter, alter-configs, and what those allow

A deny counts only for the action that it names. The role `administrator` is not decided by rules, so that no rule locks
the last administrator out. Rules are compiled once for each user and decisions are remembered until something changes;
a decision that depends on a condition is made each time. Pure: time and address are arguments.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, final

from longhall.directory.access_rules import EVERY_NAME, EVERYONE, ROLE, USER, AccessAction, AccessRule, Kind, Pattern
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import names_of
from longhall.front.roles import ADMINISTRATOR, ROLES

DECISIONS_MAX: Final = 4_096  # Remembered for one user.
USERS_MAX: Final = 4_096  # Compiled at the same time.

_IMPLIED: Final[dict[AccessAction, frozenset[AccessAction]]] = {
    AccessAction.READ: frozenset({AccessAction.DESCRIBE}),
    AccessAction.WRITE: frozenset({AccessAction.DESCRIBE}),
    AccessAction.DELETE: frozenset({AccessAction.DESCRIBE}),
    AccessAction.ALTER: frozenset({AccessAction.DESCRIBE}),
    AccessAction.ALTER_CONFIGS: frozenset({AccessAction.DESCRIBE_CONFIGS}),
    AccessAction.CONFIGURE: frozenset(
        {
            AccessAction.CREATE,
            AccessAction.DELETE,
            AccessAction.ALTER,
            AccessAction.ALTER_CONFIGS,
            AccessAction.DESCRIBE,
            AccessAction.DESCRIBE_CONFIGS,
        }
    ),
}
ALLOWED_BY: Final[dict[AccessAction, frozenset[AccessAction]]] = {
    action: frozenset({action, AccessAction.ALL} | {other for other, implied in _IMPLIED.items() if action in implied})
    for action in AccessAction
}
_CONFIGURED: Final = frozenset(
    {AccessAction.CREATE, AccessAction.DELETE, AccessAction.ALTER, AccessAction.ALTER_CONFIGS}
)
DENIED_BY: Final[dict[AccessAction, frozenset[AccessAction]]] = {
    action: frozenset({action, AccessAction.ALL} | ({AccessAction.CONFIGURE} if action in _CONFIGURED else set()))
    for action in AccessAction
}


class Need(NamedTuple):
    """The permission that a request needs."""

    action: AccessAction
    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.action} {self.kind}:{self.name}"


class AccessRefused(LonghallError):
    """A refusal for want of a permission. Of what is `hidden` the caller must not know whether it exists."""

    def __init__(self, user: str, need: Need, hidden: bool) -> None:
        who = f"user '{user}'" if user else "a client that has not authenticated"
        super().__init__(Code.ACCESS_REFUSED, f"{who} has no permission to {need.action} {need.kind} '{need.name}'")
        self.need = need
        self.user = user
        self.hidden = hidden


class RequestOrigin(NamedTuple):
    """What conditions look at: the client's address, whether it uses TLS, and the time."""

    address: str
    tls: bool
    now_ms: int


class Explanation(NamedTuple):
    """A decision with its reason. `rules` are those that hold and decided, or that would with other conditions."""

    allowed: bool
    reason: str
    rules: list[AccessRule]


Decision = bool | tuple[AccessRule, ...]  # The rules to look at, if their conditions decide.


@final
class Permissions:
    """What one user may do, compiled from the rules for it, for its roles and for everyone."""

    def __init__(self, rules: Iterable[AccessRule], is_administrator: bool) -> None:
        self.is_administrator = is_administrator
        self._literal: dict[tuple[Kind, str], list[AccessRule]] = {}
        self._others: list[tuple[AccessRule, re.Pattern[str] | None]] = []
        self._decisions: dict[Need, Decision] = {}
        for rule in rules:
            kind = _resource_kind(rule.kind)
            if rule.pattern is Pattern.LITERAL and rule.name != EVERY_NAME:
                self._literal.setdefault((kind, rule.name), []).append(rule)
            else:
                self._others.append((rule, re.compile(rule.name) if rule.pattern is Pattern.REGEX else None))

    def allows(self, need: Need, origin: RequestOrigin) -> bool:
        """True if the user may."""
        if self.is_administrator:
            return True
        decision = self._decisions.get(need)
        if decision is None:
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            decision = self._decisions[need] = self._decide(need)
        return decision if isinstance(decision, bool) else _decide_now(decision, need, origin)

    def denies(self, need: Need, origin: RequestOrigin) -> bool:
        """True if a rule denies it, which is more than that no rule allows it."""
        if self.is_administrator:
            return False
        denying = DENIED_BY[need.action]
        return any(not rule.allow and rule.action in denying and holds(rule, origin) for rule in self._matching(need))

    def allows_some(self, action: AccessAction, kind: Kind, origin: RequestOrigin) -> bool:
        """True if there is a name with which the user may do this, as far as rules say: Kafka's idempotent producers
        need to write to some topic. A deny for every name counts.
        """
        if self.is_administrator:
            return True
        rules = [rule for rule in self._all() if _resource_kind(rule.kind) is _resource_kind(kind)]
        held = [rule for rule in rules if holds(rule, origin)]
        for rule in held:
            if not rule.allow and rule.action in DENIED_BY[action] and _is_for_every_name(rule):
                return False
        return any(rule.allow and rule.action in ALLOWED_BY[action] for rule in held)

    def grants(self, action: AccessAction, kind: Kind) -> bool:
        """True if some rule allows this, whatever its conditions and whatever else denies it."""
        return self.is_administrator or any(
            rule.allow and rule.action in ALLOWED_BY[action] and _resource_kind(rule.kind) is _resource_kind(kind)
            for rule in self._all()
        )

    def may_enter(self, host: str) -> bool:
        """True if some rule lets the user do anything in a virtual host."""
        return self.is_administrator or any(
            rule.allow and rule.host in ("", host) and _resource_kind(rule.kind) in (Kind.TOPIC, Kind.EXCHANGE)
            for rule in self._all()
        )

    def explain(self, need: Need, origin: RequestOrigin) -> Explanation:
        """The decision on this need, with its reason."""
        if self.is_administrator:
            return Explanation(True, f"the role {ADMINISTRATOR} may do everything", [])
        matching = self._matching(need)
        held = [rule for rule in matching if holds(rule, origin)]
        denying = [rule for rule in held if not rule.allow and rule.action in DENIED_BY[need.action]]
        if denying:
            return Explanation(False, "a rule denies it", denying)
        allowing = [rule for rule in held if rule.allow and rule.action in ALLOWED_BY[need.action]]
        if allowing:
            return Explanation(True, "a rule allows it", allowing)
        elsewhere = [rule for rule in matching if rule.allow and rule.action in ALLOWED_BY[need.action]]
        if elsewhere:
            return Explanation(False, "the conditions of the rules that would allow it do not hold", elsewhere)
        return Explanation(False, "no rule allows it", [])

    def _all(self) -> Iterable[AccessRule]:
        for rules in self._literal.values():
            yield from rules
        for rule, _ in self._others:
            yield rule

    def _matching(self, need: Need) -> list[AccessRule]:
        """The rules for this resource, whatever their action."""
        kind = _resource_kind(need.kind)
        found = list(self._literal.get((kind, need.name), ()))
        for rule, pattern in self._others:
            if _resource_kind(rule.kind) is kind and _selects(rule, pattern, need.name):
                found.append(rule)
        return found

    def _decide(self, need: Need) -> Decision:
        allowing, denying = ALLOWED_BY[need.action], DENIED_BY[need.action]
        relevant = [rule for rule in self._matching(need) if rule.action in (allowing if rule.allow else denying)]
        if any(not rule.allow and not rule.is_conditional for rule in relevant):
            return False
        if any(rule.is_conditional for rule in relevant):
            return tuple(relevant)
        return bool(relevant)


@final
class AccessModel:
    """The permissions of all users, compiled as they are asked for."""

    def __init__(self) -> None:
        self._of_subject: dict[str, list[AccessRule]] = {}
        self._roles: Mapping[str, tuple[str, ...]] = {}
        self._compiled: dict[tuple[str, tuple[str, ...]], Permissions] = {}

    def load(self, rules: Iterable[AccessRule], roles: Mapping[str, tuple[str, ...]]) -> None:
        """Decide by these rules and roles of users from now on."""
        of_subject: dict[str, list[AccessRule]] = {}
        for rule in rules:
            of_subject.setdefault(rule.subject, []).append(rule)
        self._of_subject, self._roles, self._compiled = of_subject, roles, {}

    def permissions(self, user: str, more_roles: tuple[str, ...] = ()) -> Permissions:
        """The permissions of a user; the empty name stands for a client that has not authenticated. `more_roles` are
        those of another source, such as an identity provider.
        """
        found = self._compiled.get((user, more_roles))
        if found is None:
            if len(self._compiled) >= USERS_MAX:
                self._compiled.clear()
            found = self._compiled[user, more_roles] = self._compile(user, more_roles)
        return found

    def roles_of(self, user: str) -> tuple[str, ...]:
        """The roles that a user was given here."""
        return self._roles.get(user, ())

    def _compile(self, user: str, more_roles: tuple[str, ...]) -> Permissions:
        rules = list(self._of_subject.get(EVERYONE, ()))
        if not user:
            return Permissions(rules, False)
        rules += self._of_subject.get(USER + user, ())
        roles = dict.fromkeys((*self._roles.get(user, ()), *more_roles))
        for role in roles:
            rules += ROLES.get(role, ())
            rules += self._of_subject.get(ROLE + role, ())
        return Permissions(rules, ADMINISTRATOR in roles)


def holds(rule: AccessRule, origin: RequestOrigin) -> bool:
    """True if the conditions of a rule hold."""
    if rule.tls is not None and rule.tls is not origin.tls:
        return False
    if origin.now_ms < rule.from_ms or (rule.until_ms and origin.now_ms >= rule.until_ms):
        return False
    return not rule.addresses or is_within(origin.address, rule.addresses)


def is_within(address: str, networks: tuple[str, ...]) -> bool:
    """True if an address belongs to one of these networks."""
    try:
        client = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False  # A client without an address is in no network.
    if isinstance(client, ipaddress.IPv6Address) and client.ipv4_mapped is not None:
        client = client.ipv4_mapped
    return any(client in ipaddress.ip_network(network, strict=False) for network in networks)


def _decide_now(rules: tuple[AccessRule, ...], need: Need, origin: RequestOrigin) -> bool:
    held = [rule for rule in rules if holds(rule, origin)]
    return bool(held) and all(rule.allow for rule in held)


def _resource_kind(kind: Kind) -> Kind:
    return Kind.TOPIC if kind is Kind.QUEUE else kind


def _is_for_every_name(rule: AccessRule) -> bool:
    return rule.name == EVERY_NAME and rule.pattern is Pattern.LITERAL


def _selects(rule: AccessRule, pattern: re.Pattern[str] | None, name: str) -> bool:
    if pattern is None:
        return rule.name == EVERY_NAME if rule.pattern is Pattern.LITERAL else name.startswith(rule.name)
    if not rule.name:
        return False  # RabbitMQ's way to say: nothing.
    if not rule.host:
        return pattern.search(name) is not None
    host, inner = names_of(name)
    return host == rule.host and pattern.search(inner) is not None
