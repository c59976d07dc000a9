"""The access policy of a queue, as SQS has it: statements that allow or deny SQS' actions to principals.

    some statement denies    DENIED, whatever rules allow
    some statement allows    ALLOWED, whatever rules do not say
    otherwise                SILENT: rules decide

At the SQS door the action is the one of the request. Other doors have no SQS actions: there an action of ours is
allowed if all SQS actions that it comprises are, and denied if one of them is. A condition on a key that no request has
is false, as in AWS; an operator that is not known makes a deny hold and an allow not. Pure.
"""

from __future__ import annotations

import fnmatch
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from longhall.directory.access_rules import AccessAction
from longhall.front.permissions import RequestOrigin, is_within

ACCOUNT: Final = "000000000000"  # Of all users of an installation.
POLICIES_MAX: Final = 1_024  # Parsed policies that are remembered.

_COMPRISED: Final[dict[AccessAction, tuple[str, ...]]] = {
    AccessAction.WRITE: ("SendMessage",),
    AccessAction.READ: ("ReceiveMessage", "DeleteMessage"),
    AccessAction.DELETE: ("DeleteQueue", "PurgeQueue"),
    AccessAction.ALTER: ("StartMessageMoveTask",),
    AccessAction.ALTER_CONFIGS: ("SetQueueAttributes",),
    AccessAction.DESCRIBE_CONFIGS: ("GetQueueAttributes",),
}
# Who may do one of these knows the queue.
_DESCRIBING: Final = ("GetQueueAttributes", "GetQueueUrl", "SendMessage", "ReceiveMessage", "DeleteMessage")


class PolicyVerdict(Enum):
    """What a policy says of a request."""

    ALLOWED = "allowed"
    DENIED = "denied"
    SILENT = "silent"


class PolicyCaller(NamedTuple):
    """The client, as a policy sees it. `action` is the SQS action of its request; empty at other doors."""

    user: str
    roles: tuple[str, ...]
    origin: RequestOrigin
    action: str = ""


def verdict(text: str, arn: str, action: AccessAction, caller: PolicyCaller) -> PolicyVerdict:
    """What the policy of the queue `arn` says of an action of ours."""
    if caller.action:
        return _verdict(text, arn, caller.action.removesuffix("Batch"), caller)
    if action is AccessAction.DESCRIBE:
        found = {_verdict(text, arn, one, caller) for one in _DESCRIBING}
        return PolicyVerdict.ALLOWED if PolicyVerdict.ALLOWED in found else PolicyVerdict.SILENT
    found = {_verdict(text, arn, one, caller) for one in _COMPRISED.get(action, ())}
    if PolicyVerdict.DENIED in found:
        return PolicyVerdict.DENIED
    return PolicyVerdict.ALLOWED if found == {PolicyVerdict.ALLOWED} else PolicyVerdict.SILENT


def _verdict(text: str, arn: str, action: str, caller: PolicyCaller) -> PolicyVerdict:
    result = PolicyVerdict.SILENT
    for statement in _statements(text):
        denies = statement.get("Effect") == "Deny"
        if not denies and statement.get("Effect") != "Allow":
            continue
        if _applies(statement, arn, action, caller, denies):
            if denies:
                return PolicyVerdict.DENIED
            result = PolicyVerdict.ALLOWED
    return result


@lru_cache(maxsize=POLICIES_MAX)
def _statements(text: str) -> tuple[dict[str, Any], ...]:
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return ()
    found = document.get("Statement", []) if isinstance(document, dict) else []
    return tuple(one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict))


def _applies(statement: dict[str, Any], arn: str, action: str, caller: PolicyCaller, denies: bool) -> bool:
    return (
        _fits(statement, "Action", lambda one: _is_action(one, action))
        and _fits(statement, "Resource", lambda one: _is_like(one, arn), missing=True)
        and _has_principal(statement, caller)
        and _conditions_hold(statement.get("Condition") or {}, caller, denies)
    )


def _fits(statement: dict[str, Any], field: str, is_one: Any, missing: bool = False) -> bool:
    """True if one of the values of a field fits; of `NotField` none may."""
    if field in statement:
        return any(is_one(one) for one in _list(statement[field]))
    if "Not" + field in statement:
        return not any(is_one(one) for one in _list(statement["Not" + field]))
    return missing


def _is_action(pattern: str, action: str) -> bool:
    service, colon, name = pattern.partition(":")
    if pattern == "*":
        return True
    return bool(colon) and service.lower() == "sqs" and _is_like(name.lower(), action.lower())


def _has_principal(statement: dict[str, Any], caller: PolicyCaller) -> bool:
    if "NotPrincipal" in statement:
        return not _is_principal(statement["NotPrincipal"], caller)
    return _is_principal(statement.get("Principal"), caller)


def _is_principal(given: Any, caller: PolicyCaller) -> bool:
    if given == "*":
        return True
    names = _list(given.get("AWS", [])) if isinstance(given, dict) else []
    return any(_is_caller(name, caller) for name in names)


def _is_caller(name: str, caller: PolicyCaller) -> bool:
    """True if a principal is this user: by its ARN, by one of its roles, or by the account of all users."""
    if name == "*":
        return True
    if not caller.user:
        return False
    if name in (ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root", user_arn(caller.user)):
        return True
    return any(name == f"arn:aws:iam::{ACCOUNT}:role/{role}" for role in caller.roles)


def user_arn(user: str) -> str:
    """The ARN of a user."""
    return f"arn:aws:iam::{ACCOUNT}:user/{user}"


def _conditions_hold(conditions: dict[str, Any], caller: PolicyCaller, denies: bool) -> bool:
    values = {
        "aws:sourceip": caller.origin.address,
        "aws:securetransport": "true" if caller.origin.tls else "false",
        "aws:principalarn": user_arn(caller.user) if caller.user else None,
        "aws:username": caller.user or None,
        "aws:principalaccount": ACCOUNT if caller.user else None,
    }
    for operator, keys in conditions.items():
        if not isinstance(keys, dict):
            return denies
        for key, wanted in keys.items():
            held = _condition_holds(operator, values.get(key.lower()), [str(one) for one in _list(wanted)])
            if held is None:
                return denies  # What cannot be understood protects.
            if not held:
                return False
    return True


def _condition_holds(operator: str, value: str | None, wanted: list[str]) -> bool | None:
    """True if a condition holds; None if the operator is not known."""
    name = operator.removesuffix("IfExists")
    negative = name in ("NotIpAddress", "StringNotEquals", "StringNotLike", "ArnNotEquals", "ArnNotLike")
    if name == "Null":
        return (value is None) == (wanted[:1] == ["true"])
    test = _OPERATORS.get(name)
    if test is None:
        return None
    if value is None:
        return negative or operator != name
    return any(test(one, value) for one in wanted) is not negative


def _is_like(pattern: str, text: str) -> bool:
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))


def _is_address(pattern: str, address: str) -> bool:
    try:
        return is_within(address, (pattern,))
    except ValueError:
        return False


def _is_same(pattern: str, text: str) -> bool:
    return pattern == text


def _is_same_word(pattern: str, text: str) -> bool:
    return pattern.lower() == text.lower()


_OPERATORS: Final = {
    "IpAddress": _is_address,
    "NotIpAddress": _is_address,
    "Bool": _is_same_word,
    "StringEquals": _is_same,
    "StringNotEquals": _is_same,
    "StringEqualsIgnoreCase": _is_same_word,
    "StringLike": _is_like,
    "StringNotLike": _is_like,
    "ArnEquals": _is_like,
    "ArnNotEquals": _is_like,
    "ArnLike": _is_like,
    "ArnNotLike": _is_like,
}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
