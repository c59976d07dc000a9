"""`longhall scrub`: the progress of the background scrub on every node, and the start of a pass."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import Format, Row, columns, print_note, short_age, short_size, show_rows

if TYPE_CHECKING:
    from longhall.cli.api_client import ApiClient
    from longhall.service.administration import ScrubStatus

LOOK_AGAIN_S: Final = 0.3
SILENCE_S_MAX: Final = 60.0

_COLUMNS = columns(
    "node wing done bytes damage repaired damaged last",
    right="node done bytes damage repaired damaged",
    titles={"bytes": "of", "damaged": "damaged now", "last": "complete"},
    people="done bytes last",
)


@with_option_groups
def scrub(
    options: ApiOptions,
    now: Annotated[bool, typer.Option("--now", help="Start a pass at once on every node, and wait for it.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="With --now: wait until it is done.")] = True,
) -> None:
    """Show the progress of the scrub, which reads everything on the disks and repairs what is damaged.

    Any node of a cluster can be asked for all of them. A pass runs within the scrub_interval_ms of each node; with
    --now it runs at scrub_bytes_a_second_max. Exit code 1 means that something is damaged and could not be repaired.
    """

    client = options.open_client()
    views = _ask(client, "POST" if now else "GET")
    if now and wait:
        views = _wait(client, views, quiet=options.output is Format.JSON)
    show_rows([_row(view) for view in views], _COLUMNS, options.output, "there are no nodes")
    damaged = [f"node {view.node}: {path}" for view in views for path in view.damaged_now]
    if damaged and not (now and not wait):
        raise CommandError(f"damaged and not repaired: {'; '.join(damaged[:5])}")


def _ask(client: ApiClient, method: str) -> list[ScrubStatus]:
    from longhall.service.administration import ScrubStatus

    return client.ask(method, "scrub", list[ScrubStatus])


def _wait(client: ApiClient, before: list[ScrubStatus], *, quiet: bool) -> list[ScrubStatus]:
    """Wait until every process that answered has finished another pass, and its findings are repaired or given up."""
    passes = {(view.node, view.wing): view.passes for view in before if not view.reason}
    heard = time.monotonic()
    told = -1
    while True:
        time.sleep(LOOK_AGAIN_S)
        try:
            views = _ask(client, "GET")
            heard = time.monotonic()
        except CommandError:  # A node that restarts, or transfers its leadership, answers again in a moment.
            if time.monotonic() - heard > SILENCE_S_MAX:
                raise
            continue
        open_ones = [one for one in views if _is_open(one, passes)]
        if not open_ones:
            return views
        percent = int(100 * sum(0.0 if one in open_ones and not one.ratio else one.ratio for one in views) / len(views))
        if not quiet and percent != told and sys.stderr.isatty():
            print(f"\r{percent} % verified ", end="", file=sys.stderr, flush=True)
        elif not quiet and percent // 25 != told // 25:
            print_note(f"{percent} % verified")
        told = percent
        if time.monotonic() - heard > SILENCE_S_MAX:
            raise CommandError("the nodes do not answer any more", Exit.TIMED_OUT)


def _is_open(view: ScrubStatus, passes: dict[tuple[int, str], int]) -> bool:
    known = passes.get((view.node, view.wing))
    if known is None:
        return False
    if view.reason:
        return True
    return view.passes <= known if view.passes >= known else view.passes < 1  # The node may have restarted meanwhile.


def _row(view: ScrubStatus) -> Row:
    now_ms = int(time.time() * 1000)
    last = f"{short_age(max(now_ms - view.completed_ms, 0))} ago" if view.completed_ms else "never"
    return {
        "node": view.node,
        "wing": view.wing,
        "passes": view.passes,
        "ratio": view.ratio,
        "done": f"{100 * view.ratio:.0f} %",
        "bytes": short_size(view.bytes_total),
        "bytes_done": view.bytes_done,
        "bytes_total": view.bytes_total,
        "damage": view.damage,
        "repaired": view.repaired,
        "damaged": view.damaged_count,
        "damaged_now": view.damaged_now,
        "last": view.reason or last,
        "completed_ms": view.completed_ms,
        "interval_ms": view.interval_ms,
        "reason": view.reason,
    }
