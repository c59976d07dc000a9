"""`longhall certificates`: a test authority, and certificates for nodes and clients."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from longhall.cli.exits import CommandError
from longhall.cli.output import print_note

NAME_LENGTH_MAX: Final = 64
DAYS: Final = 365

_CLIENT = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_TAKEN: Final = ("ca", "server")

app = typer.Typer(name="certificates", help="Certificates of a test authority, for TLS.", no_args_is_help=True)


@app.callback()
def certificates() -> None:
    """Certificates of a test authority, for TLS."""


@app.command()
def make(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Where to write them; made if it is missing.")],
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--name", metavar="HOST", help="A name or address of the nodes, beside localhost; may be repeated."
        ),
    ] = None,
    clients: Annotated[
        list[str] | None,
        typer.Option("--client", metavar="NAME", help="Also a certificate for this client; may be repeated."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long they are valid.")] = DAYS,
) -> None:
    """Make an authority, a certificate for nodes and some for clients. An authority that is there is used again."""
    from longhall.cli.certificate_maker import (
        AUTHORITY,
        LOOPBACK_NAMES,
        SERVER,
        make_authority,
        make_client,
        make_server,
        write_identity,
    )

    for client in clients or []:
        if _CLIENT.fullmatch(client) is None or client in _TAKEN:
            raise CommandError(f"{client!r} cannot name a client here: use letters, digits and ._@-, not ca or server")
    where = Path(directory)
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = make_authority(where, days)
        write_identity(where, SERVER, make_server(authority, [*(names or []), *LOOPBACK_NAMES], days))
        for client in clients or []:
            write_identity(where, client, make_client(authority, client, days))
    except OSError as error:
        raise CommandError(f"{error.filename or directory}: {error.strerror or error}") from None
    except ValueError as error:
        raise CommandError(f"{directory}: {error}") from None
    print_note(
        f"wrote {AUTHORITY}, {SERVER}{''.join(f', {client}' for client in clients or [])} (.crt and .key) to {where}\n"
        f"nodes:    longhall serve --tls-certificate {where}/server.crt --tls-key {where}/server.key\n"
        f"commands: longhall --ca {where}/ca.crt ..."
    )
