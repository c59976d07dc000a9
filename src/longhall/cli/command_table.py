"""The commands of `longhall`, by name: where each one is defined, and its line in the help.

A command is imported when it is run, not when the list is shown: importing all of them takes longer than most of them
run. A test compares the lines of this table with the help of the commands.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

WIDTH_MAX: Final = 120  # Of help texts; a narrower terminal wraps them at its own width.
HELP_OPTIONS: Final = {"help_option_names": ["--help", "-h"], "max_content_width": WIDTH_MAX}


class CommandEntry(NamedTuple):
    """One command: its module, its name there (`app` for a group of commands), and its line in the help."""

    module: str
    attribute: str
    help: str


COMMANDS: Final[Mapping[str, CommandEntry]] = {
    "serve": CommandEntry("serve", "serve", "Run a node."),
    "produce": CommandEntry(
        "produce", "produce", "Produce a message for every line of the files, or of standard input."
    ),
    "consume": CommandEntry(
        "consume", "consume", "Print messages up to the current end, or as they arrive (--follow)."
    ),
    "topic": CommandEntry("topic", "app", "Topics: create, list, describe, alter, truncate, delete."),
    "group": CommandEntry("group", "app", "Consumer groups: list, describe, reset, delete."),
    "transaction": CommandEntry("transaction", "app", "Transactions: list, describe, abort."),
    "send": CommandEntry("send", "send", "Send messages to a queue; what is acknowledged is on the disk."),
    "receive": CommandEntry(
        "receive", "receive", "Receive messages, write each body as a line, and settle what was written."
    ),
    "queue": CommandEntry(
        "queue",
        "app",
        "Queues: create, list, describe, alter, delete, purge, pause, resume, peek, search, rewind, fork.",
    ),
    "dlq": CommandEntry("dlq", "app", "Dead letters: list, show, edit, redrive, moves, cancel."),
    "pipeline": CommandEntry(
        "pipeline",
        "app",
        "Jobs on Spark: archive, replay, sql, report, reconcile, invoices. They need longhall[spark] and Java.",
    ),
    "user": CommandEntry("user", "app", "Users: add, list, disable, enable, delete, rotate, access keys, import."),
    "tenant": CommandEntry("tenant", "app", "Tenants: add, list, disable, enable, seal, delete."),
    "token": CommandEntry("token", "app", "API tokens: add, list, delete."),
    "access": CommandEntry("access", "app", "Access rules: allow, deny, list, remove; explain a decision."),
    "role": CommandEntry("role", "app", "Roles of users: list, grant, revoke."),
    "limit": CommandEntry("limit", "app", "Rate limits: set, list, delete."),
    "cluster": CommandEntry("cluster", "app", "Nodes that keep one hall together."),
    "balancer": CommandEntry("balancer", "app", "Balancers before a cluster: configurations."),
    "certificates": CommandEntry("certificates", "app", "Certificates of a test authority, for TLS."),
    "bench": CommandEntry(
        "bench", "bench", "Produce and consume at full speed for a few seconds, in a topic of its own."
    ),
    "exchange": CommandEntry(
        "exchange", "app", "Exchanges: create, list, delete, bind, unbind, test where a message would go, graph."
    ),
    "definitions": CommandEntry(
        "definitions", "app", "Definitions files of RabbitMQ: export what is declared, import a file."
    ),
    "doctor": CommandEntry(
        "doctor", "doctor", "Check a data directory. Nothing in it is changed; exit code 1 means damage."
    ),
    "keys": CommandEntry("keys", "app", "The data keys of sealed queues and topics: show, rotate, destroy."),
    "scrub": CommandEntry(
        "scrub",
        "scrub",
        "Show the progress of the scrub, which reads everything on the disks and repairs what is damaged.",
    ),
    "settings": CommandEntry("settings", "settings", "List every setting with its kind, default and meaning."),
    "version": CommandEntry("version", "version", "Show the version, and whether the hot rooms are compiled."),
}


def load_command(name: str) -> Any:
    """Import a command and build it, with all that is below it."""
    entry = COMMANDS[name]
    found = getattr(importlib.import_module(f"longhall.cli.{entry.module}"), entry.attribute)
    if isinstance(found, typer.Typer):
        found.rich_markup_mode = None
        return typer.main.get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, context_settings=HELP_OPTIONS)(found)
    return typer.main.get_command(alone)


class CommandTable(TyperGroup):
    """The group of all commands. Lists and completions see names and lines; only the chosen command is imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A placeholder with the name and the line of the help."""
        entry = COMMANDS.get(cmd_name)
        return None if entry is None else TyperCommand(cmd_name, help=entry.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments begin with, imported. A misspelt one raises a usage error with suggestions."""
        if args and args[0] not in COMMANDS:
            self.commands = {name: self.get_command(ctx, name) for name in COMMANDS}  # What is suggested.
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name is not None and command is not None else None, rest
