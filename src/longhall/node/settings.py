"""Everything that can be set, with its type, its bounds, its default and its meaning in one place.

The struct is the only list of settings: the file, the environment, the flags and `longhall settings` are all derived
from it (`node.sources`), so none of them can name a setting that does not exist. A value is in the unit that its name
ends with. A setting that topics can override is the default for topics that do not.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

DURATION: Final = "duration"
SIZE: Final = "size"
ADDRESS: Final = "address"

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_GIB: Final = 1024 * _MIB
_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_DAY: Final = 24 * 60 * _MINUTE
_YEAR: Final = 365 * _DAY

# `extra` has the kind of a number or text (duration, size, address), for parsing and printing.


def _duration(meaning: str, least: int = 0, most: int = 100 * 365 * _DAY) -> Meta:
    return Meta(ge=least, le=most, description=meaning, extra={"kind": DURATION})


def _size(meaning: str, least: int = 0, most: int = 1 << 60) -> Meta:
    return Meta(ge=least, le=most, description=meaning, extra={"kind": SIZE})


def _address(meaning: str) -> Meta:
    return Meta(min_length=3, max_length=300, description=meaning, extra={"kind": ADDRESS})


class CleanerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the janitor frees space."""

    interval_ms: Annotated[int, _duration("How often retention and compaction look for work.", least=10)] = 15 * _SECOND
    dirty_ratio: Annotated[
        float,
        Meta(ge=0.0, le=1.0, description="A compacted partition is cleaned when this share of it was never cleaned."),
    ] = 0.5
    settled_grace_ms: Annotated[
        int, _duration("How long what a queue has settled can still be read from its topic, at least.")
    ] = 30 * _SECOND
    queue_segment_bytes: Annotated[
        int,
        _size("The segments of queues; settled messages give back their space by segments.", least=4096, most=1 << 30),
    ] = 16 * _MIB


class ConsumerGroupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Consumer groups with server-side assignment (group.protocol=consumer)."""

    session_timeout_ms: Annotated[
        int, _duration("A member that sends no heartbeat for this long is removed, unless its group has its own value.")
    ] = 45 * _SECOND
    session_timeout_min_ms: Annotated[int, _duration("The shortest session that a group may be given.", least=1)] = (
        45 * _SECOND
    )
    session_timeout_max_ms: Annotated[int, _duration("The longest session that a group may be given.", least=1)] = (
        60 * _SECOND
    )
    heartbeat_interval_ms: Annotated[
        int, _duration("The time between two heartbeats of a member, unless its group has its own value.")
    ] = 5 * _SECOND
    heartbeat_interval_min_ms: Annotated[
        int, _duration("The shortest heartbeat interval that a group may be given.", least=1)
    ] = 5 * _SECOND
    heartbeat_interval_max_ms: Annotated[
        int, _duration("The longest heartbeat interval that a group may be given.", least=1)
    ] = 15 * _SECOND
    members_max: Annotated[int, Meta(ge=1, le=100_000, description="Members of one group.")] = 1_000
    assignors: Annotated[
        str,
        Meta(
            pattern="^(uniform|range)(,(uniform|range))?$",
            description="The assignors that members may choose; the first one is used without a choice.",
        ),
    ] = "uniform,range"
    migration_policy: Annotated[
        Literal["bidirectional", "upgrade", "downgrade", "disabled"],
        Meta(description="In which direction a group with members may change between the classic protocol and this."),
    ] = "bidirectional"


class SqsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of the SQS door. The defaults are those of Amazon SQS."""

    message_bytes_max: Annotated[
        int, _size("The largest MaximumMessageSize, and that of new queues.", least=_KIB, most=4 * _MIB)
    ] = _MIB
    batch_bytes_max: Annotated[int, _size("The messages of one batch together.", least=_KIB, most=4 * _MIB)] = _MIB
    delay_ms_max: Annotated[int, _duration("The longest DelaySeconds.", least=_SECOND, most=_YEAR)] = 15 * _MINUTE
    retention_ms_max: Annotated[
        int, _duration("The longest MessageRetentionPeriod.", least=_MINUTE, most=10 * _YEAR)
    ] = 14 * _DAY
    visibility_ms_max: Annotated[
        int, _duration("The longest VisibilityTimeout, with all its extensions.", least=_SECOND, most=_YEAR)
    ] = 12 * 60 * _MINUTE
    wait_ms_max: Annotated[
        int, _duration("The longest WaitTimeSeconds of a receive.", least=_SECOND, most=15 * _MINUTE)
    ] = 20 * _SECOND
    fifo_sends_max: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Send requests a second that a process takes for a FIFO queue, or for each message group if "
            "the queue has FifoThroughputLimit=perMessageGroupId; 0 is no limit.",
        ),
    ] = 0


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TLS of the doors and between nodes. All files are read again when they change, and on SIGHUP."""

    certificate: Annotated[
        str | None,
        Meta(description="The certificate of the node with its intermediates, in PEM; turns TLS on at the doors."),
    ] = None
    key: Annotated[str | None, Meta(description="The private key of the certificate, in PEM, of mode 600.")] = None
    directory: Annotated[
        str | None,
        Meta(description="Further certificates, NAME.crt with NAME.key, for clients that name another host (SNI)."),
    ] = None
    doors: Annotated[
        str,
        Meta(
            description="The doors with TLS, with commas between them (kafka,sqs,amqp,stomp,stomp_websocket,management,"
            "prometheus,http), or all."
        ),
    ] = "all"
    clear_text: Annotated[
        bool,
        Meta(description="Serve clients without TLS too, at the same ports; beyond loopback only with --insecure."),
    ] = False
    version_min: Annotated[Literal["1.2", "1.3"], Meta(description="The oldest version of TLS that is spoken.")] = "1.2"
    client_ca: Annotated[
        str | None, Meta(description="The authorities that issue the certificates of clients, in PEM.")
    ] = None
    client_authentication: Annotated[
        Literal["none", "optional", "required"],
        Meta(description="Whether clients are asked for a certificate, and refused without one."),
    ] = "none"
    client_authentication_doors: Annotated[
        str, Meta(description="Other values for single doors, like kafka=required,http=none.")
    ] = ""
    user_name: Annotated[
        Literal["distinguished_name", "common_name", "dns_name", "email", "uri"],
        Meta(description="The part of a client's certificate that names its user."),
    ] = "distinguished_name"
    user_rules: Annotated[
        str,
        Meta(
            max_length=8192,
            description="How that name becomes a user, as Kafka's ssl.principal.mapping.rules: "
            "RULE:pattern/replacement/[LU], and DEFAULT for the name as it is.",
        ),
    ] = "DEFAULT"
    handshake_ms: Annotated[
        int, _duration("A connection whose handshake takes longer is closed.", least=100, most=_MINUTE)
    ] = 10 * _SECOND
    handshakes_max: Annotated[
        int, Meta(ge=1, le=100_000, description="Handshakes under way at a door; with more, the oldest is closed.")
    ] = 256
    peers_ca: Annotated[
        str | None,
        Meta(
            description="The authorities that issue the certificates of the cluster's nodes, in PEM; turns TLS on "
            "between nodes, in both directions with a certificate."
        ),
    ] = None
    peers_certificate: Annotated[
        str | None, Meta(description="The certificate between nodes, for servers and clients; else tls.certificate.")
    ] = None
    peers_key: Annotated[str | None, Meta(description="Its private key, of mode 600; else tls.key.")] = None


class ProxySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Balancers that introduce their clients with the PROXY protocol."""

    addresses: Annotated[
        str,
        Meta(
            description="Addresses and networks of the balancers, with commas between them. Each of their connections "
            "must begin with a PROXY header; a header from any other address is an error of the protocol."
        ),
    ] = ""
    doors: Annotated[str, Meta(description="The doors behind the balancers, with commas between them, or all.")] = "all"


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """OpenID Connect: tokens of an identity provider log users of the directory in."""

    issuer: Annotated[
        str, Meta(max_length=2048, description="The URL of the identity provider, as its tokens name it (`iss`).")
    ] = ""
    audience: Annotated[
        str, Meta(max_length=2048, description="The audience (`aud`) that a token must name; needed with an issuer.")
    ] = ""
    keys: Annotated[
        str,
        Meta(
            max_length=2048,
            description="The URL, or a file, of the provider's public keys (JWKS); else its configuration names it.",
        ),
    ] = ""
    user_claim: Annotated[
        str, Meta(min_length=1, max_length=255, description="The claim that names the user of the directory.")
    ] = "sub"
    authority: Annotated[
        str | None, Meta(description="The authorities of the provider's certificate, in PEM; else those of the system.")
    ] = None
    refresh_ms: Annotated[
        int,
        _duration(
            "The provider's keys are read again after this time, and earlier for an unknown key.", _SECOND, most=_DAY
        ),
    ] = 5 * _MINUTE


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of one node. Tests construct it directly; all other code gets it from `sources.load`."""

    # Addresses and files.
    data: Annotated[str, Meta(min_length=1, description="The directory of everything the node keeps.")] = (
        "./longhall-data"
    )
    kafka: Annotated[str, _address("Where Kafka clients connect; port 0 takes a free one.")] = "127.0.0.1:9092"
    sqs: Annotated[str, _address("Where SQS clients connect (endpoint_url); port 0 takes a free one.")] = (
        "127.0.0.1:9324"
    )
    amqp: Annotated[str, _address("Where AMQP 0-9-1 clients connect; port 0 takes a free one.")] = "127.0.0.1:5672"
    stomp: Annotated[str, _address("Where STOMP clients connect; port 0 takes a free one.")] = "127.0.0.1:61613"
    stomp_websocket: Annotated[
        str, _address("Where STOMP clients connect by WebSocket, at ws://HOST:PORT/ws; port 0 takes a free one.")
    ] = "127.0.0.1:15674"
    management: Annotated[
        str, _address("Where the management API of RabbitMQ is, for its tools; port 0 takes a free one.")
    ] = "127.0.0.1:15672"
    prometheus: Annotated[
        str, _address("Where metrics by the names of RabbitMQ's dashboards are; port 0 takes a free one.")
    ] = "127.0.0.1:15692"
    http: Annotated[str, _address("Where /healthz, /readyz, /metrics and the API of queues are.")] = "127.0.0.1:8080"
    agent_check: Annotated[
        str | None,
        Meta(description="Where HAProxy's agent-check asks for the state of the node; port 0 takes a free one."),
    ] = None
    ready_file: Annotated[
        str | None, Meta(description="Written when every door is open: JSON with the pid and an address for each door.")
    ] = None
    advertised_kafka: Annotated[
        str | None,
        Meta(description="The address that Kafka clients are told to use, when it is not the one listened at."),
    ] = None
    credentials: Annotated[
        str | None,
        Meta(
            description="A file of access keys and secrets, in the format of AWS's tools: SQS requests must be signed "
            "with one of them. SIGHUP reads it again."
        ),
    ] = None
    keys: Annotated[
        str | None,
        Meta(
            description="A file of the master keys under which queues and topics can be sealed, and of their providers "
            "(docs/security.md); nobody else may read it. Without it nothing can be sealed. SIGHUP reads it again."
        ),
    ] = None
    authentication: Annotated[
        Literal["auto", "required", "none"],
        Meta(
            description="Whether clients must log in: auto asks as soon as the directory has users, and always at "
            "addresses that others can reach; required asks always; none never."
        ),
    ] = "auto"
    permissions: Annotated[
        Literal["enforce", "report"],
        Meta(
            description="What happens to requests of users without the permission: enforce refuses them; report "
            "carries them out, and logs and counts the permission that each would have needed."
        ),
    ] = "enforce"
    audit: Annotated[
        bool,
        Meta(
            description="Write logins, refusals for want of a permission and administrative operations to the topic "
            "longhall.audit, which clients can only read."
        ),
    ] = False
    usage: Annotated[bool, Meta(description="Count what clients use, into the topic longhall.usage.")] = False
    master_key: Annotated[
        str | None,
        Meta(
            description="A file with the key under which the secrets of access keys are sealed, the same on every node "
            "of a cluster. Without it a standalone node makes master.key in its data directory."
        ),
    ] = None
    kafka_session_ms_max: Annotated[
        int,
        Meta(
            ge=0,
            le=30 * 24 * 3_600_000,
            description="Kafka clients must authenticate again after this time, on the same connection; 0: never.",
            extra={"kind": DURATION},
        ),
    ] = 0
    insecure: Annotated[
        bool, Meta(description="Listen on addresses that others can reach without authentication and encryption.")
    ] = False

    workers: Annotated[
        int,
        Meta(
            ge=1,
            le=64,
            description="Processes that serve clients. Each is a Kafka broker with a port of its own, counted on from "
            "that of the first; they share the other ports.",
        ),
    ] = 1

    # The cluster.
    coordinator: Annotated[
        str | None,
        Meta(
            description="The ZooKeeper of the cluster that the node belongs to, zk://HOST:PORT,.../PATH; without one "
            "the node is alone.",
        ),
    ] = None
    coordinator_auth: Annotated[
        str | None,
        Meta(
            description="A file with digest:USER:PASSWORD, with which the node shows ZooKeeper who it is; nobody else "
            "may read it."
        ),
    ] = None
    cluster_secret: Annotated[
        str | None,
        Meta(
            description="A file of secrets, one a line, that the nodes of a cluster prove to each other: the first is "
            "offered, all are accepted. Nobody else may read it. It is read again when it changes, and on SIGHUP."
        ),
    ] = None
    peers: Annotated[str, _address("Where the other nodes of the cluster connect; port 0 takes a free one.")] = (
        "127.0.0.1:0"
    )
    node_id: Annotated[
        int,
        Meta(ge=0, le=2**31 - 1, description="The number of the node in its cluster; 0 takes one and keeps it."),
    ] = 0
    role: Annotated[
        Literal["all", "front"],
        Meta(
            description="all, or front: a front end, a node of a cluster that serves its doors, stores no messages and "
            "is never a replica."
        ),
    ] = "all"
    rack: Annotated[str, Meta(max_length=100, description="Where the node stands; Kafka clients are told.")] = ""
    session_timeout_ms: Annotated[
        int,
        _duration("A node that ZooKeeper has not heard of for so long is gone.", least=_SECOND, most=_MINUTE),
    ] = 6 * _SECOND
    watchdog: Annotated[
        bool,
        Meta(
            description="A node of a cluster that hangs is killed by a process beside it, so that its clients' "
            "connections break and they go to the next leader; whoever runs the node starts it again.",
        ),
    ] = True
    hang_ms_max: Annotated[
        int,
        _duration(
            "A node of a cluster whose loop has not run for so long hangs; about `session_timeout_ms` is right, since "
            "another node leads by then.",
            least=_SECOND,
            most=10 * _MINUTE,
        ),
    ] = 6 * _SECOND
    replication_factor: Annotated[
        int,
        Meta(ge=1, le=7, description="How many nodes of the cluster keep the hall, unless its record says otherwise."),
    ] = 3
    in_sync_min: Annotated[
        int,
        Meta(ge=1, le=7, description="Messages are refused while fewer nodes of the cluster have everything."),
    ] = 2
    default_placement: Annotated[
        Literal["spread", "hall"],
        Meta(
            description="Where a cluster of several hosts puts topics and queues whose creator names no placement: the "
            "main group (hall), which one host leads, or the groups of all hosts (spread): each host leads its share.",
        ),
    ] = "hall"
    balance_automatic: Annotated[
        bool,
        Meta(
            description="A cluster whose default placement is spread moves the leadership of groups from busy hosts to "
            "idle ones by itself; else `longhall cluster balance` does.",
        ),
    ] = True
    lag_ms_max: Annotated[
        int,
        _duration("A node of the cluster that is behind for longer is not waited for.", least=100, most=10 * _MINUTE),
    ] = 3 * _SECOND

    digest_interval_ms: Annotated[
        int,
        _duration(
            "How often the nodes of a cluster compare digests of their state, if something was written.",
            least=100,
            most=60 * _MINUTE,
        ),
    ] = _MINUTE

    copy_bytes_a_second: Annotated[
        int,
        _size("A node that fetches everything from another takes no more than this.", least=64 * _KIB, most=100 * _GIB),
    ] = 64 * _MIB
    feature_level_automatic: Annotated[
        bool,
        Meta(
            description="The feature level is raised as soon as every node has the new version; else by "
            "`longhall cluster upgrade`, and until then the old version can be started again."
        ),
    ] = False
    feature_level_max: Annotated[
        int,
        Meta(
            ge=1,
            le=7,
            description="Write and speak as the version before did: for tests of upgrades.",
            extra={"hidden": True},
        ),
    ] = 7
    scale_hook: Annotated[
        str | None,
        Meta(
            description="A command that is told, as JSON on its standard input, when more hosts or fewer are wanted: "
            "`longhall cluster scale-local`, or one of your own.",
        ),
    ] = None
    parts_per_host: Annotated[
        int, Meta(ge=1, le=100_000, description="Partitions that a host is meant for; more of them want more hosts.")
    ] = 1000
    hosts_min: Annotated[int, Meta(ge=1, le=1000, description="Fewer hosts than these are never wanted.")] = 1
    hosts_max: Annotated[int, Meta(ge=1, le=1000, description="More hosts than these are never wanted.")] = 9

    # Topics.
    auto_create_topics: Annotated[bool, Meta(description="Make a topic when a client first asks for it.")] = True
    default_partitions: Annotated[
        int, Meta(ge=1, le=10_000, description="Partitions of a topic whose maker named no number.")
    ] = 1
    message_bytes_max: Annotated[
        int, _size("The largest record batch that is taken.", least=1 * _KIB, most=1 * _GIB)
    ] = _MIB + 12
    segment_bytes: Annotated[
        int, _size("A partition starts a new segment at this size.", least=16 * _KIB, most=2 * _GIB)
    ] = _GIB
    segment_ms: Annotated[int, _duration("A partition starts a new segment at this age.", least=1)] = 7 * _DAY
    retention_ms: Annotated[int, _duration("How long messages are kept.", least=-1)] = 14 * _DAY
    retention_bytes: Annotated[int, _size("How much of each partition is kept, oldest deleted first.", least=-1)] = -1

    # Durability.
    durability: Annotated[
        Literal["always", "interval", "none"],
        Meta(
            description="Acknowledge after the disk has it (always), sync now and then (interval), or never ask (none)."
        ),
    ] = "always"
    durability_interval_ms: Annotated[
        int, _duration('How much time may be lost with durability "interval".', least=1, most=_DAY)
    ] = _SECOND
    shards: Annotated[
        int, Meta(ge=1, le=1024, description="Data shards of a new data directory; an existing one keeps its number.")
    ] = 8
    wal_file_bytes: Annotated[
        int, _size("Size of one file of the write-ahead log.", least=16 * _MIB, most=2 * _GIB)
    ] = 32 * _MIB
    checkpoint_bytes: Annotated[
        int, _size("A checkpoint is made after this much of the write-ahead log.", least=64 * _KIB)
    ] = 256 * _MIB
    wal_bytes_max: Annotated[
        int,
        _size(
            "Messages are refused, for producers to try again, while the write-ahead log has more than this behind its "
            "last checkpoint: a checkpoint waits for followers in sync, and for a node that fetches everything.",
            least=64 * _MIB,
        ),
    ] = 16 * _GIB
    disk_reserve_bytes: Annotated[
        int, _size("Producing is refused when less than this is free; commits and reads go on.")
    ] = 128 * _MIB
    open_files_max: Annotated[int, Meta(ge=32, le=1_000_000, description="Segment files held open at once.")] = 4_096

    lone_sync_us_max: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="A commit that is small and alone is synced at once, without the detour that keeps others "
            "going, while the disk takes no longer than this; 0 for never.",
        ),
    ] = 500
    recent_bytes: Annotated[
        int, _size("How much of what was written to segments last stays in the page cache; 0 leaves it to the system.")
    ] = 256 * _MIB

    behind_partitions_min: Annotated[
        int,
        Meta(
            ge=0,
            description="With more partitions at work, what they write goes to segments past the page cache.",
        ),
    ] = 32

    # Bounds.
    memory_bytes: Annotated[
        int, _size("One budget for all buffers; beyond it producers are told to wait.", least=16 * _MIB)
    ] = 256 * _MIB
    request_bytes_max: Annotated[
        int, _size("The largest request that is read.", least=64 * _KIB, most=2 * _GIB - 1)
    ] = 100 * _MIB
    connections_max: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Open connections of a door, all clients together; at most a third of the descriptors that the "
            "system allows.",
        ),
    ] = 16_384
    connections_per_address_max: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Open connections of a door from one address.")
    ] = 8_192
    connection_idle_ms: Annotated[
        int, _duration("A connection on which nothing happens is closed after this.", least=_SECOND)
    ] = 10 * _MINUTE
    drain_ms: Annotated[int, _duration("How long a stop waits for requests that are under way.")] = 10 * _SECOND
    drain_delay_ms: Annotated[
        int,
        _duration(
            "How long a node that was told to stop serves its clients as before, with /readyz at 503, so that "
            "balancers notice.",
            most=10 * _MINUTE,
        ),
    ] = 0

    # Groups, producers and transactions.
    group_initial_rebalance_delay_ms: Annotated[
        int, _duration("How long a new group waits for more members before its first assignment.", most=_MINUTE * 5)
    ] = 250
    group_session_timeout_min_ms: Annotated[
        int, _duration("The shortest session a group member may ask for.", least=1)
    ] = 6 * _SECOND
    group_session_timeout_max_ms: Annotated[
        int, _duration("The longest session a group member may ask for.", least=1)
    ] = 30 * _MINUTE
    group_members_max: Annotated[int, Meta(ge=1, le=100_000, description="Members of one group.")] = 1_000
    offsets_retention_ms: Annotated[
        int, _duration("Offsets of a group without members are forgotten after this.", least=1)
    ] = 7 * _DAY
    producer_expiry_ms: Annotated[
        int, _duration("An idempotent producer that is silent this long is forgotten.", least=1)
    ] = _DAY
    transaction_timeout_max_ms: Annotated[
        int, _duration("The longest transaction a producer may ask for.", least=1)
    ] = 15 * _MINUTE
    transactional_id_expiry_ms: Annotated[
        int, _duration("A transactional id that is unused this long is forgotten.", least=1)
    ] = 7 * _DAY

    # Background work and logs.
    scrub_interval_ms: Annotated[
        int,
        _duration("Everything on the disk is read and verified within this time; 0 for only when asked.", most=_YEAR),
    ] = 7 * _DAY
    scrub_bytes_a_second_max: Annotated[
        int, _size("Verifying what is on the disk reads no more than this.", least=64 * _KIB, most=100 * _GIB)
    ] = 32 * _MIB
    tls: TlsSettings = TlsSettings()
    proxy: ProxySettings = ProxySettings()
    oidc: OidcSettings = OidcSettings()
    cleaner: CleanerSettings = CleanerSettings()
    consumer_groups: ConsumerGroupSettings = ConsumerGroupSettings()
    sqs_limits: SqsSettings = SqsSettings()
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least important messages that are logged.")
    ] = "info"
    log_format: Annotated[Literal["text", "json"], Meta(description="Log lines for people or for machines.")] = "text"
