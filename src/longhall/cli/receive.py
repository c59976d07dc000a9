"""`longhall receive`: write messages of a queue and settle them."""

from __future__ import annotations

from typing import Annotated

import typer

from longhall.cli.completion import complete_queue
from longhall.cli.exits import CommandError, Exit
from longhall.cli.options import HttpAddressOption, HttpAliasOption, ProfileOption
from longhall.cli.output import print_note
from longhall.cli.produce import LineFormat, LineOutputOption
from longhall.node.quantities import parse_duration_ms
from longhall.queues.weighted_round_robin import WEIGHT_MAX


def receive(
    queues: Annotated[list[str], typer.Argument(metavar="QUEUE...", autocompletion=complete_queue)],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="The most messages.")] = 1,
    everything: Annotated[bool, typer.Option("--all", help="Receive until the queue is empty.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Receive until interrupted.")] = False,
    wait: Annotated[str, typer.Option("--wait", "-w", help="How long to wait for the first message, like 20s.")] = "0s",
    lease: Annotated[
        str | None, typer.Option("--lease", help="The length of the lease; by default that of the queue.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Do not settle: the messages are delivered again when their lease ends.")
    ] = False,
    filter: Annotated[
        str, typer.Option("--filter", help="Only messages whose attributes match: kind = 'order' AND size > 5.")
    ] = "",
    raw: Annotated[bool, typer.Option("--raw", help="Write bodies without line ends between them.")] = False,
    address: HttpAddressOption = None,
    http: HttpAliasOption = None,
    profile: ProfileOption = None,
    output: LineOutputOption = LineFormat.TEXT,
) -> None:
    """Receive messages, write each body as a line, and settle what was written.

    Several queues are served by weight: `orders=3 mail=1` takes three messages of orders for each of mail while both
    have some. A queue without a weight has 1.

    A broken pipe loses nothing: a message that was not written is not settled, and is delivered again.
    """
    from longhall.cli.api_client import open_client
    from longhall.cli.receiver import ReceiveOptions, Receiver

    if everything and follow:
        raise CommandError("give --all or --follow, not both", Exit.USAGE)
    options = ReceiveOptions(
        limit=None if everything or follow else count,
        follow=follow,
        wait_ms=_duration("--wait", wait),
        lease_ms=-1 if lease is None else _duration("--lease", lease),
        keep=keep,
        filter=filter,
        as_json=output is LineFormat.JSON,
        ending=b"" if raw else b"\n",
    )
    weights = _weights(queues)
    receiver = Receiver(open_client(address or http, profile), weights, options)
    if not receiver.run():
        print_note(f"nothing is available in {', '.join(weights)}")


def _weights(words: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        name, equals, weight = word.partition("=")
        if equals and not (weight.isascii() and weight.isdigit() and 1 <= int(weight) <= WEIGHT_MAX):
            raise CommandError(f"{word}: a weight is a number from 1 to {WEIGHT_MAX}, as in {name}=3", Exit.USAGE)
        if name in found:
            raise CommandError(f"{name} is named twice", Exit.USAGE)
        found[name] = int(weight) if equals else 1
    return found


def _duration(option: str, words: str) -> int:
    try:
        amount_ms = parse_duration_ms(words, unit_required=True)
    except ValueError as failure:
        raise CommandError(f"{option}: {failure}", Exit.USAGE) from None
    if amount_ms < 0:
        raise CommandError(f"{option}: it cannot be unlimited; --follow waits for ever", Exit.USAGE)
    return amount_ms
