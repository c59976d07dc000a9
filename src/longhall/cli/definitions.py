"""`longhall definitions ...`: definitions files of RabbitMQ, written and read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from longhall.cli.confirmation import confirm
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions, YesOption
from longhall.cli.output import print_note, show_outcome

app = typer.Typer(
    name="definitions",
    help="Definitions files of RabbitMQ: export what is declared, import a file.",
    no_args_is_help=True,
)

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="- is standard input or output.")]
HostOption = Annotated[
    str | None, typer.Option("--vhost", "-V", help="One virtual host only.", show_default="all of them")
]
_SECTIONS = ("vhosts", "exchanges", "queues", "bindings", "policies")


@app.command("export")
@with_option_groups
def export(file: FileArgument, options: ApiOptions, vhost: HostOption = None) -> None:
    """Write everything that is declared to a file, without messages, exclusive queues and queues of other doors."""
    found = options.open_client().ask("GET", _path(vhost), dict[str, Any])
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}", Exit.USAGE) from None
    counts = {name: len(found.get(name, [])) for name in _SECTIONS}
    show_outcome({"file": file, **counts}, f"wrote {_counted(counts)} to {file}", options.output)


@app.command("import")
@with_option_groups
def take(file: FileArgument, options: ApiOptions, vhost: HostOption = None, yes: YesOption = False) -> None:
    """Declare everything of a file; nothing if a part of it cannot be. What exists and is the same stays."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        value = json.loads(text)
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}", Exit.USAGE) from None
    except ValueError as error:
        raise CommandError(f"{file} is no JSON: {error}", Exit.USAGE) from None
    if not isinstance(value, dict):
        raise CommandError(f"{file} is no definitions file: it is no JSON object", Exit.USAGE)
    counts = {name: len(rows) if isinstance(rows := value.get(name), list) else 0 for name in _SECTIONS}
    confirm(f"declare {_counted(counts)}?", yes)
    done = options.open_client().ask("POST", _path(vhost), dict[str, Any], value)
    show_outcome({**counts, "ignored": done["ignored"]}, f"declared {_counted(counts)}", options.output)
    if done["ignored"]:
        ignored = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in done["ignored"].items())
        print_note(f"not declared: {ignored}; {done['reason']}")


def _path(vhost: str | None) -> str:
    return "definitions" if vhost is None else f"definitions/{quote(vhost, safe='')}"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
