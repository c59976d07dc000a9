"""Secrets that a command reads: from a file, from standard input, or from a prompt. Never from the command line, which
every user of the machine can read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from longhall.cli.exits import CommandError, Exit

PasswordFileOption = Annotated[
    str | None,
    typer.Option("--password-file", metavar="FILE", help="A file with the password in its first line; - is stdin."),
]
GenerateOption = Annotated[bool, typer.Option("--generate", help="Have a password generated, and print it once.")]


def read_password(file: str | None, generate: bool) -> str | None:
    """The password of a new user; None to have one generated. A person at a terminal is asked twice."""
    if file is not None and generate:
        raise CommandError("give --password-file or --generate, not both", Exit.USAGE)
    if generate:
        return None
    if file is not None:
        return _first_line(file)
    if sys.stdin.isatty():
        entered: str = typer.prompt("password", hide_input=True, confirmation_prompt=True)
        return entered
    raise CommandError("nobody can be asked for a password here: give --password-file FILE or --generate", Exit.USAGE)


def _first_line(file: str) -> str:
    try:
        text = sys.stdin.readline() if file == "-" else Path(file).read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {file}: {error}", Exit.USAGE) from None
    password = text.rstrip("\r\n")
    if not password:
        raise CommandError(f"{file} has no password in its first line", Exit.USAGE)
    return password
