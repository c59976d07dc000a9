"""`longhall balancer`: configurations of HAProxy and keepalived for the doors of the running cluster."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from longhall.cli.balancer_configuration import (
    PORTS,
    BalancedNode,
    HaproxyOptions,
    KeepalivedOptions,
    haproxy_configuration,
    keepalived_configuration,
)
from longhall.cli.exits import CommandError
from longhall.cli.options import HttpAddressOption, ProfileOption

if TYPE_CHECKING:
    from longhall.console.cluster_view import ClusterView

PORT_MAX: Final = 65_535

app = typer.Typer(name="balancer", help="Balancers before a cluster: configurations.", no_args_is_help=True)


@app.callback()
def balancer() -> None:
    """Balancers before a cluster: configurations."""


@app.command()
def haproxy(
    address: HttpAddressOption = None,
    profile: ProfileOption = None,
    bind: Annotated[str, typer.Option(metavar="HOST", help="The address that clients use.")] = "*",
    every_node: Annotated[
        bool, typer.Option("--every-node", help="Every node, although there are front ends.", show_default=False)
    ] = False,
    agent_port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port of --agent-check at every node; 0: /readyz decides.")
    ] = 0,
    proxy_protocol: Annotated[
        bool,
        typer.Option("--proxy-protocol", help="Introduce clients to nodes with proxy.addresses.", show_default=False),
    ] = False,
    kafka_port: Annotated[
        int, typer.Option(min=0, max=65535, help="The first of one Kafka port for each node; 0: none.")
    ] = 0,
    kafka_domain: Annotated[
        str, typer.Option(metavar="DOMAIN", help="Kafka clients name nodes in TLS: node-NUMBER.DOMAIN.")
    ] = "",
) -> None:
    """Print a configuration of HAProxy for the nodes that answer: the front ends or, without any, all."""
    from longhall.cli.addresses import wants_tls
    from longhall.cli.cluster.status import ask
    from longhall.cli.profiles import find_http, find_tls

    if kafka_port and kafka_domain:
        raise CommandError("--kafka-port and --kafka-domain are two ways to the same end: choose one")
    place = find_http(address, profile).address
    tls = find_tls(None)
    options = HaproxyOptions(
        bind=bind,
        agent_port=agent_port,
        sends_proxy=proxy_protocol,
        check_ca=(tls.ca or "@system-ca") if wants_tls(place, tls) else "",
        kafka_port=kafka_port,
        kafka_domain=kafka_domain,
    )
    nodes = _nodes(ask(place), every_node)
    if kafka_port and kafka_port + len(nodes) - 1 > PORT_MAX:
        raise CommandError(
            f"--kafka-port {kafka_port} leaves no port for each of {len(nodes)} nodes: choose a lower one"
        )
    print(haproxy_configuration(nodes, options), end="")


@app.command()
def keepalived(
    virtual_address: Annotated[str, typer.Argument(metavar="ADDRESS/PREFIX", help="The address that clients use.")],
    interface: Annotated[str, typer.Option(metavar="NAME", help="The network interface that gets it.")],
    own: Annotated[str, typer.Option("--own", metavar="ADDRESS", help="The address of this balancer.")],
    peers: Annotated[
        list[str], typer.Option("--peer", metavar="ADDRESS", help="The address of another balancer; may be repeated.")
    ],
    priority: Annotated[int, typer.Option(min=1, max=254, help="The highest one has the address.")] = 100,
    router_id: Annotated[int, typer.Option(min=1, max=255, help="One number for all balancers of this address.")] = 51,
    in_container: Annotated[
        bool,
        typer.Option("--in-container", help="Ask for HAProxy by a script, every second.", show_default=False),
    ] = False,
) -> None:
    """Print a configuration of keepalived: two balancers share a virtual address, and one takes over from the other."""
    try:
        ipaddress.ip_interface(virtual_address)
        for one in (own, *peers):
            ipaddress.ip_address(one)
    except ValueError as error:
        raise CommandError(str(error)) from None
    if own in peers:
        raise CommandError(f"{own} is this balancer, and no --peer of it")
    options = KeepalivedOptions(virtual_address, interface, own, tuple(peers), priority, router_id, in_container)
    print(keepalived_configuration(options), end="")


def _nodes(view: ClusterView, every_node: bool) -> list[BalancedNode]:
    alive = [host for host in view.hosts if host.alive and not host.halted]
    fronts = [host for host in alive if host.role == "front"]
    chosen = alive if every_node or not fronts else fronts
    if not chosen:
        raise CommandError("no node of the cluster answers; `longhall cluster status` shows them")
    found: list[BalancedNode] = []
    for host in chosen:
        doors = {"kafka": host.kafka, "sqs": host.sqs, "http": host.http, **host.doors}
        reached = {door: _reached(doors[door], host.peers) for door in PORTS if doors.get(door)}
        found.append(BalancedNode(host.node, reached))
    return found


def _reached(address: str, peers: str) -> str:
    """An address as others reach it: a door that listens everywhere is at the host of the peers port."""
    host, _, port = address.rpartition(":")
    if host not in ("0.0.0.0", "[::]", "::"):
        return address
    return f"{peers.rpartition(':')[0]}:{port}"
