"""Repeated output: a table that refreshes on a terminal, one table after another into a pipe."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Final

import typer

from longhall.cli.output import Column, Format, Row, render_rows, show_rows, text_of

INTERVAL_S: Final = 2.0

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Refresh every two seconds until interrupted.")]

Look = Callable[[], tuple[Sequence[Row], Sequence[Column]]]


def show(look: Look, output: Format, nothing: str, watching: bool) -> None:
    """Show the result of `look` once, or again and again until interrupted."""
    if watching:
        watch(look, output, nothing)
        return
    rows, columns = look()
    show_rows(rows, columns, output, nothing)


def watch(look: Look, output: Format, nothing: str, rounds: int = 0) -> None:
    """Show the result of `look` every two seconds; `rounds` ends it after so many."""
    if output is Format.TABLE and sys.stdout.isatty():
        _watch_live(look, nothing, rounds)
        return
    done = 0
    while True:
        rows, columns = look()
        if output is Format.JSON:
            print(json.dumps(list(rows), ensure_ascii=False, default=text_of), flush=True)
        else:
            show_rows(rows, columns, output, nothing)
            print(flush=True)
        done += 1
        if done == rounds:
            return
        time.sleep(INTERVAL_S)


def _watch_live(look: Look, nothing: str, rounds: int) -> None:
    from rich.live import Live

    done = 0
    with Live(auto_refresh=False) as live:
        while True:
            rows, columns = look()
            live.update(render_rows(rows, columns) if rows else nothing, refresh=True)
            done += 1
            if done == rounds:
                return
            time.sleep(INTERVAL_S)
