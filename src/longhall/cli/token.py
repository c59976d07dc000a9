"""`longhall token ...`: API tokens of users, for programs that call the HTTP API."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import Row, columns, print_note, show_outcome, show_rows

app = typer.Typer(name="token", help="API tokens: add, list, delete.", no_args_is_help=True)

_LIST = columns("token user label until_ms", right="until_ms")


@app.command("add")
@with_option_groups
def add(
    user: Annotated[str, typer.Argument(metavar="USER")],
    options: ApiOptions,
    label: Annotated[str, typer.Option("--label", help="What the token is for.")] = "",
    lifetime: Annotated[
        str, typer.Option("--lifetime", metavar="DURATION", help="How long it is valid; 0s is without end.")
    ] = "0s",
) -> None:
    """Give a user a token; it is printed once."""
    from longhall.node.quantities import parse_duration_ms

    try:
        value = {"label": label, "lifetime_ms": parse_duration_ms(lifetime)}
    except ValueError as error:
        raise CommandError(f"--lifetime: {error}", Exit.USAGE) from None
    made = options.open_client().ask("POST", f"users/{quote(user, safe='')}/tokens", dict[str, Any], value)
    show_outcome(made, f"{user} has the token {made['token_id']}: {made['token']}", options.output)
    print_note("longhall: the token is not shown again")


@app.command("list")
@with_option_groups
def list_tokens(
    options: ApiOptions,
    user: Annotated[str | None, typer.Option("--user", help="Of this user only.", show_default="all")] = None,
) -> None:
    """List tokens by the beginning of their hash."""
    users = options.open_client().ask("GET", "users", list[dict[str, Any]])
    rows: list[Row] = [
        {"token": token["token_id"], **token} for one in users if user in (None, one["name"]) for token in one["tokens"]
    ]
    show_rows(rows, _LIST, options.output, "there are no tokens")


@app.command()
@with_option_groups
def delete(token: Annotated[str, typer.Argument(metavar="ID")], options: ApiOptions) -> None:
    """Delete a token, by the id that the list shows."""
    gone = options.open_client().ask("DELETE", f"tokens/{quote(token, safe='')}", dict[str, Any])
    show_outcome(gone, f"deleted {token}", options.output)
