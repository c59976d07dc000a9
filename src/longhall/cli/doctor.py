"""`longhall doctor`: verify that a data directory has everything that was acknowledged."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.options import OutputOption
from longhall.cli.output import Format, columns, print_note, show_facts, show_json, show_rows

if TYPE_CHECKING:
    from longhall.cli.examination import Examination, Progress

_COPY_COLUMNS = columns(
    "node epoch last_index committed_index behind partitions compared directory",
    right="node epoch last_index committed_index behind partitions",
    titles={"committed_index": "committed"},
)
_COLUMNS = columns("severity place text", titles={"text": "what"})


def doctor(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DIRECTORY...", help="A node's data directory (./longhall-data), or several of one cluster."
        ),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read every message and check its checksum.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Check a data directory. Nothing in it is changed; exit code 1 means damage.

    Directories of several nodes of a cluster, none of which runs, are compared as well; exit code 1 means that they
    differ.
    """
    directories = data or ["./longhall-data"]
    if len(directories) > 1:
        _compare(directories, verify, output)
    else:
        _look_at(directories[0], verify, output)


def _look_at(data: str, verify: bool, output: Format) -> None:
    examination, running = _examine(data, verify)
    if running is not None:
        print_note(f"longhall: {running}; what it writes meanwhile may be misread, so stop it for a certain answer")
    findings = [finding._asdict() for finding in examination.findings]
    if output is Format.JSON:
        show_json({"directory": data, **examination.facts, "findings": findings, "damaged": examination.damaged})
    else:
        show_facts({"directory": data, **examination.facts}, output)
        if findings:
            print()
            show_rows(findings, _COLUMNS, output, "")
    if examination.damaged:
        raise CommandError(
            f"{data} is damaged: readers of these messages are refused and everything else is served; "
            "restore it from a copy, or let retention take the damaged part away"
        )
    if output is not Format.JSON:
        print_note("no damage found" if verify else "no damage found; --verify reads every message as well")


def _compare(directories: list[str], verify: bool, output: Format) -> None:
    """Examine every directory by itself, then compare them."""
    from longhall.cli.copy_comparison import compare, facts_of
    from longhall.errors import LonghallError
    from longhall.world.real.disk import RealDisk

    damaged: list[str] = []
    for directory in directories:
        examination, running = _examine(directory, verify)
        if running is not None:
            raise CommandError(f"{directory}: {running}; stop it before its copy is compared")
        for finding in examination.findings:
            print_note(f"{directory}: {finding.severity}: {finding.place}: {finding.text}")
        if examination.damaged:
            damaged.append(directory)
    if damaged:
        raise CommandError(f"{', '.join(damaged)}: damaged, so nothing can be compared; leave these out")
    try:
        comparison = compare({directory: RealDisk(directory) for directory in directories})
    except LonghallError as failure:
        raise CommandError(str(failure), Exit.USAGE) from None
    groups = comparison.agreeing()
    rows = facts_of(comparison)
    differences = [{"nodes": list(one.nodes), "what": one.what} for one in comparison.differences]
    if output is Format.JSON:
        show_json(
            {
                "hall_id": comparison.copies[0].identity.hall_id,
                "copies": rows,
                "common_index": comparison.common,
                "compared_at_index": comparison.index,
                "agree": groups,
                "differences": differences,
                "notes": comparison.notes,
            }
        )
    else:
        show_rows(rows, _COPY_COLUMNS, output, "")
        for line in comparison.notes:
            print_note(line)
        for one in comparison.differences:
            print_note(f"nodes {one.nodes[0]} and {one.nodes[1]} differ in {one.what}")
        for group in groups:
            print_note(f"the copies of nodes {', '.join(map(str, group))} agree at entry {comparison.index}")
    if comparison.differences:
        raise CommandError("the copies differ: keep those that agree, and have the others fetch everything")


def _examine(data: str, verify: bool) -> tuple[Examination, str | None]:
    import msgspec

    from longhall.cli.examination import Examination
    from longhall.errors import LonghallError
    from longhall.world.real.disk import RealDisk

    if not os.path.isfile(os.path.join(data, "longhall.json")):
        raise CommandError(f"{data} is not a data directory: it has no longhall.json", Exit.USAGE)
    try:
        with _locked(data) as running, _progress(verify) as progress:
            examination = Examination(RealDisk(data))
            examination.run(verify, progress)
            return examination, running
    except (LonghallError, msgspec.MsgspecError, KeyError, ValueError) as failure:
        raise CommandError(f"{data} cannot be understood: {failure}") from None
    except OSError as failure:
        raise CommandError(f"{failure.filename or data}: {failure.strerror}") from None


@contextmanager
def _locked(data: str) -> Iterator[str | None]:
    """Lock the directory against nodes during the examination; yields the current holder if it is locked."""
    import errno

    from longhall.world.real.disk import DirectoryLock

    lock = None
    running = None
    try:
        lock = DirectoryLock(data)
    except OSError as failure:
        if failure.errno == errno.EBUSY:
            running = (failure.strerror or "the data directory is in use").partition(":")[0]
        # A directory that cannot be written to cannot be locked, and no node can write to it either.
    try:
        yield running
    finally:
        if lock is not None:
            lock.release()


@contextmanager
def _progress(wanted: bool) -> Iterator[Progress]:
    """A progress bar on standard error, on a terminal only."""
    if not wanted or not sys.stderr.isatty():
        yield lambda done, whole: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("verifying"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("verifying", total=None)
        yield lambda done, whole: bar.update(task, completed=done, total=whole)
