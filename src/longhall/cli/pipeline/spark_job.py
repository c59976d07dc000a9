"""The shared part of the pipeline's jobs: options, a Spark session, progress, and one line at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeVar, final

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.options import AddressOption, OutputOption, ProfileOption
from longhall.cli.output import Format, print_note
from longhall.cli.pipeline.interrupts import Interrupts
from longhall.cli.profiles import find_address, find_security

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID

PROGRESS_LINE_S: Final = 5.0  # Into a pipe, one line in so many seconds.
GOES_ON: Final = "the same command goes on where it was"

_T = TypeVar("_T")

BootstrapAliasOption = Annotated[str | None, typer.Option("--bootstrap", "-b", hidden=True)]  # Before: --address.
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", help="Spark's master: local[*] or spark://HOST:PORT. [env: LONGHALL_SPARK_MASTER]"
    ),
]
SparkOption = Annotated[
    list[str] | None, typer.Option("--spark", metavar="NAME=VALUE", help="A setting of Spark's own; repeatable.")
]
OnceOption = Annotated[
    bool, typer.Option("--once/--continuous", help="Process what exists and end, or run until interrupted.")
]
TopicsOption = Annotated[
    str, typer.Option("--topics", "-t", metavar="A,B", help="Topics and queues, by name, with commas between.")
]


@final
class ProgressDisplay:
    """Progress on standard error: a bar on a terminal, a line every few seconds into a pipe, nothing for JSON."""

    def __init__(self, silent: bool = False, clock: Callable[[], float] | None = None) -> None:
        import time

        self._silent = silent
        self._clock = clock or time.monotonic
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._told_at = -PROGRESS_LINE_S

    def say(self, words: str) -> None:
        """Print a line, unless it is empty."""
        if words and not self._silent:
            print_note(words)

    def show(self, words: str, done: int, total: int | None = None, unit: str = "messages") -> None:
        """Show the progress. A total of None is unknown."""
        if self._silent:
            return
        if sys.stderr.isatty():
            self._draw(f"{words}, {unit}", done, total)
        elif self._clock() - self._told_at >= PROGRESS_LINE_S:
            self._told_at = self._clock()
            print_note(f"{words}: {done:,}" + (f" of {total:,} {unit}" if total is not None else f" {unit}"))

    def _draw(self, words: str, done: int, total: int | None) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(words)
        assert self._task is not None
        self._bar.update(self._task, description=words, completed=done, total=total)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@final
class Job:
    """The session and the controls of a running job."""

    def __init__(self, spark: SparkSession, bootstrap: str, steps: ProgressDisplay, interrupts: Interrupts) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.steps = steps
        self.wait = interrupts.wait
        self._interrupts = interrupts

    def attend(self, work: Callable[[], _T], *, once: bool) -> _T | None:
        """Run the work, which may block only in `wait`.

        An interrupt is a regular end of a continuous job; a job that runs once fails with it. Raises CommandError.
        """
        done = self._interrupts.attend(work, self.spark.sparkContext.cancelAllJobs)
        if self._interrupts.came:
            self.steps.close()
            if once:
                raise CommandError(f"interrupted; {GOES_ON}", Exit.INTERRUPTED)
            self.steps.say(f"stopped; {GOES_ON}")
        return done


class SparkOptions(NamedTuple):
    """The options of a command that runs a job on Spark."""

    address: AddressOption = None
    bootstrap: BootstrapAliasOption = None
    master: MasterOption = None
    spark: SparkOption = None
    profile: ProfileOption = None
    output: OutputOption = Format.TABLE

    def start_job(self, name: str, *, reaches: bool = True) -> AbstractContextManager[Job]:
        """A session for one job, as `spark_job` describes it."""
        return spark_job(name, self, reaches=reaches)


def split_names(names: str) -> tuple[str, ...]:
    """The names in a list with commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


@contextmanager
def spark_job(name: str, options: SparkOptions, *, reaches: bool = True) -> Iterator[Job]:
    """Start the Spark session of one job, report every failure in one line with an exit code, and stop Spark.

    With `reaches` false the job reads an archive, and the hall is not contacted. A session that this process has
    already, as in a notebook, is used and not stopped.
    """
    from longhall.pipeline.spark import session

    address = find_address(options.address or options.bootstrap, options.profile)
    find_security(options.profile).export(os.environ)
    steps = ProgressDisplay(options.output is Format.JSON)
    borrowed = _has_session()
    with failures_in_one_line(), Interrupts() as interrupts:
        try:
            if reaches:
                check_reachable(address)
            steps.say("starting Spark")
            spark = session(options.master, name=f"longhall {name}", settings=_settings(options.spark), quiet=True)
        except KeyboardInterrupt:
            raise CommandError("interrupted before anything was done", Exit.INTERRUPTED) from None
        try:
            yield Job(spark, address, steps, interrupts)
        finally:
            steps.close()
            if not borrowed:
                spark.stop()


@contextmanager
def failures_in_one_line() -> Iterator[None]:
    """Reduce Spark's failures, which come with pages of Java, to the line that explains them."""
    from longhall.pipeline.refusals import one_line_reason

    try:
        yield
    except (CommandError, KeyboardInterrupt, typer.Exit):
        raise
    except Exception as failure:
        line = one_line_reason(failure)
        if line is None or os.environ.get("LONGHALL_DEBUG"):
            raise
        unreachable = line.startswith("no broker answers")
        raise CommandError(line, Exit.UNREACHABLE if unreachable else Exit.REFUSED) from None


def check_reachable(address: str) -> None:
    """Check that the broker answers before Spark takes seconds to start."""
    from longhall.client.hall import Hall
    from longhall.pipeline.blocking_client import BlockingClient

    async def sign_of_life(hall: Hall) -> None:
        await hall.metadata([])

    with BlockingClient(address) as client:
        client.ask(sign_of_life)


def _has_session() -> bool:
    if "pyspark" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def _settings(given: list[str] | None) -> dict[str, str]:
    settings = {}
    for each in given or []:
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise CommandError(f"--spark {each!r} must be NAME=VALUE", Exit.USAGE)
        settings[name.strip()] = value
    return settings
