"""Configurations of HAProxy and keepalived for the doors of a cluster, as text. Pure: the caller knows the nodes.

HAProxy carries bytes (`mode tcp`), so that TLS, signatures and client certificates reach the nodes as they are. A node
is chosen by its own word: `/readyz`, or the agent check, which also lets it drain. Kafka clients need every node by
itself, because they speak to leaders: they get a port or a TLS name for each node, or only their first contact here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

DOORS: Final = ("kafka", "sqs", "amqp", "stomp", "stomp_websocket", "http", "management")
PORTS: Final[Mapping[str, int]] = {
    "kafka": 9092,
    "sqs": 9324,
    "amqp": 5672,
    "stomp": 61613,
    "stomp_websocket": 15674,
    "http": 8080,
    "management": 15672,
}
# Connections of these doors may be silent for long: consumers wait for messages, with heartbeats or without.
QUIET_DOORS: Final = frozenset(("kafka", "amqp", "stomp", "stomp_websocket"))


class BalancedNode(NamedTuple):
    """A node behind the balancer, with the addresses of its doors (HOST:PORT)."""

    number: int
    doors: Mapping[str, str]


class HaproxyOptions(NamedTuple):
    """The choices of the operator."""

    bind: str = "*"  # The address that clients use; the virtual address if there are two balancers.
    agent_port: int = 0  # Of --agent-check at every node; 0: /readyz alone decides.
    sends_proxy: bool = False  # Introduce clients with the PROXY protocol.
    check_ca: str = ""  # The authority of the nodes' certificates, if their HTTP door has TLS.
    kafka_port: int = 0  # The first of one Kafka port for each node; 0: none.
    kafka_domain: str = ""  # Kafka clients name a node as node-NUMBER.DOMAIN in TLS; empty: they do not.


def haproxy_configuration(nodes: Sequence[BalancedNode], options: HaproxyOptions) -> str:
    """A configuration for HAProxy 2.4 and later."""
    numbers = ", ".join(str(node.number) for node in nodes)
    blocks = [
        f"# HAProxy before the doors of Longhall, for the nodes {numbers}.\n"
        "# Made by `longhall balancer haproxy`: make it again when nodes come or go, and reload HAProxy.",
        "global\n    # Without maxconn the limit of open files decides: raise it (LimitNOFILE) for many clients.",
        _defaults(options),
    ]
    for door in DOORS:
        behind = [node for node in nodes if door in node.doors]
        if behind:
            blocks += _kafka(behind, options) if door == "kafka" else [_listen(door, PORTS[door], behind, options)]
    return "\n\n".join(blocks) + "\n"


def _defaults(options: HaproxyOptions) -> str:
    probe = "/healthz" if options.agent_port else "/readyz"
    return "\n".join(
        [
            "defaults",
            "    mode tcp",
            "    balance leastconn",
            "    timeout connect 2s",
            "    timeout client 75s   # Above the longest long poll, 20 s.",
            "    timeout server 75s",
            "    timeout check 2s",
            "    option clitcpka",
            "    option srvtcpka",
            "    retries 3",
            "    option redispatch 1   # A connection that a node does not take goes to the next one.",
            f"    option httpchk GET {probe}",
            "    http-check expect status 200",
            "    default-server inter 1s fastinter 200ms fall 2 rise 2 on-marked-down shutdown-sessions",
        ]
    )


def _listen(name: str, port: int, nodes: Sequence[BalancedNode], options: HaproxyOptions) -> str:
    door = name if name in PORTS else "kafka"
    lines = [f"listen {name}", f"    bind {options.bind}:{port}"]
    return "\n".join([*lines, *_quiet(door), *_servers(door, nodes, options)])


def _kafka(nodes: Sequence[BalancedNode], options: HaproxyOptions) -> list[str]:
    """The first contact, and a port or a TLS name for each node."""
    if options.kafka_domain:
        return _kafka_by_name(nodes, options)
    blocks = [_listen("kafka", PORTS["kafka"], nodes, options)]
    if not options.kafka_port:
        note = "# Kafka clients find their first node here, and then connect to each node at its own address."
        return [f"{note}\n{blocks[0]}"]
    for at, node in enumerate(nodes):
        port = options.kafka_port + at
        note = f"# Start node {node.number} with --advertised-kafka HOST:{port}, HOST being this balancer."
        blocks.append(f"{note}\n{_listen(f'kafka_{node.number}', port, [node], options)}")
    return blocks


def _kafka_by_name(nodes: Sequence[BalancedNode], options: HaproxyOptions) -> list[str]:
    domain = options.kafka_domain
    port = PORTS["kafka"]
    lines = [
        f"# Start node N with --advertised-kafka node-N.{domain}:{port}; all these names are this balancer's address,",
        "# and the certificate of each node has its name.",
        "frontend kafka",
        f"    bind {options.bind}:{port}",
        "    timeout client 1h",
        "    tcp-request inspect-delay 5s",
        "    tcp-request content accept if { req_ssl_hello_type 1 }",
        *(f"    use_backend kafka_{one.number} if {{ req_ssl_sni -i node-{one.number}.{domain} }}" for one in nodes),
        "    default_backend kafka_any",
    ]
    groups = [("kafka_any", list(nodes)), *((f"kafka_{one.number}", [one]) for one in nodes)]
    backends = [
        "\n".join([f"backend {name}", "    timeout server 1h", *_servers("kafka", behind, options)])
        for name, behind in groups
    ]
    return ["\n".join(lines), *backends]


def _quiet(door: str) -> list[str]:
    return ["    timeout client 1h", "    timeout server 1h"] if door in QUIET_DOORS else []


def _servers(door: str, nodes: Sequence[BalancedNode], options: HaproxyOptions) -> list[str]:
    lines: list[str] = []
    for node in nodes:
        host, _, port = node.doors["http"].rpartition(":")
        words = [f"    server node_{node.number}", node.doors[door], f"check addr {host.strip('[]')} port {port}"]
        if options.check_ca:
            words.append(f"check-ssl verify required ca-file {options.check_ca}")
        if options.agent_port:
            words.append(f"agent-check agent-addr {host.strip('[]')} agent-port {options.agent_port} agent-inter 1s")
        if options.sends_proxy:
            words.append("send-proxy-v2 check-send-proxy")
        lines.append(" ".join(words))
    return lines


class KeepalivedOptions(NamedTuple):
    """One of the balancers that share a virtual address."""

    virtual_address: str  # With its prefix length.
    interface: str
    address: str  # Of this balancer,
    peers: tuple[str, ...]  # and of the others.
    priority: int = 100
    router_id: int = 51
    asks_by_script: bool = False  # Whether HAProxy runs is asked every second; otherwise the kernel tells it at once.


_BY_KERNEL: Final = """vrrp_track_process haproxy {
    process haproxy
    quorum 1
}"""
_BY_SCRIPT: Final = """vrrp_script haproxy {
    script "/usr/bin/pgrep -x haproxy"
    interval 1
    timeout 1
    fall 1
    rise 1
    user root
}"""
_SCRIPTS: Final = """
    script_user root
    enable_script_security"""


def keepalived_configuration(options: KeepalivedOptions) -> str:
    """A configuration for keepalived 2.2 and later: the address moves within half a second after a balancer dies."""
    peers = "".join(f"        {peer}\n" for peer in options.peers)
    watched = _BY_SCRIPT if options.asks_by_script else _BY_KERNEL
    track = "track_script" if options.asks_by_script else "track_process"
    return f"""# keepalived for a balancer of Longhall: of those with HAProxy running,
# the one of the highest priority has the address.
# Made by `longhall balancer keepalived`; each balancer has its own, with another priority.
global_defs {{
    vrrp_version 3{_SCRIPTS if options.asks_by_script else ""}
}}

{watched}

vrrp_instance longhall {{
    state BACKUP
    nopreempt
    interface {options.interface}
    virtual_router_id {options.router_id}
    priority {options.priority}
    advert_int 0.1
    unicast_src_ip {options.address}
    unicast_peer {{
{peers}    }}
    virtual_ipaddress {{
        {options.virtual_address}
    }}
    {track} {{
        haproxy
    }}
}}
"""
