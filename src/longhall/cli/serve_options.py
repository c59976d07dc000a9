"""The options of `longhall serve` that say where clients connect, who may, and which cluster the node belongs to.

The fields are named as the settings are. An option that is not given is None: the setting of a file holds.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer


class DoorOptions(NamedTuple):
    """Where clients connect."""

    kafka: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where Kafka clients connect.", show_default="127.0.0.1:9092"),
    ] = None
    sqs: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where SQS clients connect.", show_default="127.0.0.1:9324")
    ] = None
    amqp: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where AMQP clients connect.", show_default="127.0.0.1:5672")
    ] = None
    stomp: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where STOMP clients connect.", show_default="127.0.0.1:61613"),
    ] = None
    stomp_websocket: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Where STOMP clients connect by WebSocket.", show_default="127.0.0.1:15674"
        ),
    ] = None
    management: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where RabbitMQ's tools connect.", show_default="127.0.0.1:15672"),
    ] = None
    prometheus: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where RabbitMQ's metrics are.", show_default="127.0.0.1:15692"),
    ] = None
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where health and metrics are.", show_default="127.0.0.1:8080"),
    ] = None
    agent_check: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where HAProxy's agent-check asks for the node's state.")
    ] = None
    advertised_kafka: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The address that is advertised to Kafka clients.")
    ] = None


class LoginOptions(NamedTuple):
    """The clients that may connect, and the keys of stored data."""

    credentials: Annotated[
        str | None, typer.Option(metavar="FILE", help="Access keys and secrets that SQS requests must be signed with.")
    ] = None
    keys: Annotated[
        str | None, typer.Option(metavar="FILE", help="Master keys under which queues and topics can be sealed.")
    ] = None
    authentication: Annotated[
        str | None, typer.Option(help="auto, required or none: whether clients must log in.", show_default="auto")
    ] = None
    master_key: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The key that seals the secrets of access keys, of mode 600."),
    ] = None


class TlsOptions(NamedTuple):
    """Certificates of the node, of clients and of other nodes."""

    tls_certificate: Annotated[
        str | None, typer.Option(metavar="FILE", help="The certificate of the node, in PEM: all doors speak TLS.")
    ] = None
    tls_key: Annotated[
        str | None, typer.Option(metavar="FILE", help="The private key of the certificate, of mode 600.")
    ] = None
    tls_client_ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="The authorities that issue the certificates of clients.")
    ] = None
    tls_client_authentication: Annotated[
        str | None, typer.Option(help="Certificates of clients: none, optional or required.", show_default="none")
    ] = None
    tls_peers_ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="The authorities of the cluster's nodes: they speak TLS.")
    ] = None

    def as_flags(self) -> dict[str, object]:
        """The settings of the section `tls`."""
        return {name.replace("tls_", "tls.", 1): value for name, value in self._asdict().items()}


class ClusterOptions(NamedTuple):
    """The cluster that the node belongs to."""

    coordinator: Annotated[
        str | None,
        typer.Option(metavar="zk://HOST:PORT", help="The ZooKeeper of the cluster that the node belongs to."),
    ] = None
    coordinator_auth: Annotated[
        str | None, typer.Option(metavar="FILE", help="digest:USER:PASSWORD for ZooKeeper, in a file of mode 600.")
    ] = None
    cluster_secret: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The secret that nodes of the cluster prove to each other, of mode 600."),
    ] = None
    peers: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the other nodes of the cluster connect.")
    ] = None
    node_id: Annotated[
        int | None, typer.Option(metavar="N", help="The number of the node in its cluster; it is stored.")
    ] = None
    rack: Annotated[str | None, typer.Option(help="The rack of the node, which Kafka clients can see.")] = None
    role: Annotated[
        str | None,
        typer.Option(
            help="all; or in a cluster: front (no replicas), metadata (only of the hall), storage (only of wings).",
            show_default="all",
        ),
    ] = None
