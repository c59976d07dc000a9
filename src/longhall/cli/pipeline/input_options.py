"""The input of reconcile and report: the period of the messages, and the hall or archive that they are read from."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.options import HttpOption
from longhall.cli.profiles import HttpTarget, find_http
from longhall.cli.timestamps import parse_timestamp_ms
from longhall.errors import LonghallError

if TYPE_CHECKING:
    from longhall.cli.pipeline.spark_job import Job
    from longhall.pipeline.archive.opening import ArchiveKeys
    from longhall.pipeline.fates import Period
    from longhall.pipeline.job_input import ArchiveInput, LiveInput

SinceOption = Annotated[
    str, typer.Option("--since", metavar="TIME", help="Only messages sent from then on: 2026-01-31T12:00 or '2h ago'.")
]
UntilOption = Annotated[str, typer.Option("--until", metavar="TIME", help="Only messages sent before then.")]
ArchiveOption = Annotated[
    str | None, typer.Option("--archive", metavar="DIR", help="Read an archive instead of the running hall.")
]
KeysOption = Annotated[
    str | None,
    typer.Option("--keys", metavar="FILE", help="The master keys of an archive with ciphertext, as `serve` has them."),
]
StateOption = Annotated[
    bool, typer.Option("--state/--no-state", help="Ask the queues for the messages that they have now.")
]


class InputOptions(NamedTuple):
    """The options that choose the messages of a job and where they are read."""

    since: SinceOption = "24h ago"
    until: UntilOption = "now"
    archive: ArchiveOption = None
    keys: KeysOption = None
    state: StateOption = True
    http: HttpOption = None

    def check(self) -> None:
        """Raises CommandError for a period that cannot be read, before a job starts."""
        check_keys(self.keys, self.archive)
        period_of(self.since, self.until)

    def http_target(self, profile: str | None) -> HttpTarget:
        """The HTTP API that is asked for the state of queues; an empty address if none is to be asked."""
        return find_http(self.http, profile) if self.state else HttpTarget("")

    def open(self, job: Job, profile: str | None) -> LiveInput | ArchiveInput:
        """The running hall, or the archive if one is named."""
        from longhall.pipeline.job_input import ArchiveInput, LiveInput

        if self.archive:
            return ArchiveInput(job.spark, self.archive, archive_keys(self.keys, self.archive))
        return LiveInput(job.spark, job.bootstrap, *self.http_target(profile)[:3])


def check_keys(keys: str | None, archive: str | None) -> None:
    """Raises CommandError for keys without an archive: a running hall opens messages itself."""
    if keys and not archive:
        raise CommandError("--keys is for archives; a running hall has its own keys", Exit.USAGE)


def archive_keys(keys: str | None, archive: str) -> ArchiveKeys | None:
    """The data keys of an archive; None without a file of master keys."""
    from longhall.node.credentials import Known
    from longhall.pipeline.archive.opening import unwrap_keys

    if not keys:
        return None
    try:
        masters = Known(None, keys).keys  # The file is read and checked as a node does it.
    except LonghallError as error:
        raise CommandError(str(error), Exit.USAGE) from None
    assert masters is not None
    return unwrap_keys(masters, archive)


def period_of(since: str, until: str) -> Period:
    """The period between two times as people write them."""
    from longhall.pipeline.fates import Period

    now_ms = int(time.time() * 1000)
    period = Period(parse_timestamp_ms(since, now_ms), parse_timestamp_ms(until, now_ms))
    if period.from_ms >= period.until_ms:
        raise CommandError(f"--since {since} is not before --until {until}", Exit.USAGE)
    return period
