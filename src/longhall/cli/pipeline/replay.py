"""`longhall pipeline replay`: replay messages of an archive or a topic into any topic or queue."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.output import show_facts
from longhall.cli.pipeline.input_options import KeysOption, archive_keys, check_keys
from longhall.cli.pipeline.spark_job import OnceOption, SparkOptions, TopicsOption, split_names
from longhall.cli.timestamps import parse_timestamp_ms

ToOption = Annotated[str, typer.Option("--to", metavar="TOPIC", help="The topic or queue that gets the messages.")]
FromOption = Annotated[
    str, typer.Option("--from", metavar="DIR", help="The archive to read; without it the topics themselves are read.")
]
SinceOption = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Only messages from then on.")]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only messages before.")]
KeyOption = Annotated[list[str] | None, typer.Option("--key", help="Only messages with this key; repeatable.")]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--header", metavar="NAME[=VALUE]", help="Only messages with this header; repeatable, all must match."
    ),
]
WhereOption = Annotated[
    str, typer.Option("--where", metavar="SQL", help="Only messages for which this is true, in Spark's SQL.")
]
SpeedOption = Annotated[
    float, typer.Option("--speed", min=0.0, help="1: the original intervals; 2: twice as fast; 0: without waiting.")
]
RateOption = Annotated[float, typer.Option("--rate", min=0.0, metavar="N", help="The most messages a second.")]
NameOption = Annotated[str, typer.Option("--name", help="The name of this replay; the same name continues it.")]
INTERVAL_S = 10.0


@with_option_groups
def replay(
    topics: TopicsOption,
    to: ToOption,
    options: SparkOptions,
    source: FromOption = "",
    keys: KeysOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    key: KeyOption = None,
    header: HeaderOption = None,
    where: WhereOption = "",
    speed: SpeedOption = 0.0,
    rate: RateOption = 0.0,
    name: NameOption = "",
    once: OnceOption = True,
) -> None:
    """Replay messages of an archive or a topic into a topic or queue, each exactly once."""
    from longhall.pipeline.replay.job import Done, Options, replay
    from longhall.pipeline.replay.selection import Selection

    chosen = Selection(
        keys=tuple(each.encode() for each in key or []), headers=tuple(_header(each) for each in header or [])
    )
    check_keys(keys, source)
    now_ms = int(time.time() * 1000)
    if since is not None:
        chosen = chosen._replace(since_ms=parse_timestamp_ms(since, now_ms))
    if until is not None:
        chosen = chosen._replace(until_ms=parse_timestamp_ms(until, now_ms))
    with options.start_job("replay") as job:
        settings = Options(
            bootstrap=job.bootstrap,
            topics=split_names(topics),
            to=to,
            archive=source,
            selection=chosen,
            where=where,
            speed=speed,
            rate=rate,
            name=name,
            keys=archive_keys(keys, source),
        )
        done = Done(name, 0)

        def show(at: int, total: int) -> None:
            job.steps.show("replayed", at, total, "offsets")

        def work() -> None:
            nonlocal done
            while True:
                latest = replay(job.spark, settings, job.steps.say, show, job.wait)
                done = Done(latest.name, done.messages + latest.messages)
                if once or job.wait(INTERVAL_S):
                    return

        job.attend(work, once=once)
        if once and not done.messages:
            job.steps.say(f"nothing was left of the replay {done.name}; another --name does it again")
    show_facts({"replay": done.name, "to": to, "messages": done.messages}, options.output)


def _header(text: str) -> tuple[str, bytes | None]:
    name, sign, value = text.partition("=")
    if not name:
        raise CommandError(f"--header {text!r} must be NAME or NAME=VALUE", Exit.USAGE)
    return name, value.encode() if sign else None
