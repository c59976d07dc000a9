"""A change of a cluster that a command requests at one node, and its progress, which the leader reports."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from longhall.cli.cluster.status import ask, ask_leader, behind_of
from longhall.cli.exits import CommandError, Exit
from longhall.cli.options import ApiOptions
from longhall.cli.output import Format, print_note, show_outcome

if TYPE_CHECKING:
    from longhall.console.cluster_view import ClusterView

LOOK_AGAIN_S: Final = 0.2
SILENCE_S_MAX: Final = 60.0  # Without a leader, or without an answer.

Show = Callable[[str, int, int], None]  # What is going on, and how much of how much is done.


class ClusterChange(NamedTuple):
    """The request of a change, the test whether it is done, and the message at its end."""

    method: str
    path: str
    asked: Mapping[str, object]
    is_done: Callable[[ClusterView], bool]
    said: str


def run_change(change: ClusterChange, wait: bool, options: ApiOptions) -> None:
    """Request a change, and wait until it is done if `wait` says so."""
    from longhall.console.api.hosts import Begun

    client = options.open_client()
    known = [host.http for host in ask(client.place.address).hosts if host.http]
    begun = client.ask(change.method, change.path, Begun, change.asked)
    if not wait:
        show_outcome({"message": begun.message, "done": False}, begun.message, options.output)
        return
    quiet = options.output is Format.JSON
    if not quiet:
        print_note(begun.message)
    with _shown(quiet) as show:
        for view in _views([client.place.address, *known]):
            if change.is_done(view):
                break
            show(*_stage(view))
    show_outcome({"message": change.said, "done": True}, change.said, options.output)


def _views(places: list[str]) -> Iterator[ClusterView]:
    """Yield the leader's view repeatedly. The nodes that were known at the start are asked for the leader."""
    heard = time.monotonic()
    while True:
        view = next((view for place in places if (view := ask_leader(place)) is not None), None)
        if view is not None:
            heard = time.monotonic()
            yield view
        elif time.monotonic() - heard > SILENCE_S_MAX:
            message = f"no leader for {SILENCE_S_MAX:.0f} s; `longhall cluster status` shows the nodes"
            raise CommandError(message, Exit.TIMED_OUT)
        time.sleep(LOOK_AGAIN_S)


@contextmanager
def _shown(quiet: bool) -> Iterator[Show]:
    """A progress bar on a terminal, else a line for every stage."""
    if quiet or not sys.stderr.isatty():
        told: list[str] = []

        def line(stage: str, done: int, total: int) -> None:
            beginning = stage.partition(":")[0]
            if not quiet and beginning not in told:
                told.append(beginning)
                print_note(stage)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)

        def bar(stage: str, done: int, total: int) -> None:
            progress.update(task, description=stage, completed=done, total=total or None)

        yield bar


def _stage(view: ClusterView) -> tuple[str, int, int]:
    for host in view.hosts:
        if host.copied_bytes is not None and host.copied_bytes_total is not None:
            return f"node {host.node}: {behind_of(host)}", host.copied_bytes, host.copied_bytes_total
    for host in view.hosts:
        if host.keeps and host.alive and not host.in_sync:
            return f"node {host.node} catches up: {behind_of(host)}", 0, 0
    for host in view.hosts:
        if host.leaving:
            return f"node {host.node} leaves", 0, 0
    return "waiting", 0, 0
