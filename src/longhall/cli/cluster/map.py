"""`longhall cluster map`: where every partition of every topic and queue is, and how large it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.cluster.status import ask
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import Row, columns, short_size
from longhall.cli.watch import WatchOption, show

if TYPE_CHECKING:
    from longhall.cli.api_client import ApiClient
    from longhall.cluster.placement.cluster_map import MappedPartition

_COLUMNS = columns(
    "name kind partition group leader replicas in_sync messages size",
    right="partition leader messages size",
    people="size",
)


@with_option_groups
def cluster_map(
    options: ApiOptions,
    prefix: Annotated[
        str, typer.Argument(metavar="[PREFIX]", help="Only topics and queues whose names have this prefix.")
    ] = "",
    watching: WatchOption = False,
) -> None:
    """Show the partitions of topics and queues: replication group, leader, replicas, in-sync set, and size.

    Any node can be asked.
    """

    client = options.open_client()
    ask(client.place.address)  # Says so if the node is alone.
    nothing = f"there is no topic or queue {prefix}..." if prefix else "there are no topics and no queues"
    show(lambda: (_rows(client, prefix), _COLUMNS), options.output, nothing, watching)


def _rows(client: ApiClient, prefix: str) -> list[Row]:
    from longhall.cluster.placement.cluster_map import PAGE_TOPICS_MAX, MapPage

    pages = client.pages("cluster/map", MapPage, {"prefix": prefix, "limit": PAGE_TOPICS_MAX})
    return [_row(one) for page in pages for one in page.partitions]


def _row(one: MappedPartition) -> Row:
    return {
        "name": one.name,
        "kind": one.kind,
        "partition": one.partition,
        "placement": one.placement,
        "group": one.group,
        "leader": one.leader or None,
        "replicas": one.replicas,
        "in_sync": one.in_sync,
        "messages": one.messages,
        "size_bytes": one.size_bytes,
        "size": short_size(one.size_bytes) if one.size_bytes is not None else "?",
    }
