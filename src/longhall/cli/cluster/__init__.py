"""`longhall cluster`: several nodes on this machine with one command, and how those of any cluster do."""

from __future__ import annotations

import typer

from longhall.cli.cluster.hosts import add, drain, factor, move
from longhall.cli.cluster.recover import recover
from longhall.cli.cluster.scale_local import scale_local
from longhall.cli.cluster.status import status
from longhall.cli.cluster.up import up
from longhall.cli.cluster.upgrade import upgrade
from longhall.cli.cluster.wings import app as wings

app = typer.Typer(name="cluster", help="Nodes that keep one hall together.", no_args_is_help=True)
app.command()(up)
app.command()(status)
app.command()(add)
app.command()(drain)
app.command()(move)
app.command()(factor)
app.command()(upgrade)
app.command()(recover)
app.command("scale-local")(scale_local)
app.add_typer(wings)
