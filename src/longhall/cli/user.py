"""`longhall user ...`: users of the directory, their passwords and access keys."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from longhall.cli.confirmation import confirm
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions, YesOption
from longhall.cli.output import Format, Row, columns, print_note, show_json, show_outcome, show_rows
from longhall.cli.rabbitmq_users import read_rabbitmq_users
from longhall.cli.secrets_input import GenerateOption, PasswordFileOption, read_password
from longhall.errors import LonghallError

if TYPE_CHECKING:
    from longhall.cli.api_client import ApiClient

app = typer.Typer(
    name="user",
    help="Users: add, list, disable, enable, delete, rotate, access keys, import.",
    no_args_is_help=True,
)

UserArgument = Annotated[str, typer.Argument(metavar="USER")]
TenantOption = Annotated[str, typer.Option("--tenant", "-t", help="The tenant of the user.")]
OverlapOption = Annotated[
    str, typer.Option("--overlap", metavar="DURATION", help="How long the old one stays valid, like 1h.")
]
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="- is standard input.")]

_LIST = columns("user tenant enabled administrator access_keys tokens", right="access_keys tokens")


@app.command("add")
@with_option_groups
def add(
    user: UserArgument,
    options: ApiOptions,
    tenant: TenantOption = "default",
    administrator: Annotated[bool, typer.Option("--administrator", help="May do everything.")] = False,
    password_file: PasswordFileOption = None,
    generate: GenerateOption = False,
    without_password: Annotated[
        bool, typer.Option("--without-password", help="A user with access keys or tokens only.")
    ] = False,
) -> None:
    """Add a user. As soon as there is one, every door asks its clients to log in; the first is an administrator."""
    value: dict[str, Any] = {"name": user, "tenant": tenant, "administrator": administrator}
    if without_password:
        value["without_password"] = True
    else:
        password = read_password(password_file, generate)
        value |= {"password": password} if password is not None else {}
    made = options.open_client().ask("POST", "users", dict[str, Any], value)
    _show_secret(made, f"added {user}", "password", options.output)


@app.command("list")
@with_option_groups
def list_users(
    options: ApiOptions,
    tenant: Annotated[str, typer.Option("--tenant", "-t", help="Of this tenant only.", show_default="all")] = "",
) -> None:
    """List users, without their secrets."""
    found = options.open_client().ask(
        "GET", "users", list[dict[str, Any]], query={"tenant": tenant} if tenant else None
    )
    if options.output is Format.JSON:
        show_json(found)
        return
    rows: list[Row] = [
        {
            "user": one["name"],
            "tenant": one["tenant"],
            "enabled": one["enabled"],
            "administrator": one["administrator"],
            "access_keys": len(one["access_keys"]),
            "tokens": len(one["tokens"]),
        }
        for one in found
    ]
    show_rows(rows, _LIST, options.output, "there are no users: every door is open to this machine")


@app.command()
@with_option_groups
def disable(user: UserArgument, options: ApiOptions) -> None:
    """Disable a user: it cannot log in any more, and its connections are closed."""
    _change(options, user, {"enabled": False}, f"disabled {user}")


@app.command()
@with_option_groups
def enable(user: UserArgument, options: ApiOptions) -> None:
    """Enable a user that was disabled."""
    _change(options, user, {"enabled": True}, f"enabled {user}")


@app.command()
@with_option_groups
def delete(user: UserArgument, options: ApiOptions, yes: YesOption = False) -> None:
    """Delete a user with its access keys, tokens, roles and access rules, and close its connections."""
    confirm(f"delete {user}?", yes)
    gone = options.open_client().ask("DELETE", _path(user), dict[str, Any])
    show_outcome(gone, f"deleted {user}", options.output)


@app.command()
@with_option_groups
def rotate(
    user: UserArgument,
    options: ApiOptions,
    overlap: OverlapOption = "0s",
    password_file: PasswordFileOption = None,
    generate: GenerateOption = False,
    access_key: Annotated[
        bool, typer.Option("--access-key", help="A new access key, generated, in place of the user's others.")
    ] = False,
) -> None:
    """Give a user a new password, or a new access key; the old one stays valid for the overlap."""
    overlap_ms = _milliseconds(overlap)
    if access_key:
        if password_file is not None or generate:
            raise CommandError("--access-key generates a key: leave out --password-file and --generate", Exit.USAGE)
        _add_key(options.open_client(), user, {"overlap_ms": overlap_ms}, options.output)
        return
    password = read_password(password_file, generate)
    value = {"overlap_ms": overlap_ms} | ({"password": password} if password is not None else {})
    made = options.open_client().ask("POST", _path(user, "password"), dict[str, Any], value)
    _show_secret(made, f"{user} has a new password", "password", options.output)


@app.command("add-key")
@with_option_groups
def add_key(user: UserArgument, options: ApiOptions) -> None:
    """Give a user one more access key for SQS, generated; its secret is printed once."""
    _add_key(options.open_client(), user, {}, options.output)


@app.command("delete-key")
@with_option_groups
def delete_key(
    access_key: Annotated[str, typer.Argument(metavar="KEY")], options: ApiOptions, overlap: OverlapOption = "0s"
) -> None:
    """End an access key, at once or after a time."""
    path = f"access-keys/{quote(access_key, safe='')}"
    gone = options.open_client().ask("DELETE", path, dict[str, Any], query={"after_ms": _milliseconds(overlap)})
    show_outcome(gone, f"deleted {access_key}", options.output)


@app.command("master-key")
def make_key(file: Annotated[str, typer.Argument(metavar="FILE")]) -> None:
    """Make a master key for the nodes of a cluster: copy the file to each of them, and name it with --master-key."""
    from longhall.front.master_key import make_master_key

    if Path(file).exists():
        raise CommandError(f"{file} exists: what was sealed under a key cannot be read without it", Exit.REFUSED)
    try:
        make_master_key(file)
    except LonghallError as error:
        raise CommandError(str(error), Exit.REFUSED) from None
    print_note(f"longhall: wrote {file}")


@app.command("import-aws")
@with_option_groups
def import_aws(file: FileArgument, options: ApiOptions, tenant: TenantOption = "default") -> None:
    """Add a user and its access key for every section of a credentials file of AWS."""
    from longhall.front.credentials import read_sections

    try:
        sections = read_sections(_text(file))
    except LonghallError as error:
        raise CommandError(str(error), Exit.USAGE) from None
    client = options.open_client()
    known = _known(client)
    keys = {key["access_key"] for user in known.values() for key in user["access_keys"]}
    added = [section for section in sections if section.access_key not in keys]  # An import may be repeated.
    for section in added:
        if section.label not in known:
            new = {"name": section.label, "tenant": tenant, "without_password": True}
            known[section.label] = client.ask("POST", "users", dict[str, Any], new)
        key = {"access_key": section.access_key, "secret": section.secret}
        client.ask("POST", _path(section.label, "access-keys"), dict[str, Any], key)
    names = [section.label for section in added]
    there = f"; {len(sections) - len(added)} were there already" if len(added) < len(sections) else ""
    show_outcome({"imported": names}, f"imported {len(names)} access keys{there}", options.output)


@app.command("import-rabbitmq")
@with_option_groups
def import_rabbitmq(file: FileArgument, options: ApiOptions, tenant: TenantOption = "default") -> None:
    """Add the users of a definitions file of RabbitMQ with their tags and permissions, and with new passwords: its
    hashes cannot be used for SCRAM.
    """
    try:
        users = read_rabbitmq_users(_text(file))
    except ValueError as error:
        raise CommandError(f"{file} is no definitions file: {error}", Exit.USAGE) from None
    client = options.open_client()
    known = _known(client)
    made = []
    for user in users:
        if user.name in known:
            continue
        new = {"name": user.name, "tenant": tenant, "administrator": user.is_administrator}
        made.append(client.ask("POST", "users", dict[str, Any], new))
        if user.roles:
            roles = {"roles": user.roles}
            client.ask("PUT", f"access/roles/{quote(user.name, safe='')}", dict[str, Any], roles)
        if user.rules:
            client.ask("POST", "access/rules", dict[str, Any], {"rules": user.rules})
        if user.ignored:
            print_note(f"longhall: {user.name}: the tags {', '.join(user.ignored)} have no counterpart")
    rows: list[Row] = [{"user": one["name"], "password": one["password"]} for one in made]
    show_rows(rows, columns("user password"), options.output, "every user of the file exists already")


def _add_key(client: ApiClient, user: str, value: dict[str, Any], output: Format) -> None:
    made = client.ask("POST", _path(user, "access-keys"), dict[str, Any], value)
    _show_secret(made, f"{user} has the access key {made['access_key']}", "secret", output)


def _show_secret(made: dict[str, Any], sentence: str, field: str, output: Format) -> None:
    secret = made.get(field)
    show_outcome(made, f"{sentence}; {field}: {secret}" if secret else sentence, output)
    if secret:
        print_note(f"longhall: the {field} is not shown again")


def _change(options: ApiOptions, user: str, value: dict[str, Any], sentence: str) -> None:
    changed = options.open_client().ask("PATCH", _path(user), dict[str, Any], value)
    show_outcome({"user": user, "enabled": changed["enabled"]}, sentence, options.output)


def _known(client: ApiClient) -> dict[str, dict[str, Any]]:
    """The users before an import, by name. From the first user on a command has to log in."""
    known = {one["name"]: one for one in client.ask("GET", "users", list[dict[str, Any]])}
    if not known:
        raise CommandError(
            "there are no users yet: add an administrator with `longhall user add NAME --administrator`, and import as "
            "that user (LONGHALL_USER and LONGHALL_PASSWORD)",
            Exit.REFUSED,
        )
    return known


def _path(user: str, *below: str) -> str:
    return "/".join(["users", quote(user, safe=""), *below])


def _milliseconds(text: str) -> int:
    from longhall.node.quantities import parse_duration_ms

    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise CommandError(f"--overlap: {error}", Exit.USAGE) from None


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {file}: {error}", Exit.USAGE) from None
