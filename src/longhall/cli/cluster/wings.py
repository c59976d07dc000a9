"""`longhall cluster wing list|add|remove`: additional replication groups of a cluster, on chosen hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.cluster.change import ClusterChange, run_change
from longhall.cli.cluster.hosts import WaitOption
from longhall.cli.cluster.status import ask, best_view
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import Row, columns, show_rows

if TYPE_CHECKING:
    from longhall.console.cluster_view import ClusterView, WingView

_COLUMNS = columns("wing number leader in_sync keepers reserved placed", right="number leader placed")

app = typer.Typer(name="wing", help="Halls of their own beside the hall, on chosen hosts.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="What the wing is called.")]


@app.command("list")
@with_option_groups
def list_wings(
    options: ApiOptions,
) -> None:
    """Show the wings of a cluster: the leader of each, its replicas, and how much is placed there.

    Any node can be asked; the leader of the hall knows what is placed.
    """

    view = best_view(ask(options.find_target().address))
    rows = [_row(wing) for wing in view.wings]
    show_rows(rows, _COLUMNS, options.output, "there are no wings: the cluster has one host, or has just started")


@app.command("add")
@with_option_groups
def add_wing(
    name: NameArgument,
    hosts: Annotated[
        str, typer.Option("--hosts", metavar="NODE,NODE...", help="Where it is; the first leads it if it can.")
    ],
    options: ApiOptions,
    reserved: Annotated[
        bool, typer.Option("--reserved", help="These hosts keep nothing else: they are drained first.")
    ] = False,
    wait: WaitOption = True,
) -> None:
    """Create a wing on these hosts, or move it there. The placement wing:NAME puts queues and topics there."""
    try:
        numbers = [int(host) for host in hosts.split(",")]
    except ValueError:
        raise CommandError("--hosts are numbers of nodes, separated by commas", Exit.USAGE) from None

    def done(view: ClusterView) -> bool:
        wing = next((wing for wing in view.wings if wing.name == name), None)
        return wing is not None and wing.leader != 0 and sorted(wing.in_sync) == sorted(numbers) == sorted(wing.hosts)

    asked = {"hosts": numbers, "reserved": reserved}
    change = ClusterChange("PUT", f"cluster/wings/{name}", asked, done, f"the wing {name} is led and in sync")
    run_change(change, wait, options)


@app.command("remove")
@with_option_groups
def remove_wing(
    name: NameArgument,
    options: ApiOptions,
) -> None:
    """Remove a wing in which nothing is placed."""

    def done(view: ClusterView) -> bool:
        return all(wing.name != name for wing in view.wings)

    change = ClusterChange("DELETE", f"cluster/wings/{name}", {}, done, f"the wing {name} is gone")
    run_change(change, True, options)


def _row(wing: WingView) -> Row:
    return {
        "wing": wing.name,
        "number": wing.number,
        "leader": wing.leader or None,
        "in_sync": ", ".join(map(str, wing.in_sync)),
        "keepers": ", ".join(map(str, wing.keepers)),
        "hosts": wing.hosts,
        "reserved": wing.reserved,
        "placed": wing.placed,
    }
