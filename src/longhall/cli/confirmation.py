"""Questions that a person answers before something is deleted, and the deletion of several things by name."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.output import show_outcome

if TYPE_CHECKING:
    from longhall.cli.options import KafkaOptions
    from longhall.client.hall import Hall


def confirm(question: str, yes: bool) -> None:
    """Ask at a terminal. A script cannot be asked: it states its consent with --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} nothing was done, since nobody can be asked here; give --yes", Exit.USAGE)
    if not typer.confirm(question):
        raise CommandError("nothing was done", Exit.REFUSED)


def delete_by_name(names: list[str], delete: Callable[[Hall, str], Awaitable[None]], options: KafkaOptions) -> None:
    """Delete one thing after the other over one connection, and report all of them."""

    async def ask(hall: Hall) -> None:
        for name in names:
            await delete(hall, name)

    options.call_hall(ask)
    show_outcome({"deleted": names}, f"deleted {', '.join(names)}", options.output)
