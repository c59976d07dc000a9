"""`longhall settings`: every setting of a node, printed from the struct itself so that the list is always current."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.options import OutputOption
from longhall.cli.output import Column, Format, columns, show_rows
from longhall.errors import LonghallError

_COLUMNS = columns("name kind shown meaning", titles={"name": "setting", "shown": "default"}, people="shown")


def settings(
    output: OutputOption = Format.TABLE,
    toml: Annotated[
        bool, typer.Option("--toml", help="Print a settings file with every default, to start from.")
    ] = False,
    file: Annotated[
        str | None,
        typer.Option("--settings", metavar="FILE", help="Show what this file and the environment would make of it."),
    ] = None,
) -> None:
    """List every setting with its kind, default and meaning.

    A setting is spelt the same in the settings file, in the environment (upper case after LONGHALL_, with __ for the
    dot) and after --set. Durations and sizes may be written in words: "10s", "2 weeks", "256 MiB".
    """
    from longhall.node.sources import every_setting, load, value_of

    try:
        current = load(file, os.environ if file is not None else None).settings
    except LonghallError as failure:
        raise CommandError(str(failure), Exit.USAGE) from None
    if toml:
        print(settings_file())
        return
    rows = [
        {
            "name": setting.name,
            "kind": setting.kind,
            "default": setting.default,
            "value": value_of(current, setting.path),
            "shown": setting.show(value_of(current, setting.path)),
            "environment": setting.variable,
            "meaning": setting.meaning,
        }
        for setting in every_setting()
        if not setting.hidden
    ]
    columns = _COLUMNS if file is None else (*_COLUMNS[:2], Column("shown", "value"), _COLUMNS[3])
    show_rows(rows, columns, output, "")


def settings_file() -> str:
    """A settings file with every default as a comment."""
    from longhall.node.setting_kinds import DURATION, SIZE
    from longhall.node.sources import every_setting

    lines = ["# Settings of a Longhall node. What is commented out is the default."]
    section: tuple[str, ...] = ()
    for setting in sorted(every_setting(), key=lambda each: each.path[:-1]):
        if setting.hidden:
            continue
        if setting.path[:-1] != section:
            section = setting.path[:-1]
            lines += ["", f"[{'.'.join(section)}]"]
        shown = setting.show(setting.default)
        bare = isinstance(setting.default, (bool, int, float)) and setting.kind not in (DURATION, SIZE)
        value = shown if bare else f'"{"" if setting.default is None else shown}"'
        lines += ["", f"# {setting.meaning} ({setting.kind})", f"# {setting.path[-1]} = {value}"]
    return "\n".join(lines)
