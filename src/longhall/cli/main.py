"""The `longhall` command: its subcommands and the end of each.

Commands import what they need when they run, so that `longhall --help` and shell completion stay quick. Only this file
turns a failure into an exit code: one line on standard error, never a traceback.
"""

from __future__ import annotations

import os
import sys

import typer

from longhall.cli import cluster, dlq, group, pipeline, queue, topic, transaction
from longhall.cli.bench import bench
from longhall.cli.consume import consume
from longhall.cli.doctor import doctor
from longhall.cli.exits import CommandError, Exit, explain
from longhall.cli.produce import produce
from longhall.cli.receive import receive
from longhall.cli.scrub import scrub
from longhall.cli.send import send
from longhall.cli.serve import serve
from longhall.cli.settings import settings
from longhall.cli.version import version
from longhall.errors import LonghallError

app = typer.Typer(
    name="longhall",
    help="Longhall, a distributed message queue: one durable log, many doors.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog=(
        "Exit codes: 0 done, 1 refused or damaged, 2 usage, 3 unreachable, 4 timed out, 5 disk failed, 70 bug, "
        "130 interrupted."
    ),
)
app.command()(serve)
app.command()(produce)
app.command()(consume)
app.add_typer(topic.app)
app.add_typer(group.app)
app.add_typer(transaction.app)
app.command()(send)
app.command()(receive)
app.add_typer(queue.app)
app.add_typer(dlq.app)
app.add_typer(pipeline.app)
app.add_typer(cluster.app)
app.command()(bench)
app.command()(doctor)
app.command()(scrub)
app.command()(settings)
app.command()(version)


def main() -> None:
    """The entry point."""
    try:
        app()
    except CommandError as failure:
        _end(str(failure), failure.exit_code)
    except LonghallError as failure:
        ending = explain(failure)
        _end(str(ending), ending.exit_code)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except Exception as failure:
        if os.environ.get("LONGHALL_DEBUG"):
            raise
        _end(f"a bug: {type(failure).__name__}: {failure}; run it again with LONGHALL_DEBUG=1 to see where", Exit.BUG)


def _end(message: str, code: Exit) -> None:
    print("longhall: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
