"""The Kafka connection of a command, from connecting to closing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

from longhall.cli.addresses import parse_kafka_address, protocol_at, unreachable, untrusted
from longhall.cli.exits import CommandError, Exit, explain
from longhall.cli.profiles import find_address, find_security
from longhall.client.hall import Hall
from longhall.client.login import Login
from longhall.client.refusals import Refused, Unreachable
from longhall.node.addresses import Address
from longhall.world.real.network import RealNetwork

_T = TypeVar("_T")


def call_hall(address: str | None, profile: str | None, conversation: Callable[[Hall], Awaitable[_T]]) -> _T:
    """Connect, run a request on a loop of its own, and report every failure as one line."""
    place = parse_kafka_address(find_address(address, profile))
    security = find_security(profile)
    network = RealNetwork(context=security.context())
    try:
        return asyncio.run(_converse(network, place, security.login, conversation))
    except Refused as failure:
        raise _refused(failure) from None
    except Unreachable as failure:
        raise CommandError(str(failure).rstrip("."), Exit.TIMED_OUT) from None
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None


async def _converse(
    network: RealNetwork, place: Address, login: Login | None, conversation: Callable[[Hall], Awaitable[_T]]
) -> _T:
    try:
        hall = await Hall.connect(network, str(place), client_id="longhall-cli", login=login)
    except Unreachable as failure:
        if isinstance(failure.__cause__, ssl.SSLError):
            raise untrusted(place, failure.__cause__) from None
        other = protocol_at(place)
        if other:
            raise CommandError(
                f"what answers at {place} speaks {other} and not Kafka's: give the Kafka address with --address"
            ) from None
        raise unreachable(place) from None
    try:
        return await conversation(hall)
    finally:
        hall.close()


def _refused(failure: Refused) -> CommandError:
    ending = explain(failure)
    # "NAME: words" becomes "plain code: words (NAME)": the words for people, the name for the search engine.
    words = str(ending).removeprefix(failure.name).removeprefix(": ").removeprefix("; ")
    plain = failure.code.value.replace("-", " ")
    return CommandError(f"{plain} ({failure.name})" + (f": {words}" if words else ""), ending.exit_code)
