"""`longhall pipeline reconcile`: whether every message sent to queues was settled, and which were delivered twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.exits import Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.output import Column, Format, print_note, show_json, show_rows
from longhall.cli.pipeline.input_options import InputOptions
from longhall.cli.pipeline.passes import IntervalOption, Pass, passes
from longhall.cli.pipeline.spark_job import Job, OnceOption, SparkOptions, split_names
from longhall.cli.timestamps import show_timestamp

if TYPE_CHECKING:
    from longhall.pipeline.reconcile import Balance

_COLUMNS = tuple(
    Column(name, name.replace("_", " "), right=name != "queue")
    for name in ("queue", "sent", "delivered", "settled", "died", "moved", "purged", "open", "unknown", "lost",
                 "gap_offsets", "delivered_twice", "delivered_after_settle")
)  # fmt: skip


@with_option_groups
def reconcile(
    queues: Annotated[str, typer.Option("--queues", "-q", metavar="A,B", help="Queues, by name, with commas between.")],
    options: SparkOptions,
    evidence: InputOptions,
    topic: Annotated[str, typer.Option("--topic", help="The topic of a queue that was declared over one.")] = "",
    grace: Annotated[
        float, typer.Option("--grace", metavar="MINUTES", help="With --no-state: younger messages count as open.")
    ] = 15.0,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Producers use transactions: gaps of offsets are their markers.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail also if something was delivered twice.")] = False,
    list_max: Annotated[int, typer.Option("--list", min=0, help="The most messages to list of each kind.")] = 100,
    once: OnceOption = True,
    interval: IntervalOption = 60.0,
) -> None:
    """Compare sent messages with delivered and settled ones. Exit code 1 if anything was lost."""
    from longhall.pipeline.reconcile import Balance, reconcile

    evidence.check()
    names = split_names(queues)
    balances: list[Balance] = []

    def look(job: Job) -> None:
        place = evidence.open(job, options.profile)
        words = {
            "queues": names,
            "bootstrap": job.bootstrap,
            "archive": evidence.archive,
            "topic": topic,
            "state": evidence.state,
            "grace": grace,
            "list": list_max,
        }

        def balance(name: str, at: Pass) -> Balance:
            if name not in at.known:
                records = place.queue(name, at.period, topic)
                found = reconcile(name, records, at.period, grace_ms=int(grace * 60_000), listed_max=list_max)
                at.note(name, found._asdict())
            return Balance(**at.known[name])

        for at in passes("reconcile", words, evidence, once=once, interval_s=interval, wait=job.wait):
            job.steps.say(at.resumed)
            found = []
            for number, name in enumerate(names):
                job.steps.show("reconciled", number, len(names), "queues")
                found.append(balance(name, at))
            balances[:] = found
            at.end()
            if not once:
                _show(balances, options.output, transactions)

    with options.start_job("reconcile", reaches=evidence.archive is None) as job:
        job.attend(lambda: look(job), once=once)
    if once:
        _show(balances, options.output, transactions)
    fine = all(each.is_complete(transactions) and not (strict and each.twice) for each in balances)
    raise typer.Exit(Exit.OK if fine else Exit.REFUSED)


def _show(balances: list[Balance], output: Format, transactions: bool) -> None:
    rows = [{**each.facts(), "complete": each.is_complete(transactions)} for each in balances]
    if output is Format.JSON:
        show_json(rows)
        return
    show_rows(rows, _COLUMNS, output, "no queue was named")
    for each in balances:
        for lost in each.lost_messages:
            print(f"lost     {each.queue} {lost['message_id']} at {lost['partition']}:{lost['offset']}, "
                  f"sent {show_timestamp(lost['sent_ms'])}, delivered {lost['deliveries']} times")  # fmt: skip
        for gap in each.gap_ranges:
            print(f"gap      {each.queue} partition {gap['partition']}, offsets {gap['first']} to {gap['last']}")
        for twice in each.twice_messages:
            why = ", after its settle" if twice["after_settle"] else ", after a rewind" if twice["after_rewind"] else ""
            print(f"repeated {each.queue} {twice['message_id']} at {twice['partition']}:{twice['offset']}, "
                  f"{twice['deliveries']} times from {show_timestamp(twice['first_delivered_ms'])}{why}")  # fmt: skip
        if each.is_complete(transactions):
            print_note(f"{each.queue}: all {each.sent:,} messages are accounted for")
        else:
            print_note(f"{each.queue}: {each.lost:,} messages are lost, {each.gap_offsets:,} offsets unaccounted for")
