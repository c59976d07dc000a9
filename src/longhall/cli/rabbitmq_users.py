"""The users of a definitions file of RabbitMQ, as users, roles and access rules of the directory.

tag                        becomes
administrator              an administrator
monitoring                 the role viewer
management                 nothing: every user may log in to the management API
policymaker and others     nothing, and the import names them

permission                 becomes
configure, write, read     a rule for the queues and one for the exchanges of the virtual host, with the expression;
                           an empty expression matches nothing, and becomes nothing
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

ACTIONS: Final = ("configure", "write", "read")
KINDS: Final = ("queue", "exchange")
MEANT: Final = ("administrator", "monitoring", "management", "")


class RabbitmqUser(NamedTuple):
    """One user, and what it may do."""

    name: str
    is_administrator: bool
    roles: list[str]
    rules: list[dict[str, Any]]
    ignored: list[str]  # Tags.


def read_rabbitmq_users(text: str) -> list[RabbitmqUser]:
    """The users of a file. ValueError with the reason if it is none."""
    try:
        value = json.loads(text)
        rules: dict[str, list[dict[str, Any]]] = {}
        for one in value.get("permissions", []):
            rules.setdefault(str(one["user"]), []).extend(_rules(one))
        return [_user(one, rules.get(str(one["name"]), [])) for one in value.get("users", [])]
    except KeyError as error:
        raise ValueError(f"{error} is missing") from None
    except (TypeError, AttributeError):
        raise ValueError("its users and permissions are no lists of objects") from None


def _user(one: dict[str, Any], rules: list[dict[str, Any]]) -> RabbitmqUser:
    given = one.get("tags", [])
    tags = [tag.strip() for tag in (given.split(",") if isinstance(given, str) else given)]
    roles = ["viewer"] if "monitoring" in tags else []
    return RabbitmqUser(
        str(one["name"]), "administrator" in tags, roles, rules, [tag for tag in tags if tag not in MEANT]
    )


def _rules(one: dict[str, Any]) -> list[dict[str, Any]]:
    subject, host = f"user:{one['user']}", str(one["vhost"])
    return [
        {"subject": subject, "action": action, "kind": kind, "name": one[action], "pattern": "regex", "host": host}
        for action in ACTIONS
        if one[action]
        for kind in KINDS
    ]
