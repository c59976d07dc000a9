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
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="The most messages.")] = 1,
    everything: Annotated[bool, typer.Option("--all", help="Receive until the queue is empty.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Receive until interrupted.")] = False,
    wait: Annotated[str, typer.Option("--wait", "-w", help="How long to wait for the first message, like 20s.")] = "0",
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
    receiver = Receiver(open_client(address, profile), queue, options)
    if not receiver.run():
        print_note(f"nothing is available in {queue}")


def _duration(option: str, words: str) -> int:
    try:
        amount_ms = parse_duration_ms(words)
    except ValueError as failure:
        raise CommandError(f"{option}: {failure}", Exit.USAGE) from None
    if amount_ms < 0:
        raise CommandError(f"{option}: it cannot be unlimited; --follow waits for ever", Exit.USAGE)
    return amount_ms
