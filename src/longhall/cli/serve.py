"""`longhall serve`: run a node until it is stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.output import print_note
from longhall.errors import LonghallError


def serve(
    data: Annotated[
        str | None, typer.Option(help="The data directory of the node.", show_default="./longhall-data")
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where Kafka clients connect.", show_default="127.0.0.1:9092"),
    ] = None,
    sqs: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where SQS clients connect.", show_default="127.0.0.1:9324")
    ] = None,
    amqp: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where AMQP clients connect.", show_default="127.0.0.1:5672")
    ] = None,
    stomp: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where STOMP clients connect.", show_default="127.0.0.1:61613"),
    ] = None,
    stomp_websocket: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Where STOMP clients connect by WebSocket.", show_default="127.0.0.1:15674"
        ),
    ] = None,
    management: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where RabbitMQ's tools connect.", show_default="127.0.0.1:15672"),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where RabbitMQ's metrics are.", show_default="127.0.0.1:15692"),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where health and metrics are.", show_default="127.0.0.1:8080"),
    ] = None,
    agent_check: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where HAProxy's agent-check asks for the node's state.")
    ] = None,
    ready_file: Annotated[str | None, typer.Option(help="Written when every door is open.")] = None,
    settings: Annotated[
        str | None, typer.Option(metavar="FILE", envvar="LONGHALL_SETTINGS", help="A settings file in TOML.")
    ] = None,
    advertised_kafka: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The address that is advertised to Kafka clients.")
    ] = None,
    credentials: Annotated[
        str | None, typer.Option(metavar="FILE", help="Access keys and secrets that SQS requests must be signed with.")
    ] = None,
    keys: Annotated[
        str | None, typer.Option(metavar="FILE", help="Master keys under which queues and topics can be sealed.")
    ] = None,
    authentication: Annotated[
        str | None, typer.Option(help="auto, required or none: whether clients must log in.", show_default="auto")
    ] = None,
    master_key: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The key that seals the secrets of access keys, of mode 600."),
    ] = None,
    tls_certificate: Annotated[
        str | None, typer.Option(metavar="FILE", help="The certificate of the node, in PEM: all doors speak TLS.")
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option(metavar="FILE", help="The private key of the certificate, of mode 600.")
    ] = None,
    tls_client_ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="The authorities that issue the certificates of clients.")
    ] = None,
    tls_client_authentication: Annotated[
        str | None, typer.Option(help="Certificates of clients: none, optional or required.", show_default="none")
    ] = None,
    tls_peers_ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="The authorities of the cluster's nodes: they speak TLS.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes that serve clients.", show_default="1")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let others reach the node without authentication and encryption.")
    ] = False,
    coordinator: Annotated[
        str | None,
        typer.Option(metavar="zk://HOST:PORT", help="The ZooKeeper of the cluster that the node belongs to."),
    ] = None,
    coordinator_auth: Annotated[
        str | None, typer.Option(metavar="FILE", help="digest:USER:PASSWORD for ZooKeeper, in a file of mode 600.")
    ] = None,
    cluster_secret: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The secret that nodes of the cluster prove to each other, of mode 600."),
    ] = None,
    peers: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the other nodes of the cluster connect.")
    ] = None,
    node_id: Annotated[
        int | None, typer.Option(metavar="N", help="The number of the node in its cluster; it is stored.")
    ] = None,
    rack: Annotated[str | None, typer.Option(help="The rack of the node, which Kafka clients can see.")] = None,
    role: Annotated[
        str | None,
        typer.Option(help="all or front: a node of a cluster that keeps no messages.", show_default="all"),
    ] = None,
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
    from longhall.node.sources import load

    flags: dict[str, object] = {
        **_assigned(assignments or []),
        **_given(
            data=data,
            kafka=kafka,
            sqs=sqs,
            amqp=amqp,
            stomp=stomp,
            stomp_websocket=stomp_websocket,
            management=management,
            prometheus=prometheus,
            http=http,
            agent_check=agent_check,
            ready_file=ready_file,
            advertised_kafka=advertised_kafka,
            credentials=credentials,
            keys=keys,
            authentication=authentication,
            master_key=master_key,
            **_tls_flags(
                certificate=tls_certificate,
                key=tls_key,
                client_ca=tls_client_ca,
                client_authentication=tls_client_authentication,
                peers_ca=tls_peers_ca,
            ),
            workers=workers,
            insecure=insecure or None,
            coordinator=coordinator,
            coordinator_auth=coordinator_auth,
            cluster_secret=cluster_secret,
            peers=peers,
            node_id=node_id,
            rack=rack,
            role=role,
            durability=durability,
            log_level=log_level,
            log_format=log_format,
        ),
    }
    try:
        loaded = load(settings, os.environ, flags)
    except LonghallError as failure:
        if _asks_for_json(flags, os.environ):
            print_note(_log_line("error", str(failure)))
            raise typer.Exit(Exit.USAGE) from None
        raise CommandError(str(failure), Exit.USAGE) from None
    for warning in loaded.warnings:
        as_json = loaded.settings.log_format == "json"
        print_note(_log_line("warning", warning) if as_json else f"longhall: {warning}")

    from longhall.node.lifecycle import run

    raise typer.Exit(run(loaded.settings))


def _log_line(level: str, event: str) -> str:
    """A line as the logs of a node have them, before there are any."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": time, "level": level, "room": "settings", "event": event}, ensure_ascii=False)


def _asks_for_json(flags: Mapping[str, object], environment: Mapping[str, str]) -> bool:
    """True if the logs are to be JSON, as far as that is known when the settings cannot be read."""
    return (flags.get("log_format") or environment.get("LONGHALL_LOG_FORMAT")) == "json"


def _given(**flags: object) -> dict[str, object]:
    return {name: value for name, value in flags.items() if value is not None}


def _tls_flags(**flags: object) -> dict[str, object]:
    return {f"tls.{name}": value for name, value in flags.items()}


def _assigned(assignments: list[str]) -> dict[str, object]:
    flags: dict[str, object] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise CommandError(f"--set {assignment}: write NAME=VALUE, like --set retention_ms='2 weeks'", Exit.USAGE)
        flags[name.strip().replace("-", "_")] = value.strip()
    return flags
