"""Over which period a job looks, and where it looks: a running hall or an archive. For reconcile and report."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.timestamps import parse_timestamp_ms

if TYPE_CHECKING:
    from longhall.pipeline.fates import Period

SinceOption = Annotated[
    str, typer.Option("--since", metavar="TIME", help="Of messages sent from then on: 2026-01-31T12:00 or '2h ago'.")
]
UntilOption = Annotated[str, typer.Option("--until", metavar="TIME", help="And before then.")]
ArchiveOption = Annotated[
    str | None, typer.Option("--archive", metavar="DIR", help="Look into an archive instead of the running hall.")
]


def period_of(since: str, until: str) -> Period:
    """Both as people say them."""
    from longhall.pipeline.fates import Period

    now_ms = int(time.time() * 1000)
    period = Period(parse_timestamp_ms(since, now_ms), parse_timestamp_ms(until, now_ms))
    if period.from_ms >= period.until_ms:
        raise CommandError(f"--since {since} is not before --until {until}", Exit.USAGE)
    return period
