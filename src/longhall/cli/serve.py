"""`longhall serve`: run a node until it is stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.output import print_note
from longhall.cli.serve_options import ClusterOptions, DoorOptions, LoginOptions, TlsOptions
from longhall.errors import LonghallError

if TYPE_CHECKING:
    from longhall.node.settings import Settings


@with_option_groups
def serve(
    doors: DoorOptions,
    logins: LoginOptions,
    tls: TlsOptions,
    cluster: ClusterOptions,
    data: Annotated[
        str | None, typer.Option(help="The data directory of the node.", show_default="./longhall-data")
    ] = None,
    ready_file: Annotated[str | None, typer.Option(help="Written when every door is open.")] = None,
    settings: Annotated[
        str | None, typer.Option(metavar="FILE", envvar="LONGHALL_SETTINGS", help="A settings file in TOML.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes that serve clients.", show_default="1")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let others reach the node without authentication and encryption.")
    ] = False,
    durability: Annotated[str | None, typer.Option(help="always, interval or none.", show_default="always")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.", show_default="info")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json.", show_default="text")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting; may be repeated.")
    ] = None,
) -> None:
    """Run a node. Without any option it serves Kafka clients of this machine at 127.0.0.1:9092.

    Settings come from the defaults, then --settings FILE, then the environment (LONGHALL_KAFKA and so on), then the
    command line. `longhall settings` lists them all.
    """
    flags: dict[str, object] = {
        **_assigned(assignments or []),
        **_given(
            data=data,
            ready_file=ready_file,
            workers=workers,
            insecure=insecure or None,
            durability=durability,
            log_level=log_level,
            log_format=log_format,
            **doors._asdict(),
            **logins._asdict(),
            **tls.as_flags(),
            **cluster._asdict(),
        ),
    }
    loaded = _load(settings, flags)

    from longhall.node.lifecycle import run

    raise typer.Exit(run(loaded))


def _load(file: str | None, flags: Mapping[str, object]) -> Settings:
    """The settings of the node, after their warnings. A wrong setting ends the command, in the format of the logs."""
    from longhall.node.sources import load

    try:
        loaded = load(file, os.environ, flags)
    except LonghallError as failure:
        if _asks_for_json(flags, os.environ):
            print_note(_log_line("error", str(failure)))
            raise typer.Exit(Exit.USAGE) from None
        raise CommandError(str(failure), Exit.USAGE) from None
    for warning in loaded.warnings:
        as_json = loaded.settings.log_format == "json"
        print_note(_log_line("warning", warning) if as_json else f"longhall: {warning}")
    return loaded.settings


def _log_line(level: str, event: str) -> str:
    """A line as the logs of a node have them, before there are any."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": time, "level": level, "room": "settings", "event": event}, ensure_ascii=False)


def _asks_for_json(flags: Mapping[str, object], environment: Mapping[str, str]) -> bool:
    """True if the logs are to be JSON, as far as that is known when the settings cannot be read."""
    return (flags.get("log_format") or environment.get("LONGHALL_LOG_FORMAT")) == "json"


def _given(**flags: object) -> dict[str, object]:
    return {name: value for name, value in flags.items() if value is not None}


def _assigned(assignments: list[str]) -> dict[str, object]:
    flags: dict[str, object] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise CommandError(f"--set {assignment}: write NAME=VALUE, like --set retention_ms='2 weeks'", Exit.USAGE)
        flags[name.strip().replace("-", "_")] = value.strip()
    return flags
