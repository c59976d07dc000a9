"""The options that commands share: the address of a node, a profile, the output format."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from longhall.cli.addresses import DEFAULT_ADDRESS, DEFAULT_HTTP
from longhall.cli.output import Format

if TYPE_CHECKING:
    from longhall.cli.api_client import ApiClient
    from longhall.cli.profiles import HttpTarget
    from longhall.client.hall import Hall

OutputOption = Annotated[Format, typer.Option("--output", "-o", help="A table for people or JSON for programs.")]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        "-a",
        metavar="HOST:PORT",
        help="The node's Kafka address. [env: LONGHALL_ADDRESS]",
        show_default=DEFAULT_ADDRESS,
    ),
]
HttpAddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        "-a",
        metavar="HOST:PORT",
        help="The node's HTTP address. [env: LONGHALL_HTTP_ADDRESS]",
        show_default=DEFAULT_HTTP,
    ),
]
HttpAliasOption = Annotated[str | None, typer.Option("--http", hidden=True)]  # An earlier name of --address.
HttpOption = Annotated[  # Beside the Kafka address.
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="The node's HTTP address. [env: LONGHALL_HTTP_ADDRESS]",
        show_default=DEFAULT_HTTP,
    ),
]
ProfileOption = Annotated[
    str | None, typer.Option("--profile", "-p", help="A named address from the configuration. [env: LONGHALL_PROFILE]")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

_T = TypeVar("_T")


class ApiOptions(NamedTuple):
    """The options of a command that calls the HTTP API of a node."""

    address: HttpAddressOption = None
    http: HttpAliasOption = None
    profile: ProfileOption = None
    output: OutputOption = Format.TABLE

    def open_client(self) -> ApiClient:
        """Connect to the node that these options name."""
        from longhall.cli.api_client import open_client

        return open_client(self.address or self.http, self.profile)

    def find_target(self) -> HttpTarget:
        """The node that these options name."""
        from longhall.cli.profiles import find_http

        return find_http(self.address or self.http, self.profile)


class KafkaOptions(NamedTuple):
    """The options of a command that calls the Kafka door of a node."""

    address: AddressOption = None
    profile: ProfileOption = None
    output: OutputOption = Format.TABLE

    def call_hall(self, request: Callable[[Hall], Awaitable[_T]]) -> _T:
        """Connect to the node that these options name and run a request there."""
        from longhall.cli.kafka_client import call_hall

        return call_hall(self.address, self.profile, request)
