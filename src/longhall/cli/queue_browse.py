"""`longhall queue peek` and `search`: show messages without receiving them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from longhall.cli.completion import complete_queue
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import Format, Row, columns, short_size, show_json, show_rows
from longhall.cli.timestamps import parse_timestamp_ms, show_timestamp

if TYPE_CHECKING:
    from longhall.cli.api_client import ApiClient
    from longhall.console.api.bodies import Text
    from longhall.console.api.browsing import SeenOut

BODY_CHARACTERS_MAX: Final = 60

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", autocompletion=complete_queue)]
CountOption = Annotated[int, typer.Option("--count", "-n", min=1, help="The most messages.")]
SettledOption = Annotated[bool, typer.Option("--settled", help="Show settled messages that are still kept as well.")]

_COLUMNS = columns(
    "place state sent attempts group message_id body", right="place attempts", titles={"message_id": "id"}
)


@with_option_groups
def peek(
    queue: QueueArgument,
    options: ApiOptions,
    count: CountOption = 10,
    settled: SettledOption = False,
) -> None:
    """Show the next messages of a queue without receiving them: waiting, leased and delayed ones."""

    found = _peek(options.open_client(), queue, count, settled)
    _show(list(found), options.output, f"there is nothing in {queue}")


@with_option_groups
def search(
    queue: QueueArgument,
    options: ApiOptions,
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="Text that the body contains.")] = "",
    filter: Annotated[
        str, typer.Option("--filter", "-f", help="On attributes: kind = 'order' AND size > 5, or a policy in JSON.")
    ] = "",
    since: Annotated[str | None, typer.Option("--from", help="Sent since, like 2026-01-31T12:00 or '2h ago'.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Sent before.")] = None,
    count: CountOption = 10,
    settled: SettledOption = False,
) -> None:
    """Find messages by their content, without receiving them."""

    now_ms = int(time.time() * 1000)
    criteria: dict[str, object] = {
        "text": text,
        "filter": filter,
        "from_ms": 0 if since is None else parse_timestamp_ms(since, now_ms),
        "until_ms": 0 if until is None else parse_timestamp_ms(until, now_ms),
        "settled": settled,
    }
    found = _search(options.open_client(), queue, count, criteria)
    _show(list(found), options.output, "nothing was found")


def _peek(client: ApiClient, queue: str, count: int, settled: bool) -> Iterator[SeenOut]:
    from longhall.cli.api_client import queue_path
    from longhall.console.api.browsing import PageOut
    from longhall.console.api.messages import COUNT_MAX

    after = ""
    while count > 0:
        query = {"count": min(count, COUNT_MAX), "after": after, "settled": str(settled).lower()}
        page = client.ask("GET", queue_path(queue, "messages"), PageOut, query=query)
        yield from page.messages
        count -= len(page.messages)
        after = page.next
        if not after:
            return


def _search(client: ApiClient, queue: str, count: int, criteria: dict[str, object]) -> Iterator[SeenOut]:
    """Yield the results of all pages: a page may be empty and still have a next one."""
    from longhall.cli.api_client import queue_path
    from longhall.console.api.browsing import PageOut
    from longhall.console.api.messages import COUNT_MAX

    after = ""
    while count > 0:
        value = {**criteria, "count": min(count, COUNT_MAX), "after": after}
        page = client.ask("POST", queue_path(queue, "search"), PageOut, value)
        yield from page.messages
        count -= len(page.messages)
        after = page.next
        if not after:
            return


def _show(found: list[SeenOut], output: Format, nothing: str) -> None:
    if output is Format.JSON:
        import msgspec

        show_json(msgspec.to_builtins(found))
        return
    show_rows([_row(seen) for seen in found], _COLUMNS, output, nothing)


def _row(seen: SeenOut) -> Row:
    message = seen.message
    return {
        "place": f"{seen.lane}:{seen.offset}" if seen.offset >= 0 else "-",
        "state": seen.state,
        "sent": show_timestamp(message.sent_ms),
        "attempts": message.attempts,
        "group": message.group,
        "message_id": message.message_id,
        "body": f"({short_size(message.whole_bytes)} in parts)" if message.whole_bytes else body_text(message.body),
    }


def body_text(body: Text) -> str:
    """The beginning of a body, for a table cell."""
    text = body if isinstance(body, str) else f"({len(body.base64)} bytes) {body.base64[:BODY_CHARACTERS_MAX]!r}"
    return text if len(text) <= BODY_CHARACTERS_MAX else text[: BODY_CHARACTERS_MAX - 1] + "…"
