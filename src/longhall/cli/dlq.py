"""`longhall dlq ...`: list, show, edit and redrive dead letters."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from longhall.cli.completion import complete_queue
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import (
    Format,
    Row,
    columns,
    print_note,
    show_facts,
    show_json,
    show_outcome,
    show_rows,
    values_of,
)
from longhall.cli.queue_browse import body_text
from longhall.cli.timestamps import show_timestamp

if TYPE_CHECKING:
    from longhall.cli.api_client import ApiClient
    from longhall.console.api.letters import LetterOut
    from longhall.queues.messages import MoveTask

LOOK_AGAIN_S: Final = 0.2
ENDED: Final = ("COMPLETED", "CANCELLED", "FAILED")

app = typer.Typer(name="dlq", help="Dead letters: list, show, edit, redrive, moves, cancel.", no_args_is_help=True)

QueueArgument = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        help="A dead-letter queue, or the queue whose dead letters are meant.",
        autocompletion=complete_queue,
    ),
]
MessageArgument = Annotated[str, typer.Argument(metavar="MESSAGE", help="The id of the message.")]

_LETTERS = columns(
    "message_id died reason source attempts body", right="attempts", titles={"message_id": "id", "source": "from"}
)
_MOVES = columns(
    "task_id state to moved to_move started failure",
    right="moved to_move",
    titles={"task_id": "task", "to_move": "of"},
    people="to",
)


@app.command("list")
@with_option_groups
def list_letters(
    queue: QueueArgument,
    options: ApiOptions,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="The most messages.")] = 20,
) -> None:
    """List dead letters with the reason, the source and the number of attempts."""
    from longhall.cli.api_client import queue_path
    from longhall.console.api.letters import LettersOut
    from longhall.console.api.messages import COUNT_MAX

    client, name = _open(options, queue)
    found: list[LetterOut] = []
    after = ""
    while len(found) < count:
        query = {"count": min(count - len(found), COUNT_MAX), "after": after}
        page = client.ask("GET", queue_path(name, "letters"), LettersOut, query=query)
        found += page.letters
        after = page.next
        if not after:
            break
    if options.output is Format.JSON:
        _show_json(found)
    else:
        show_rows([_row(letter) for letter in found], _LETTERS, options.output, f"there are no dead letters in {name}")


@app.command()
@with_option_groups
def show(
    queue: QueueArgument,
    message: MessageArgument,
    options: ApiOptions,
) -> None:
    """Show one dead letter with its attributes, its attempts and its body."""
    from longhall.cli.api_client import queue_path
    from longhall.console.api.letters import LetterOut

    client = options.open_client()
    letter = client.ask("GET", queue_path(_letters_of(client, queue), "letters", message), LetterOut)
    if options.output is Format.JSON:
        _show_json(letter)
        return
    facts: dict[str, object] = {**_row(letter), "sent": show_timestamp(letter.sent_ms), "group": letter.group}
    facts.pop("body")
    for number, attempt in enumerate(letter.history, 1):
        facts[f"attempt {number}"] = f"{show_timestamp(attempt.received_ms)}, {attempt.how}"
    for name, value in letter.attributes.items():
        facts[f"attribute {name}"] = value if isinstance(value, str) else value.value or value.base64
    show_facts(facts, options.output)
    print()
    print(letter.body if isinstance(letter.body, str) else letter.body.base64)


@app.command()
@with_option_groups
def edit(
    queue: QueueArgument,
    message: MessageArgument,
    options: ApiOptions,
    body: Annotated[str | None, typer.Option("--body", "-b", help="The new body.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="A file with the new body.")] = None,
    attribute: Annotated[
        list[str] | None, typer.Option("--attribute", "-A", metavar="NAME=VALUE", help="Set an attribute; repeatable.")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", "-u", metavar="NAME", help="Remove an attribute; repeatable.")
    ] = None,
) -> None:
    """Change the body or the attributes of a dead letter; without options the body opens in your editor."""
    from longhall.cli.api_client import queue_path
    from longhall.cli.letter_editor import attributes_after, edited_body
    from longhall.console.api.letters import LetterOut

    if body is not None and file is not None:
        raise CommandError("give --body or --file, not both", Exit.USAGE)
    client = options.open_client()
    path = queue_path(_letters_of(client, queue), "letters", message)
    letter = client.ask("GET", path, LetterOut)
    value: dict[str, object] = {}
    if attribute or unset:
        value["attributes"] = attributes_after(letter, attribute or [], unset or [])
    if body is not None or file is not None or not value:
        value["body"] = edited_body(letter, body, file)
    changed = client.ask("PATCH", path, LetterOut, value)
    if options.output is Format.JSON:
        _show_json(changed)
    else:
        print_note(f"edited {message}")


@app.command()
@with_option_groups
def redrive(
    queue: QueueArgument,
    options: ApiOptions,
    target: Annotated[
        str,
        typer.Option(
            "--to",
            help="The target queue; by default each message returns to its source.",
            autocompletion=complete_queue,
        ),
    ] = "",
    rate: Annotated[int, typer.Option("--rate", min=0, help="Messages a second; 0: no limit.")] = 0,
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="MESSAGE", help="Only this message; repeatable.")
    ] = None,
    filter: Annotated[str, typer.Option("--filter", "-f", help="Only messages whose attributes match.")] = "",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Start the move and do not wait for its end.")] = False,
) -> None:
    """Move dead letters back to their queues. The move continues if this command or the node is stopped."""
    from longhall.cli.api_client import queue_path
    from longhall.queues.messages import MoveTask

    client, name = _open(options, queue, any_queue=bool(target))
    value = {"target": target, "rate_max": rate, "ids": ids or [], "filter": filter}
    move = client.ask("POST", queue_path(name, "moves"), MoveTask, value)
    if no_wait:
        sentence = f"began to move {move.to_move} messages; `longhall dlq moves {name}` shows the progress"
        show_outcome(values_of([_move_row(move)], _MOVES)[0], sentence, options.output)
        return
    try:
        move = _follow(client, name, move, options.output)
    except KeyboardInterrupt:
        print_note(
            f"the move continues; `longhall dlq moves {name}` shows its progress, `longhall dlq cancel {name}` stops it"
        )
        raise
    sentence = f"moved {move.moved} of {move.to_move} messages: {move.state.lower()}"
    show_outcome(values_of([_move_row(move)], _MOVES)[0], sentence, options.output)
    if move.state == "FAILED":
        raise CommandError(f"the move failed: {move.failure}")


def _follow(client: ApiClient, name: str, move: MoveTask, output: Format) -> MoveTask:
    """Wait for the end of a move, with a progress bar on a terminal."""
    if output is Format.JSON or not sys.stderr.isatty():
        while move.state not in ENDED:
            time.sleep(LOOK_AGAIN_S)
            move = _look(client, name, move.task_id)
        return move
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    with Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=move.to_move, completed=move.moved)
        while move.state not in ENDED:
            time.sleep(LOOK_AGAIN_S)
            move = _look(client, name, move.task_id)
            progress.update(task, completed=move.moved)
    return move


def _look(client: ApiClient, name: str, task_id: str) -> MoveTask:
    for move in _moves(client, name):
        if move.task_id == task_id:
            return move
    raise CommandError("the node has forgotten the move")


def _moves(client: ApiClient, name: str) -> list[MoveTask]:
    from longhall.cli.api_client import queue_path
    from longhall.console.api.letters import Moves

    return client.ask("GET", queue_path(name, "moves"), Moves).moves


@app.command()
@with_option_groups
def moves(
    queue: QueueArgument,
    options: ApiOptions,
) -> None:
    """Show the redrives of a queue, the newest first."""

    client, name = _open(options, queue, any_queue=True)
    rows = [_move_row(move) for move in _moves(client, name)]
    show_rows(rows, _MOVES, options.output, f"nothing was moved out of {name}")


@app.command()
@with_option_groups
def cancel(
    queue: QueueArgument,
    options: ApiOptions,
) -> None:
    """Stop the running redrive; messages that were moved stay moved."""
    from longhall.queues.messages import MoveTask

    client, name = _open(options, queue, any_queue=True)
    running = [move for move in _moves(client, name) if move.state not in ENDED]
    if not running:
        raise CommandError(f"no move out of {name} is running")
    move = client.ask("DELETE", f"moves/{running[0].task_id}", MoveTask)
    show_outcome(
        values_of([_move_row(move)], _MOVES)[0], f"cancelled: {move.moved} of {move.to_move} were moved", options.output
    )


def _open(options: ApiOptions, queue: str, any_queue: bool = False) -> tuple[ApiClient, str]:
    """A client, and the name of the dead-letter queue that is meant."""
    client = options.open_client()
    return client, _letters_of(client, queue, any_queue)


def _letters_of(client: ApiClient, queue: str, any_queue: bool = False) -> str:
    """The dead-letter queue that is meant: the named queue if it is one, else the one of the named queue.

    A queue that is neither is refused, unless any queue will do: messages can be moved out of all of them.
    """
    from longhall.cli.api_client import queue_path
    from longhall.console.api.queues import QueueShape

    described = client.ask("GET", queue_path(queue), QueueShape)
    letters = described.settings.get("dead_letters")
    if described.dead_letters_of:
        return queue
    if isinstance(letters, dict):
        return str(letters["queue"])
    if not any_queue and not _has_letters(client, queue):
        raise CommandError(
            f"{queue} has no dead-letter queue and is none; "
            f"`longhall queue alter {queue} --dead-letters NAME` gives it one"
        )
    return queue


def _has_letters(client: ApiClient, queue: str) -> bool:
    """True if the queue still has dead letters of queues that are deleted or have another dead-letter queue now."""
    from longhall.cli.api_client import queue_path
    from longhall.console.api.letters import LettersOut

    page = client.ask("GET", queue_path(queue, "letters"), LettersOut, query={"count": 1})
    return any(letter.died_ms for letter in page.letters)


def _row(letter: LetterOut) -> Row:
    return {
        "message_id": letter.message_id,
        "died": show_timestamp(letter.died_ms) if letter.died_ms else None,
        "reason": letter.reason,
        "source": letter.source,
        "attempts": letter.attempts,
        "leased": letter.leased,
        "body": body_text(letter.body),
    }


def _move_row(move: MoveTask) -> Row:
    return {
        "task_id": move.task_id,
        "state": move.state.lower(),
        "source": move.source,
        "target": move.target or None,
        "to": move.target or "where they came from",
        "moved": move.moved,
        "to_move": move.to_move,
        "rate_max": move.rate_max,
        "started": show_timestamp(move.started_ms),
        "failure": move.failure,
    }


def _show_json(value: object) -> None:
    import msgspec

    show_json(msgspec.to_builtins(value))
