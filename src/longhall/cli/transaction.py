"""`longhall transaction ...`: list and describe transactions, and abort those that hang."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.completion import complete_transactional_id
from longhall.cli.confirmation import confirm
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import KafkaOptions, YesOption
from longhall.cli.output import Row, columns, show_facts, show_outcome, show_rows

if TYPE_CHECKING:
    from longhall.client.hall import Hall
    from longhall.doors.kafka.wire.messages.transaction_admin import DescribeTransactionsResponseTransaction

app = typer.Typer(name="transaction", help="Transactions: list, describe, abort.", no_args_is_help=True)

IdArgument = Annotated[str, typer.Argument(metavar="TRANSACTIONAL_ID", autocompletion=complete_transactional_id)]

_LIST = columns("transactional_id state producer_id", right="producer_id", titles={"producer_id": "producer"})


@app.command("list")
@with_option_groups
def list_transactions(
    options: KafkaOptions,
    state: Annotated[
        list[str] | None, typer.Option(help="Only those in this state (Ongoing, Empty, ...); repeatable.")
    ] = None,
    longer_than: Annotated[str | None, typer.Option(help="Only those open for longer, like '10 min'.")] = None,
) -> None:
    """List transactional ids and the state of their transactions."""
    from longhall.cli.exits import CommandError, Exit
    from longhall.node.quantities import parse_duration_ms

    try:
        longer_than_ms = -1 if longer_than is None else parse_duration_ms(longer_than, unit_required=True)
    except ValueError as failure:
        raise CommandError(f"--longer-than: {failure}", Exit.USAGE) from None

    async def ask(hall: Hall) -> list[Row]:
        found = await hall.transactions.list(state, longer_than_ms=longer_than_ms)
        return [
            {"transactional_id": row.transactional_id, "state": row.transaction_state, "producer_id": row.producer_id}
            for row in found
        ]

    show_rows(options.call_hall(ask), _LIST, options.output, "there are no transactions")


@app.command()
@with_option_groups
def describe(
    transactional_id: IdArgument,
    options: KafkaOptions,
) -> None:
    """Show the state, age and partitions of a transaction."""

    async def ask(hall: Hall) -> DescribeTransactionsResponseTransaction:
        return await hall.transactions.describe(transactional_id)

    show_facts(_facts(options.call_hall(ask), int(time.time() * 1000)), options.output)


@app.command()
@with_option_groups
def abort(
    transactional_id: IdArgument,
    options: KafkaOptions,
    yes: YesOption = False,
) -> None:
    """Abort a transaction that hangs. Its producer is fenced and must restart."""

    confirm(f"abort the transaction of {transactional_id} and fence its producer?", yes)

    async def ask(hall: Hall) -> str:
        before = (await hall.transactions.describe(transactional_id)).transaction_state
        await hall.transactions.abort(transactional_id)
        return before

    before = options.call_hall(ask)
    facts = {"transactional_id": transactional_id, "state_before": before, "fenced": True}
    show_outcome(facts, f"{transactional_id} was {before}; its producer is fenced and nothing is open", options.output)


def _facts(row: DescribeTransactionsResponseTransaction, now_ms: int) -> Row:
    from longhall.cli.timestamps import show_timestamp

    started_ms = row.transaction_start_time_ms
    return {
        "transactional_id": row.transactional_id,
        "state": row.transaction_state,
        "producer_id": row.producer_id,
        "producer_epoch": row.producer_epoch,
        "timeout_ms": row.transaction_timeout_ms,
        "started": show_timestamp(started_ms),
        "age_seconds": (now_ms - started_ms) / 1000 if started_ms > 0 else None,
        "partitions": [f"{topic.topic}-{number}" for topic in row.topics for number in topic.partitions],
    }
