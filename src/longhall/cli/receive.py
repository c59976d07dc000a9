"""`longhall receive`: write messages of a queue and settle them."""

from __future__ import annotations

from typing import Annotated

import typer

from longhall.cli.completion import complete_queue
from longhall.cli.exits import CommandError, Exit
from longhall.cli.options import HttpOption, ProfileOption
from longhall.cli.output import print_note
from longhall.cli.produce import LineFormat, LineOutputOption
from longhall.node.quantities import parse_duration_ms


def receive(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", autocompletion=complete_queue)],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="So many at most.")] = 1,
    everything: Annotated[bool, typer.Option("--all", help="Until nothing is available any more.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="For as long as messages come.")] = False,
    wait: Annotated[str, typer.Option("--wait", "-w", help="Wait so long for the first one, like 20s.")] = "0",
    lease: Annotated[
        str | None, typer.Option("--lease", help="How long they are hidden from others; else as the queue.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Do not settle: they come back when their lease is over.")
    ] = False,
    filter: Annotated[
        str, typer.Option("--filter", help="Only those whose attributes fit: kind = 'order' AND size > 5.")
    ] = "",
    raw: Annotated[bool, typer.Option("--raw", help="Bodies as they are, without line ends between them.")] = False,
    address: HttpOption = None,
    profile: ProfileOption = None,
    output: LineOutputOption = LineFormat.TEXT,
) -> None:
    """Receive messages, write each body as a line, and settle what was written.

    A broken pipe loses nothing: a message that was not written is not settled, and is delivered again.
    """
    from longhall.cli.api_client import open_client
    from longhall.cli.receiver import ReceiveOptions, Receiver

    if everything and follow:
        raise CommandError("say --all or --follow, not both", Exit.USAGE)
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
    receiver = Receiver(open_client(address, profile), queue, options)
    if not receiver.run():
        print_note(f"nothing is available in {queue}")


def _duration(option: str, words: str) -> int:
    try:
        amount_ms = parse_duration_ms(words)
    except ValueError as failure:
        raise CommandError(f"{option}: {failure}", Exit.USAGE) from None
    if amount_ms < 0:
        raise CommandError(f"{option}: it cannot be without end; --follow waits for ever", Exit.USAGE)
    return amount_ms
