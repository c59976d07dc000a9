"""A new placement of a topic or queue, as `longhall topic placement` and `longhall queue placement` ask for it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from longhall.cli.exits import CommandError, Exit
from longhall.cli.options import ApiOptions

if TYPE_CHECKING:
    from longhall.console.api.partition_moves import MovesBegun

LOOK_S: Final = 0.3


def check_one(wanted: str, group: bool, cancel: bool, group_option: str) -> None:
    """A placement, groups, or a cancellation: one of them has to be given."""
    if sum((bool(wanted), group, cancel)) != 1:
        raise CommandError(f"give a placement, {group_option}, or --cancel", Exit.USAGE)


def change_placement(
    options: ApiOptions, kind: str, name: str, body: Mapping[str, object] | None, wait: bool
) -> MovesBegun:
    """Begin the moves to a new placement, or without a body cancel those under way. With `wait` return at their end."""
    from longhall.cli.cluster.partition_moves import moves_under_way
    from longhall.cli.cluster.status import ask
    from longhall.console.api.partition_moves import MovesBegun

    client = options.open_client()
    ask(client.place.address)  # Says so if the node is alone.
    begun = client.ask("DELETE" if body is None else "PUT", f"{kind}/{name}/placement", MovesBegun, body)
    while wait and any(move["topic"] == name for move in moves_under_way(client)):
        time.sleep(LOOK_S)
    return begun
