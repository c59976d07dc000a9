"""Access rules as the directory stores them: who may, or may not, do what with which resource, and when.

    subject    `user:NAME`, `role:NAME`, or `*` for everyone, authenticated or not
    action     one of `AccessAction`; `all` stands for every one
    resource   a kind and a name: a literal (`*` is every name), a prefix, or a regular expression
    effect     allow or deny
    conditions addresses (CIDR), TLS, a window of time; a rule whose conditions do not hold does not exist

A topic and a queue of the same name are one resource, because a queue is a topic with a cursor: what is denied at one
door must not be had at another. This module does not decide: `front.permissions` does.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from longhall.errors import Code, LonghallError
from longhall.names import NAME_LENGTH_MAX

RULE_KIND: Final = "access-rule"  # The kinds of their entries in the directory: a rule by its id,
ROLES_KIND: Final = "roles"  # and the roles of a user by its name.
RULES_MAX: Final = 10_000
ID_CHARACTERS: Final = 16
ROLES_OF_USER_MAX: Final = 64
ADDRESSES_MAX: Final = 64  # Of one rule.
PATTERN_LENGTH_MAX: Final = 512
SUBJECT_LENGTH_MAX: Final = 512

EVERYONE: Final = "*"
USER: Final = "user:"
ROLE: Final = "role:"
EVERY_NAME: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"  # As Kafka calls the only resource of its kind.


class AccessAction(StrEnum):
    """An action of a subject on a resource. All but `configure` are Kafka's operations."""

    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster-action"
    DESCRIBE_CONFIGS = "describe-configs"
    ALTER_CONFIGS = "alter-configs"
    IDEMPOTENT_WRITE = "idempotent-write"
    CONFIGURE = "configure"  # RabbitMQ's: create, delete, alter and their configurations, in one word.


class Kind(StrEnum):
    """The kinds of resources."""

    TOPIC = "topic"
    QUEUE = "queue"
    EXCHANGE = "exchange"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"
    USER = "user"


class Pattern(StrEnum):
    """How the name of a rule selects resources."""

    LITERAL = "literal"
    PREFIX = "prefix"
    REGEX = "regex"


class RuleFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a rule. A later version may add fields that narrow a rule, such as conditions, and no others:
    a version that does not know them then denies too much and never too little.
    """

    subject: str
    action: AccessAction
    kind: Kind
    name: str
    pattern: Pattern = Pattern.LITERAL
    allow: bool = True
    host: str = ""
    addresses: tuple[str, ...] = ()
    tls: bool | None = None
    from_ms: int = 0
    until_ms: int = 0  # 0 for ever.


class AccessRule(RuleFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule. A `host` restricts a regular expression to the names of one virtual host, which it then sees alone.

    Unlike other structures that are stored or sent, a rule with an unknown field is not decoded: an allow rule without
    one of its conditions would allow more than was meant.
    """

    @property
    def is_conditional(self) -> bool:
        """True if the rule may hold for one request and not for the next."""
        return bool(self.addresses) or self.tls is not None or bool(self.from_ms or self.until_ms)


def check_rule(rule: AccessRule) -> None:
    """Raises INVALID_REQUEST with the reason if a rule means nothing."""
    subject, name = rule.subject, rule.name
    named = subject.startswith((USER, ROLE)) and 5 < len(subject) <= SUBJECT_LENGTH_MAX
    if subject != EVERYONE and not named:
        raise _wrong(f"the subject {subject!r} is none of user:NAME, role:NAME and *")
    if rule.pattern is Pattern.REGEX:
        if len(name) > PATTERN_LENGTH_MAX:
            raise _wrong(f"a pattern has at most {PATTERN_LENGTH_MAX} characters")
        try:
            re.compile(name)
        except (re.error, RecursionError) as error:
            raise _wrong(f"the pattern {name!r} is no regular expression: {error}") from None
    elif not name or len(name) > NAME_LENGTH_MAX:
        raise _wrong(f"the name of a resource has 1 to {NAME_LENGTH_MAX} characters")
    elif rule.host:
        raise _wrong("a virtual host belongs to a regular expression")
    if rule.kind is Kind.CLUSTER and (rule.pattern is not Pattern.LITERAL or name not in (CLUSTER_NAME, EVERY_NAME)):
        raise _wrong(f"there is one cluster, and its name is {CLUSTER_NAME}")
    if (rule.until_ms and rule.until_ms <= rule.from_ms) or rule.from_ms < 0:
        raise _wrong("the window of time ends before it begins")
    if len(rule.addresses) > ADDRESSES_MAX:
        raise _wrong(f"a rule has at most {ADDRESSES_MAX} addresses")
    for address in rule.addresses:
        try:
            ipaddress.ip_network(address, strict=False)
        except ValueError:
            raise _wrong(f"{address!r} is no address and no network in CIDR notation") from None


def rule_id(rule: AccessRule) -> str:
    """The id of a rule, by which it is stored and removed: rules that say the same have the same id."""
    return hashlib.sha256(encode_rule(rule)).hexdigest()[:ID_CHARACTERS]


def encode_rule(rule: AccessRule) -> bytes:
    """The value of a rule's entry."""
    return _encode(rule)


def decode_rule(value: bytes) -> AccessRule | None:
    """The rule of an entry; None if a newer version wrote what this one does not understand. A deny rule with unknown
    fields is read without them: it denies at least what was meant.
    """
    try:
        return _rules.decode(value)
    except msgspec.MsgspecError:
        pass
    try:
        known = _known_fields.decode(value)
    except msgspec.MsgspecError:
        return None
    return None if known.allow else AccessRule(**msgspec.structs.asdict(known))


def denied_subject(value: bytes) -> str | None:
    """Whom an entry that `decode_rule` cannot read has to be taken to deny everything: its subject, or everyone if that
    cannot be read either. None if it allows: without it nobody may more.
    """
    try:
        rule = _unread_rules.decode(value)
    except msgspec.MsgspecError:
        return EVERYONE
    if rule.allow:
        return None
    named = rule.subject.startswith((USER, ROLE)) and len(rule.subject) > len(USER)
    return rule.subject if named else EVERYONE


class _UnreadRule(msgspec.Struct, frozen=True):
    """The fields of a rule that say whom it concerns. `allow` is left out of an entry only if a newer version does so:
    such a rule is taken to deny.
    """

    subject: str
    allow: bool = False


def check_roles(user: str, roles: Sequence[str]) -> None:
    """Raises INVALID_REQUEST if a user cannot have these roles."""
    if not user or len(user) > SUBJECT_LENGTH_MAX:
        raise _wrong("the name of the user is missing or too long")
    if len(roles) > ROLES_OF_USER_MAX or any(not 0 < len(role) <= NAME_LENGTH_MAX for role in roles):
        raise _wrong(f"a user has at most {ROLES_OF_USER_MAX} roles, each with a name")


def encode_roles(roles: Sequence[str]) -> bytes:
    """The value of the entry of a user's roles."""
    return _encode(sorted(set(roles)))


def decode_roles(value: bytes) -> tuple[str, ...]:
    """The roles of an entry; none if it cannot be read."""
    try:
        return _roles.decode(value)
    except msgspec.MsgspecError:
        return ()


_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_rules: Final = msgspec.msgpack.Decoder(AccessRule)
_known_fields: Final = msgspec.msgpack.Decoder(RuleFields)
_unread_rules: Final = msgspec.msgpack.Decoder(_UnreadRule)
_roles: Final = msgspec.msgpack.Decoder(tuple[str, ...])


def _wrong(why: str) -> LonghallError:
    return LonghallError(Code.INVALID_REQUEST, why)
