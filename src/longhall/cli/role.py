"""`longhall role ...`: the roles of users. A role is a set of rules (`longhall access allow role:NAME ...`)."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import Format, Row, columns, show_json, show_outcome, show_rows

app = typer.Typer(name="role", help="Roles of users: list, grant, revoke.", no_args_is_help=True)

UserArgument = Annotated[str, typer.Argument(metavar="USER")]
RolesArgument = Annotated[list[str], typer.Argument(metavar="ROLE...")]

_LIST = columns("role rules users", right="rules")


@app.command("list")
@with_option_groups
def list_roles(options: ApiOptions) -> None:
    """List the roles: those that every installation has, and those that rules or users name."""
    found = options.open_client().ask("GET", "access/rules", dict[str, Any])
    counts = {role: len(rules) for role, rules in found["built_in"].items()}
    for rule in found["rules"]:
        if rule["subject"].startswith("role:"):
            role = rule["subject"].removeprefix("role:")
            counts[role] = counts.get(role, 0) + 1
    users: dict[str, list[str]] = {role: [] for role in counts}
    for user, roles in found["roles"].items():
        for role in roles:
            users.setdefault(role, []).append(user)
    rows: list[Row] = [
        {"role": role, "rules": counts.get(role, 0), "users": ", ".join(sorted(names))} for role, names in users.items()
    ]
    if options.output is Format.JSON:
        show_json([{**row, "users": sorted(users[str(row["role"])])} for row in rows])
        return
    show_rows(rows, _LIST, options.output, "there are no roles")


@app.command()
@with_option_groups
def grant(user: UserArgument, roles: RolesArgument, options: ApiOptions) -> None:
    """Give a user roles, beside those that it has: administrator, operator, producer, consumer, viewer, or your own."""
    held = _held(options, user)
    _put(options, user, sorted({*held, *roles}))


@app.command()
@with_option_groups
def revoke(user: UserArgument, roles: RolesArgument, options: ApiOptions) -> None:
    """Take roles from a user."""
    held = _held(options, user)
    _put(options, user, sorted(set(held) - set(roles)))


def _held(options: ApiOptions, user: str) -> list[str]:
    found = options.open_client().ask("GET", "access/rules", dict[str, Any])
    return list(found["roles"].get(user, []))


def _put(options: ApiOptions, user: str, roles: list[str]) -> None:
    options.open_client().ask("PUT", f"access/roles/{quote(user, safe='')}", dict[str, Any], {"roles": roles})
    show_outcome({"user": user, "roles": roles}, f"{user} has the roles: {', '.join(roles) or 'none'}", options.output)
