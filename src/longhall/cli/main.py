"""The `longhall` command and the end of each of its subcommands.

A command is imported when it runs (`command_table`), so that `longhall --help` and shell completion stay quick. Only
this file turns a failure into an exit code: one line on standard error, never a traceback.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from longhall.cli.command_table import HELP_OPTIONS, CommandTable
from longhall.cli.exits import CommandError, Exit, explain
from longhall.errors import LonghallError

app = typer.Typer(
    name="longhall",
    cls=CommandTable,
    help="Longhall, a distributed message queue: one durable log, many doors.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Brackets in the help are text, and Rich takes longer to import than a command to run.
    context_settings=HELP_OPTIONS,
    epilog=(
        "Exit codes: 0 done, 1 refused or damaged, 2 usage, 3 unreachable, 4 timed out, 5 disk failed, 70 bug, "
        "130 interrupted."
    ),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from longhall.cli.version import installed_version

        print(f"longhall {installed_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    ca: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Use TLS, with nodes of this authority. [env: LONGHALL_CA]"),
    ] = None,
    certificate: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Your certificate for TLS. [env: LONGHALL_CLIENT_CERTIFICATE]"),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Its private key, of mode 600. [env: LONGHALL_CLIENT_KEY]"),
    ] = None,
) -> None:
    # Here, so that the commands and the jobs that they start find them in one place.
    for name, value in (("CA", ca), ("CLIENT_CERTIFICATE", certificate), ("CLIENT_KEY", key)):
        if value is not None:
            os.environ[f"LONGHALL_{name}"] = os.path.abspath(value)


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
