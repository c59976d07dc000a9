"""`longhall access ...`: access rules, and why somebody may do something or not.

A resource is written `KIND:NAME`: `topic:orders`, `queue:orders-*` (every name with this beginning), `group:*` (every
name), `exchange:/^eu\\./` (a regular expression), `cluster`.
"""

from __future__ import annotations

import time
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import Format, Row, columns, show_json, show_outcome, show_rows
from longhall.cli.timestamps import parse_timestamp_ms, show_timestamp

app = typer.Typer(
    name="access",
    help="Access rules: allow, deny, list, remove; explain a decision.",
    no_args_is_help=True,
)

SubjectArgument = Annotated[str, typer.Argument(metavar="SUBJECT", help="user:NAME, role:NAME, or * for everyone.")]
ActionArgument = Annotated[str, typer.Argument(metavar="ACTION", help="read, write, create, ...; all is every one.")]
ResourceArgument = Annotated[str, typer.Argument(metavar="RESOURCE", help="topic:NAME, queue:PREFIX*, cluster, ...")]
FromOption = Annotated[
    list[str] | None, typer.Option("--from", metavar="NETWORK", help="Only from this address or network (CIDR).")
]
TlsOption = Annotated[bool | None, typer.Option("--tls/--no-tls", help="Only with, or only without encryption.")]
AfterOption = Annotated[str, typer.Option("--after", metavar="TIME", help="Only from this time on.")]
UntilOption = Annotated[str, typer.Option("--until", metavar="TIME", help="Only before this time.")]
HostOption = Annotated[
    str, typer.Option("--vhost", metavar="VHOST", help="Names of this virtual host, for a regular expression.")
]

CLUSTER: Final = "kafka-cluster"
_LIST = columns("id effect subject action resource conditions")


class ConditionOptions(NamedTuple):
    """The options that say when a rule applies."""

    networks: FromOption = None
    tls: TlsOption = None
    after: AfterOption = ""
    until: UntilOption = ""
    vhost: HostOption = ""

    def as_fields(self) -> dict[str, Any]:
        """The conditions as the API has them in a rule."""
        now_ms = int(time.time() * 1000)
        found: dict[str, Any] = {"addresses": self.networks or [], "tls": self.tls, "host": self.vhost}
        if self.after:
            found["from_ms"] = parse_timestamp_ms(self.after, now_ms)
        if self.until:
            found["until_ms"] = parse_timestamp_ms(self.until, now_ms)
        return found


@app.command()
@with_option_groups
def allow(
    subject: SubjectArgument,
    action: ActionArgument,
    resource: ResourceArgument,
    conditions: ConditionOptions,
    options: ApiOptions,
) -> None:
    """Add a rule that allows a subject an action."""
    _add(options, True, subject, action, resource, conditions.as_fields())


@app.command()
@with_option_groups
def deny(
    subject: SubjectArgument,
    action: ActionArgument,
    resource: ResourceArgument,
    conditions: ConditionOptions,
    options: ApiOptions,
) -> None:
    """Add a rule that denies a subject an action. It wins over all rules that allow it."""
    _add(options, False, subject, action, resource, conditions.as_fields())


@app.command("list")
@with_option_groups
def list_rules(
    options: ApiOptions,
    subject: Annotated[str, typer.Option("--subject", help="Of this subject only.", show_default="all")] = "",
) -> None:
    """List the rules."""
    found = options.open_client().ask("GET", "access/rules", dict[str, Any])
    rules = [rule for rule in found["rules"] if subject in ("", rule["subject"])]
    if options.output is Format.JSON:
        show_json(rules)
        return
    show_rows([_row(rule) for rule in rules], _LIST, options.output, "there are no rules")


@app.command()
@with_option_groups
def remove(rule: Annotated[str, typer.Argument(metavar="ID", help="As list shows it.")], options: ApiOptions) -> None:
    """Remove a rule."""
    options.open_client().ask("DELETE", f"access/rules/{quote(rule, safe='')}", dict[str, Any])
    show_outcome({"removed": rule}, f"removed {rule}", options.output)


@app.command()
@with_option_groups
def explain(
    user: Annotated[str, typer.Argument(metavar="USER")],
    action: ActionArgument,
    resource: ResourceArgument,
    options: ApiOptions,
    client: Annotated[str, typer.Option("--from", metavar="ADDRESS", help="As if it came from there.")] = "",
    tls: Annotated[bool, typer.Option("--tls", help="As if it was encrypted.")] = False,
) -> None:
    """Say whether a user may do something, and which rules decide it. The exit code is 1 if it may not."""
    kind, name, pattern = parsed_resource(resource)
    if pattern != "literal":
        raise CommandError("name one resource: a decision is about a name, not about a pattern", Exit.USAGE)
    query = {"user": user, "action": action, "kind": kind, "name": name, "address": client, "tls": str(tls).lower()}
    found = options.open_client().ask("GET", "access/explain", dict[str, Any], query=query)
    if options.output is Format.JSON:
        show_json(found)
    else:
        verdict = "allowed" if found["allowed"] else "refused"
        print(f"{verdict}: {found['reason']}")
        print(f"roles: {', '.join(found['roles']) or 'none'}; permissions: {found['mode']}")
        if found["rules"]:
            show_rows([_row(rule) for rule in found["rules"]], _LIST, options.output, "")
    if not found["allowed"]:
        raise typer.Exit(1)


def parsed_resource(text: str) -> tuple[str, str, str]:
    """Kind, name and pattern of a resource as it is written."""
    kind, colon, name = text.partition(":")
    if kind == "cluster" and not colon:
        return kind, CLUSTER, "literal"
    if not colon or not name:
        raise CommandError(f"{text!r} is no resource: write KIND:NAME, such as topic:orders or queue:eu-*", Exit.USAGE)
    if len(name) > 2 and name.startswith("/") and name.endswith("/"):
        return kind, name[1:-1], "regex"
    if name.endswith("*") and name != "*":
        return kind, name[:-1], "prefix"
    return kind, name, "literal"


def _add(
    options: ApiOptions, allowed: bool, subject: str, action: str, resource: str, conditions: dict[str, Any]
) -> None:
    kind, name, pattern = parsed_resource(resource)
    rule = {"subject": subject, "action": action, "kind": kind, "name": name, "pattern": pattern, "allow": allowed}
    made = options.open_client().ask("POST", "access/rules", dict[str, Any], {"rules": [{**rule, **conditions}]})
    word = "allowed" if allowed else "denied"
    show_outcome({"id": made["ids"][0]}, f"{word} {subject} to {action} {resource}", options.output)


def _row(rule: dict[str, Any]) -> Row:
    pattern = rule.get("pattern", "literal")
    name = rule["name"] + "*" if pattern == "prefix" else f"/{rule['name']}/" if pattern == "regex" else rule["name"]
    conditions = [f"from {network}" for network in rule.get("addresses", ())]
    if rule.get("host"):
        conditions.append(f"vhost {rule['host']}")
    if rule.get("tls") is not None:
        conditions.append("with TLS" if rule["tls"] else "without TLS")
    for word, field in (("after", "from_ms"), ("until", "until_ms")):
        if field in rule:
            conditions.append(f"{word} {show_timestamp(rule[field])}")
    return {
        "id": rule.get("id", ""),
        "effect": "allow" if rule.get("allow", True) else "deny",
        "subject": rule["subject"],
        "action": rule["action"],
        "resource": rule["kind"] if rule["kind"] == "cluster" else f"{rule['kind']}:{name}",
        "conditions": ", ".join(conditions),
    }
