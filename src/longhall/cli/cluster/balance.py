"""`longhall cluster balance`: move leadership from busy hosts to idle ones, and partitions to groups with few."""

from __future__ import annotations

from typing import Annotated

import typer

from longhall.cli.cluster.status import ask
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import Format, columns, print_note, show_json, show_rows

_COLUMNS = columns(
    "group source target placed load_bytes_a_second",
    right="source target placed load_bytes_a_second",
    titles={"source": "from", "target": "to", "load_bytes_a_second": "bytes/s"},
)

_PARTITIONS = columns("topic partition source target", right="partition", titles={"source": "from", "target": "to"})


@with_option_groups
def balance(
    options: ApiOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
) -> None:
    """Move the leadership of groups so that every host leads its share of the load, and partitions of topics so that
    every group has its share, while clients continue.

    A cluster whose default placement is spread does so by itself, unless the setting balance_automatic is false.
    """
    import msgspec

    from longhall.cluster.placement.group_balancer import BalancePlan

    client = options.open_client()
    ask(client.place.address)  # Says so if the node is alone.
    plan = client.ask("POST", "cluster/balance", BalancePlan, {"dry_run": dry_run})
    if options.output is Format.JSON:
        show_json(msgspec.to_builtins(plan))
        return
    rows = [msgspec.to_builtins(move) for move in plan.moves]
    show_rows(rows, _COLUMNS, options.output, "the hosts are balanced: no group is moved")
    partitions = [msgspec.to_builtins(move) for move in plan.partitions]
    show_rows(partitions, _PARTITIONS, options.output, "the groups are balanced: no partition is moved")
    if plan.begun:
        print_note(
            "the moves have begun; `longhall cluster wing list` shows the leaders, `longhall cluster moves` partitions"
        )
