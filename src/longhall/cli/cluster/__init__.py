"""`longhall cluster`: start a cluster on this machine, and operate any cluster."""

from __future__ import annotations

import typer

from longhall.cli.cluster.balance import balance
from longhall.cli.cluster.hosts import add, drain, factor, move
from longhall.cli.cluster.map import cluster_map
from longhall.cli.cluster.partition_moves import moves
from longhall.cli.cluster.recover import recover
from longhall.cli.cluster.scale_local import scale_local
from longhall.cli.cluster.secret import app as secret
from longhall.cli.cluster.status import status
from longhall.cli.cluster.up import up
from longhall.cli.cluster.upgrade import upgrade
from longhall.cli.cluster.wings import app as wings
from longhall.cli.scrub import scrub

app = typer.Typer(name="cluster", help="Nodes that keep one hall together.", no_args_is_help=True)
for command in (up, status, add, drain, move, moves, factor, balance, upgrade, recover, scrub):
    app.command()(command)
app.command("map")(cluster_map)
app.command("scale-local")(scale_local)
app.add_typer(secret)
app.add_typer(wings)
