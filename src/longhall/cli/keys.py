"""`longhall keys ...`: the data keys of sealed queues and topics."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from longhall.cli.confirmation import confirm
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions, YesOption
from longhall.cli.output import Row, columns, show_outcome, show_rows

app = typer.Typer(
    name="keys", help="The data keys of sealed queues and topics: show, rotate, destroy.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A queue or topic.")]

_KEYS = columns("number master created_ms seals", right="number created_ms")


@app.command()
@with_option_groups
def show(name: NameArgument, options: ApiOptions) -> None:
    """Show the data keys: under which master key each is wrapped, and which one seals now."""
    view = options.open_client().ask("GET", f"keys/{quote(name, safe='')}", dict[str, Any])
    rows: list[Row] = [dict(key) for key in view["keys"]]
    show_rows(rows, _KEYS, options.output, f"{name} has no data keys")


@app.command()
@with_option_groups
def rotate(name: NameArgument, options: ApiOptions) -> None:
    """Make a new data key, which seals from now on, and wrap the older ones anew under their master keys.

    What the older keys have sealed stays readable until they are destroyed.
    """
    view = options.open_client().ask("POST", f"keys/{quote(name, safe='')}/rotate", dict[str, Any])
    show_outcome(view, f"data key {view['keys'][-1]['number']} seals {name} now", options.output)


@app.command()
@with_option_groups
def destroy(
    name: NameArgument,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="The number of the data key.")],
    options: ApiOptions,
    yes: YesOption = False,
) -> None:
    """Destroy a data key. Everything that it has sealed is unreadable for ever."""
    confirm(f"destroy data key {number} of {name}, and with it everything that it has sealed?", yes)
    view = options.open_client().ask("DELETE", f"keys/{quote(name, safe='')}/{number}", dict[str, Any])
    show_outcome(view, f"destroyed data key {number} of {name}", options.output)
