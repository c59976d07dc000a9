"""Changes of a dead letter: its body by an option, a file or an editor, its attributes one by one."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from longhall.cli.exits import CommandError, Exit
from longhall.console.api.bodies import Text, shown
from longhall.console.api.letters import LetterOut


def attributes_after(letter: LetterOut, assignments: list[str], removed: list[str]) -> dict[str, object]:
    """The attributes of a letter after some are set and others removed."""
    attributes: dict[str, object] = dict(msgspec.to_builtins(letter.attributes))
    for name in removed:
        if attributes.pop(name, None) is None:
            raise CommandError(f"--unset {name}: the message has no such attribute", Exit.USAGE)
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise CommandError(f"--attribute {assignment}: write NAME=VALUE", Exit.USAGE)
        attributes[name] = value
    return attributes


def edited_body(letter: LetterOut, body: str | None, file: Path | None) -> Text:
    """The new body: from an option, from a file, or from an editor."""
    if body is not None:
        return body
    if file is not None:
        try:
            return shown(file.read_bytes())
        except OSError as failure:
            raise CommandError(f"{file}: {failure.strerror}", Exit.USAGE) from None
    if not sys.stdin.isatty():
        raise CommandError("nothing to change: give --body, --file, --attribute or --unset", Exit.USAGE)
    if not isinstance(letter.body, str):
        raise CommandError("the body is not text; give a new one with --file", Exit.USAGE)
    text = click.edit(letter.body, require_save=True)
    if text is None:
        raise CommandError("nothing was changed", Exit.REFUSED)
    return text if letter.body.endswith("\n") else text.removesuffix("\n")
