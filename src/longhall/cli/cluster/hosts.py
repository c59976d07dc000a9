"""`longhall cluster add|drain|move|factor`: change the replicas and the leader of a running cluster.

Any node can be asked. The cluster carries the change out by itself, also if this command is interrupted: the command
only waits and shows the progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.cluster.change import ClusterChange, run_change
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions

if TYPE_CHECKING:
    from longhall.console.cluster_view import ClusterView, HostView

NodeArgument = Annotated[int, typer.Argument(metavar="NODE", min=1, help="The number of a node.")]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done, and show the progress.")]


@with_option_groups
def add(
    node: NodeArgument,
    options: ApiOptions,
    wait: WaitOption = True,
) -> None:
    """Add a replica on a running node: it copies everything, and counts as a replica when it has it.

    A drained node becomes a replica again.
    """

    def done(view: ClusterView) -> bool:
        host = _host(view, node)
        return host is not None and host.keeps and host.in_sync and not host.leaving

    change = ClusterChange("POST", f"cluster/hosts/{node}/add", {}, done, f"node {node} has everything")
    run_change(change, wait, options)


@with_option_groups
def drain(
    node: NodeArgument,
    options: ApiOptions,
    wait: WaitOption = False,
) -> None:
    """Remove the replica of a node: it gives up leadership, another node takes its place if there is one, then it is
    empty.

    Its doors stay open; it can be stopped when it is done. Refused if too few nodes would be left.
    """

    def done(view: ClusterView) -> bool:
        host = _host(view, node)
        in_wings = any(node in wing.keepers for wing in view.wings if not wing.reserved)
        return view.leader != node and (host is None or not host.keeps) and not in_wings

    change = ClusterChange("POST", f"cluster/hosts/{node}/drain", {}, done, f"node {node} keeps nothing any more")
    run_change(change, wait, options)


@with_option_groups
def move(
    options: ApiOptions,
    source: Annotated[
        int | None, typer.Argument(metavar="[FROM]", min=1, help="The node whose replica is removed.")
    ] = None,
    target: Annotated[int | None, typer.Argument(metavar="[TO]", min=1, help="The node that gets the replica.")] = None,
    leader: Annotated[
        int | None, typer.Option(metavar="NODE", min=1, help="Transfer the leadership to this node.")
    ] = None,
    spread: Annotated[
        bool, typer.Option("--spread", help="Move one of two replicas in a rack to a rack without any.")
    ] = False,
    wait: WaitOption = True,
) -> None:
    """Move the replica of one node to another, or transfer the leadership."""
    copies = source is not None or target is not None
    if sum((copies, leader is not None, spread)) != 1 or (copies and (source is None or target is None)):
        raise CommandError("give FROM and TO, or --leader NODE, or --spread", Exit.USAGE)
    if leader is not None:

        def leads(view: ClusterView) -> bool:
            return view.leader == leader and view.serving

        change = ClusterChange("PUT", "cluster/leader", {"node": leader}, leads, f"node {leader} leads")
    else:
        asked = {} if spread else {"source": source, "target": target}
        change = ClusterChange("POST", "cluster/moves", asked, _is_settled, "the copies are where they should be")
    run_change(change, wait, options)


@with_option_groups
def factor(
    copies: Annotated[int, typer.Argument(metavar="COPIES", min=1, help="The number of replicas.")],
    options: ApiOptions,
    wait: WaitOption = True,
) -> None:
    """Change the number of replicas; nodes are chosen from as many racks as possible."""

    def done(view: ClusterView) -> bool:
        return view.factor == copies and sum(host.keeps for host in view.hosts) >= copies and _is_settled(view)

    change = ClusterChange("PUT", "cluster/factor", {"factor": copies}, done, f"{copies} nodes keep the hall")
    run_change(change, wait, options)


def _host(view: ClusterView, node: int) -> HostView | None:
    return next((host for host in view.hosts if host.node == node), None)


def _is_settled(view: ClusterView) -> bool:
    keepers = [host for host in view.hosts if host.keeps and host.alive]
    return all(host.in_sync for host in keepers) and not any(host.leaving for host in view.hosts)
