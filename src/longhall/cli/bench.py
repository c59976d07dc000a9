"""`longhall bench`: a quick load against a running node."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import KafkaOptions
from longhall.cli.output import Format, Row, columns, show_rows, text_of
from longhall.cli.produce import ACKS, Acks, Compression, CompressionOption

if TYPE_CHECKING:
    from rich.table import Table

    from longhall.cli.bench_load import Load, Phase, Show
    from longhall.client.hall import Hall

_COLUMNS = columns(
    "phase messages seconds messages_per_second megabytes_per_second p50_ms p99_ms p999_ms",
    right="messages seconds messages_per_second megabytes_per_second p50_ms p99_ms p999_ms",
    titles={"messages_per_second": "messages/s", "megabytes_per_second": "MB/s", "p999_ms": "p99.9 ms"},
)


@with_option_groups
def bench(
    options: KafkaOptions,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600, help="How long each phase takes.")] = 5.0,
    size: Annotated[str, typer.Option(help="Size of a message.")] = "1 KiB",
    batch: Annotated[str, typer.Option(help="Size of a batch.")] = "64 KiB",
    partitions: Annotated[
        int, typer.Option("--partitions", "-n", min=1, max=10_000, help="Partitions of the topic.")
    ] = 1,
    in_flight: Annotated[int, typer.Option(min=1, max=100, help="Batches in flight at once.")] = 8,
    compression: CompressionOption = Compression.NONE,
    acks: Annotated[
        Acks, typer.Option(help="Wait until it is durable (all) or until the leader has it (1).")
    ] = Acks.ALL,
) -> None:
    """Produce and consume at full speed for a few seconds, in a topic of its own that is deleted afterwards."""
    from longhall.cli.bench_load import run_load

    if acks is Acks.NONE:
        raise CommandError("without acknowledgements there is nothing to measure: --acks all or 1", Exit.USAGE)
    load = _load(seconds, size, batch, partitions, in_flight, compression, acks)

    async def ask(hall: Hall) -> list[Phase]:
        with _live(options.output) as show:
            return await run_load(hall, load, show)

    show_rows([phase.row() for phase in options.call_hall(ask)], _COLUMNS, options.output, "")


def _load(
    seconds: float, size: str, batch: str, partitions: int, in_flight: int, compression: Compression, acks: Acks
) -> Load:
    from longhall.cli.bench_load import Load
    from longhall.node.quantities import parse_size_bytes
    from longhall.records import compression as codecs

    try:
        message_bytes, batch_bytes = (parse_size_bytes(text, unit_required=True) for text in (size, batch))
    except ValueError as failure:
        raise CommandError(str(failure), Exit.USAGE) from None
    if not 1 <= message_bytes <= 64 << 20 or not 1 <= batch_bytes <= 64 << 20:
        raise CommandError("messages and batches are between 1 B and 64 MiB", Exit.USAGE)
    return Load(
        topic=f"longhall-bench-{secrets.token_hex(4)}",
        partitions=partitions,
        message_bytes=message_bytes,
        batch_bytes=batch_bytes,
        in_flight=in_flight,
        seconds=seconds,
        compression=getattr(codecs, compression.name),
        acks=ACKS[acks],
    )


@contextmanager
def _live(output: Format) -> Iterator[Show]:
    """A table that is updated during the run, on a terminal only."""
    if output is Format.JSON or not sys.stderr.isatty():
        yield lambda phases: None
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        yield lambda phases: live.update(_table([phase.row() for phase in phases]), refresh=True)


def _table(rows: list[Row]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in _COLUMNS:
        table.add_column(column.title, justify="right" if column.right else "left")
    for row in rows:
        table.add_row(*(text_of(row[column.key]) for column in _COLUMNS))
    return table
