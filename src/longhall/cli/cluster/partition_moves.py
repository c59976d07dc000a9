"""`longhall cluster moves`: the partitions that move between replication groups, and how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longhall.cli.cluster.status import ask
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import Row, columns, short_size
from longhall.cli.watch import WatchOption, show

if TYPE_CHECKING:
    from longhall.cli.api_client import ApiClient

_COLUMNS = columns(
    "topic partition source target phase copied left_messages problem",
    right="partition copied left_messages",
    titles={"source": "from", "target": "to", "left_messages": "left"},
    people="copied",
)
_NOTHING = "no partition moves"


@with_option_groups
def moves(options: ApiOptions, watching: WatchOption = False) -> None:
    """Show the partitions that move between replication groups: phase, bytes copied, and messages left.

    Any node can be asked. `longhall topic placement` begins and cancels moves.
    """
    client = options.open_client()
    ask(client.place.address)  # Says so if the node is alone.
    show(lambda: (moves_under_way(client), _COLUMNS), options.output, _NOTHING, watching)


def moves_under_way(client: ApiClient) -> list[Row]:
    """All moves, as rows."""
    import msgspec

    from longhall.console.api.partition_moves import MovesUnderWay

    found = client.ask("GET", "cluster/partition-moves", MovesUnderWay)
    rows: list[Row] = []
    for move in found.moves:
        partition = "all" if move.partition < 0 else move.partition  # A queue moves as one unit.
        rows.append({**msgspec.to_builtins(move), "partition": partition, "copied": short_size(move.copied_bytes)})
    return rows
