"""`longhall cluster secret`: the file with the secret by which the nodes of a cluster authenticate each other."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated, Final

import typer

from longhall.cli.exits import CommandError
from longhall.cli.output import print_note

SECRET_NAME: Final = "cluster-secret"  # The file that `cluster up` makes.
SECRET_BYTES: Final = 32

app = typer.Typer(name="secret", help="The secret that nodes prove to each other.", no_args_is_help=True)


@app.callback()
def secret() -> None:
    """The secret by which nodes authenticate each other."""


@app.command()
def make(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write it; it must not exist.")],
) -> None:
    """Create a new secret in a file that only this user can read."""
    make_secret(Path(file))
    print_note(f"wrote {file}: copy it to every node of the cluster, and name it there with --cluster-secret {file}")


def make_secret(path: Path) -> None:
    """Create a secret in a new file of mode 600."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise CommandError(f"{path} exists already: a secret is never overwritten") from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(SECRET_BYTES) + "\n")
        file.flush()
        os.fsync(file.fileno())
