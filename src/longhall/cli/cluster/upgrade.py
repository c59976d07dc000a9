"""`longhall cluster upgrade`: raise the feature level of a cluster, once every node runs the new version."""

from __future__ import annotations

from typing import Annotated

import typer

from longhall.cli.exits import CommandError
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import show_outcome


@with_option_groups
def upgrade(
    options: ApiOptions,
    level: Annotated[
        int, typer.Option(min=0, metavar="N", help="The level; without it the newest that every node knows.")
    ] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")] = False,
) -> None:
    """Raise the feature level: from then on nodes write formats that the version before cannot read.

    Until then the old version can be started again on every node. Afterwards it is refused, and the level never goes
    down. `longhall cluster status` shows the level, and the levels that each node supports.
    """
    from longhall.broker.feature_gates import WORDS
    from longhall.service.administration import RaisedLevel

    asked = {"level": level, "dry_run": dry_run}
    try:
        done = options.open_client().ask("POST", "cluster/upgrade", RaisedLevel, asked)
    except CommandError as failure:
        if not str(failure).startswith("there is nothing of this name"):
            raise
        raise CommandError(
            "the node that leads is of a version that knows no feature levels: start the new one there"
        ) from None
    facts: dict[str, object] = {
        "before": done.before,
        "level": done.level,
        "possible": done.possible,
        "obstacles": done.obstacles,
        "dry_run": dry_run,
    }
    if done.level == done.before:
        why = f": {'; '.join(done.obstacles)}" if done.obstacles else ""
        sentence = f"the cluster is at feature level {done.level}, and there is no newer one that all nodes know{why}"
    else:
        brings = "; ".join(WORDS[number] for number in range(done.before + 1, done.level + 1) if number in WORDS)
        verb = "could be raised" if dry_run else "was raised"
        sentence = f"the feature level {verb} from {done.before} to {done.level}: {brings}"
    show_outcome(facts, sentence, options.output)
