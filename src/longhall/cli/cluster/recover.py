"""`longhall cluster recover`: inspect every node's copy when ZooKeeper has lost the record, and rebuild it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import Column, Format, Row, columns, show_outcome, show_rows

if TYPE_CHECKING:
    from longhall.console.api.recovery import RecoveryView

_COLUMNS: Final = columns(
    "node role copy epoch index committed replicas",
    right="node epoch index committed",
    titles={"index": "last entry", "replicas": "replicas noted"},
)


@with_option_groups
def recover(
    options: ApiOptions,
    apply: Annotated[
        bool, typer.Option("--yes", "-y", help="Rebuild the record. Without it, only show the plan.")
    ] = False,
    unclean: Annotated[
        int,
        typer.Option(min=0, metavar="NODE", help="Continue with this node's copy, though others may have more."),
    ] = 0,
) -> None:
    """Rebuild the record of a cluster from the logs of its nodes, after ZooKeeper lost it or was restored.

    Ask any node that runs. If every node answers whose copy may be the most complete, nothing can be lost, and the
    nodes rebuild the record by themselves. Otherwise this shows who is missing; start these nodes if you can. If you
    cannot, --unclean NODE goes on with one node's copy: what the others have beyond it is lost to readers, and is kept
    in the directories `given-up-N` of these nodes.
    """
    from longhall.console.api.recovery import RecoveryView

    asked = {"dry_run": not apply, "unclean": unclean}
    view = options.open_client().ask("POST", "cluster/recover", RecoveryView, asked)
    if options.output is Format.TABLE:
        _show_copies(view)
    show_outcome(_facts(view, apply), _sentence(view, unclean, apply), options.output)


def _show_copies(view: RecoveryView) -> None:
    rows: list[Row] = [
        {
            "node": one.node,
            "role": one.role,
            "copy": "intact" if one.intact else "none",
            "epoch": one.epoch,
            "index": one.index,
            "committed": one.committed,
            "replicas": ", ".join(map(str, one.replicas)) or "-",
            "lacked": f"{one.lost_entries} entries, {one.lost_committed} committed" if one.lost_entries else "-",
        }
        for one in view.copies
    ]
    columns = (*_COLUMNS, Column("lacked", f"lacked by node {view.chosen}")) if view.chosen else _COLUMNS
    show_rows(rows, columns, Format.TABLE, "no node answers")


def _facts(view: RecoveryView, apply: bool) -> dict[str, object]:
    import msgspec

    facts: dict[str, object] = msgspec.to_builtins(view)
    return {**facts, "dry_run": not apply}


def _sentence(view: RecoveryView, unclean: int, apply: bool) -> str:
    if view.done:
        return f"the record was rebuilt{f'; node {unclean} leads next' if unclean else ''}"
    if unclean:
        lost = [one for one in view.copies if one.lost_entries]
        names = "; ".join(f"{one.lost_entries} entries of node {one.node}" for one in lost)
        away = f"; what {_nodes(view.missing)} has is not known, since it does not answer" if view.missing else ""
        loss = f"would be lost: {names}" if lost else "no node that answers has more than this one"
        return f"with node {unclean} as leader: {loss}{away}. Add --yes to do it"
    if view.record == "fine":
        return "the record is fine: there is nothing to rebuild"
    if view.provable:
        return "the record can be rebuilt, and nothing is lost: the nodes do so by themselves, or add --yes"
    return (
        f"the record cannot be rebuilt safely: {view.reason}. Start {_nodes(view.missing) or 'the other nodes'}, or "
        f"see what going on with the most complete copy would lose: longhall cluster recover --unclean {view.chosen}"
    )


def _nodes(numbers: list[int]) -> str:
    if not numbers:
        return ""
    return f"node {numbers[0]}" if len(numbers) == 1 else f"nodes {', '.join(map(str, numbers))}"
