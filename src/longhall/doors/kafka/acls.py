"""Access rules as Kafka's ACLs, and filters over them.

    Kafka                                       rule
    principal User:NAME, User:*, Role:NAME      subject user:NAME, *, role:NAME
    host, an address or *                       addresses
    resource type 2 to 5, 7                     kind; a queue is shown as the topic of its name
    pattern LITERAL, PREFIXED                   the same

Kafka has no word for exchanges, regular expressions and RabbitMQ's `configure`: such rules are not shown and not
deleted through its APIs. Conditions on TLS and time are not shown, so a rule that has them can be listed and deleted,
but not told from one without.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from longhall.directory.access_rules import EVERY_NAME, EVERYONE, ROLE, USER, AccessRule, Kind, Pattern, check_rule
from longhall.doors.kafka.authorized_operations import ACTION_OF, OPERATION_OF
from longhall.errors import Code, LonghallError

ANY: Final = 1
MATCH: Final = 2
LITERAL: Final = 3
PREFIXED: Final = 4
DENY: Final = 2
ALLOW: Final = 3
EVERY_HOST: Final = "*"

TYPE_OF: Final = {
    Kind.TOPIC: 2,
    Kind.QUEUE: 2,
    Kind.GROUP: 3,
    Kind.CLUSTER: 4,
    Kind.TRANSACTIONAL_ID: 5,
    Kind.USER: 7,
}
_KIND_OF: Final = {2: Kind.TOPIC, 3: Kind.GROUP, 4: Kind.CLUSTER, 5: Kind.TRANSACTIONAL_ID, 7: Kind.USER}
_PATTERN_OF: Final = {LITERAL: Pattern.LITERAL, PREFIXED: Pattern.PREFIX}
_NUMBER_OF_PATTERN: Final = {pattern: number for number, pattern in _PATTERN_OF.items()}
_PRINCIPALS: Final = {"User:": USER, "Role:": ROLE}


class Acl(NamedTuple):
    """One entry, with the id of the rule that it shows."""

    rule_id: str
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


def acls_of(rules: dict[str, AccessRule]) -> list[Acl]:
    """The entries that show these rules; a rule with several addresses has one for each."""
    return [acl for rule_id, rule in rules.items() for acl in _entries(rule_id, rule)]


def _entries(rule_id: str, rule: AccessRule) -> list[Acl]:
    number = _NUMBER_OF_PATTERN.get(rule.pattern)
    if number is None or rule.kind not in TYPE_OF or rule.action not in OPERATION_OF:
        return []
    permission = ALLOW if rule.allow else DENY
    operation = OPERATION_OF[rule.action]
    return [
        Acl(rule_id, TYPE_OF[rule.kind], rule.name, number, _principal(rule.subject), host, operation, permission)
        for host in rule.addresses or (EVERY_HOST,)
    ]


def _principal(subject: str) -> str:
    if subject == EVERYONE:
        return "User:*"
    return "User:" + subject[len(USER) :] if subject.startswith(USER) else "Role:" + subject[len(ROLE) :]


def rule_of(creation: Any) -> AccessRule:
    """The rule of an entry to create. INVALID_REQUEST with the reason."""
    kind = _KIND_OF.get(creation.resource_type)
    pattern = _PATTERN_OF.get(creation.resource_pattern_type)
    action = ACTION_OF.get(creation.operation)
    if kind is None:
        raise _wrong(f"The resource type {creation.resource_type} is not known.")
    if pattern is None:
        raise _wrong("An entry is created with the pattern type LITERAL or PREFIXED.")
    if action is None:
        raise _wrong(f"The operation {creation.operation} is not known.")
    if creation.permission_type not in (ALLOW, DENY):
        raise _wrong("The permission type is ALLOW or DENY.")
    prefix = next((one for one in _PRINCIPALS if creation.principal.startswith(one)), None)
    if prefix is None:
        raise _wrong(f"The principal '{creation.principal}' is none of User:NAME, User:* and Role:NAME.")
    who = creation.principal[len(prefix) :]
    rule = AccessRule(
        subject=EVERYONE if creation.principal == "User:*" else _PRINCIPALS[prefix] + who,
        action=action,
        kind=kind,
        name=creation.resource_name,
        pattern=pattern,
        allow=creation.permission_type == ALLOW,
        addresses=() if creation.host == EVERY_HOST else (creation.host,),
    )
    check_rule(rule)
    return rule


def matches(acl: Acl, wanted: Any) -> bool:
    """True if an entry fits a filter."""
    return (
        wanted.resource_type_filter in (ANY, acl.resource_type)
        and wanted.operation in (ANY, acl.operation)
        and wanted.permission_type in (ANY, acl.permission_type)
        and wanted.principal_filter in (None, acl.principal)
        and wanted.host_filter in (None, acl.host)
        and _fits_pattern(acl, wanted.resource_name_filter, wanted.pattern_type_filter)
    )


def _fits_pattern(acl: Acl, name: str | None, pattern: int) -> bool:
    if pattern == MATCH:
        if name is None or acl.resource_name == name:
            return True
        if acl.pattern_type == PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == EVERY_NAME
    return pattern in (ANY, acl.pattern_type) and name in (None, acl.resource_name)


def _wrong(why: str) -> LonghallError:
    return LonghallError(Code.INVALID_REQUEST, why)
