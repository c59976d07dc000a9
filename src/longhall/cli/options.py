"""The options that every command shares, spelt once."""

from __future__ import annotations

from typing import Annotated

import typer

from longhall.cli.output import Format

OutputOption = Annotated[Format, typer.Option("--output", "-o", help="A table for people or JSON for programs.")]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", "-a", metavar="HOST:PORT", help="The node's Kafka address. [env: LONGHALL_ADDRESS]"),
]
HttpOption = Annotated[
    str | None,
    typer.Option("--http", metavar="HOST:PORT", help="The node's HTTP address. [env: LONGHALL_HTTP_ADDRESS]"),
]
ProfileOption = Annotated[
    str | None, typer.Option("--profile", "-p", help="A named address from the configuration. [env: LONGHALL_PROFILE]")
]
