"""Everything that can be set, with its type, its bounds, its default and its meaning in one place.

The struct is the only list of settings: the file, the environment, the flags and `longhall settings` are all derived
from it (`node.sources`), so none of them can name a setting that does not exist. A value is in the unit that its name
ends with. A setting that topics can override is the default for topics that do not.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from longhall.node.section_settings import CleanerSettings, ConsumerGroupSettings, SqsSettings
from longhall.node.security_settings import ConsoleSettings, OidcSettings, ProxySettings, TlsSettings
from longhall.node.setting_kinds import DAY, DURATION, GIB, KIB, MIB, MINUTE, SECOND, YEAR, address, duration, size


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of one node. Tests construct it directly; all other code gets it from `sources.load`."""

    # Addresses and files.
    data: Annotated[str, Meta(min_length=1, description="The directory of everything the node keeps.")] = (
        "./longhall-data"
    )
    kafka: Annotated[str, address("Where Kafka clients connect; port 0 takes a free one.")] = "127.0.0.1:9092"
    sqs: Annotated[str, address("Where SQS clients connect (endpoint_url); port 0 takes a free one.")] = (
        "127.0.0.1:9324"
    )
    amqp: Annotated[str, address("Where AMQP 0-9-1 clients connect; port 0 takes a free one.")] = "127.0.0.1:5672"
    stomp: Annotated[str, address("Where STOMP clients connect; port 0 takes a free one.")] = "127.0.0.1:61613"
    stomp_websocket: Annotated[
        str, address("Where STOMP clients connect by WebSocket, at ws://HOST:PORT/ws; port 0 takes a free one.")
    ] = "127.0.0.1:15674"
    management: Annotated[
        str, address("Where the management API of RabbitMQ is, for its tools; port 0 takes a free one.")
    ] = "127.0.0.1:15672"
    prometheus: Annotated[
        str, address("Where metrics by the names of RabbitMQ's dashboards are; port 0 takes a free one.")
    ] = "127.0.0.1:15692"
    http: Annotated[str, address("Where /healthz, /readyz, /metrics and the API of queues are.")] = "127.0.0.1:8080"
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
    peers: Annotated[str, address("Where the other nodes of the cluster connect; port 0 takes a free one.")] = (
        "127.0.0.1:0"
    )
    node_id: Annotated[
        int,
        Meta(ge=0, le=2**31 - 1, description="The number of the node in its cluster; 0 takes one and keeps it."),
    ] = 0
    role: Annotated[
        Literal["all", "front", "metadata", "storage"],
        Meta(
            description="What a node of a cluster stores. front: nothing. metadata: the hall (catalogue, consumer "
            "groups, transactions), and no wings. storage: wings, and not the hall. Every node serves its doors."
        ),
    ] = "all"
    rack: Annotated[str, Meta(max_length=100, description="Where the node stands; Kafka clients are told.")] = ""
    session_timeout_ms: Annotated[
        int,
        duration("A node that ZooKeeper has not heard of for so long is gone.", least=SECOND, most=MINUTE),
    ] = 6 * SECOND
    watchdog: Annotated[
        bool,
        Meta(
            description="A node of a cluster that hangs is killed by a process beside it, so that its clients' "
            "connections break and they go to the next leader; its supervisor, systemd for instance, starts it again.",
        ),
    ] = True
    hang_ms_max: Annotated[
        int,
        duration(
            "A node of a cluster whose loop has not run for so long hangs; about `session_timeout_ms` is right, since "
            "another node leads by then.",
            least=SECOND,
            most=10 * MINUTE,
        ),
    ] = 6 * SECOND
    replication_factor: Annotated[
        int,
        Meta(ge=1, le=7, description="How many nodes of the cluster keep the hall, unless its record says otherwise."),
    ] = 3
    in_sync_min: Annotated[
        int,
        Meta(ge=1, le=7, description="Messages are refused while fewer nodes of the cluster have everything."),
    ] = 2
    default_placement: Annotated[
        Literal["spread", "hall"] | None,
        Meta(
            description="Where a cluster of several hosts puts topics and queues whose creator names no placement: the "
            "main group (hall), which one host leads, or the groups of all hosts (spread): each host leads its share. "
            "Without a value, the groups of all hosts from feature level 9 on.",
        ),
    ] = None
    balance_automatic: Annotated[
        bool,
        Meta(
            description="A cluster whose default placement is spread moves the leadership of groups from busy hosts to "
            "idle ones by itself; else `longhall cluster balance` does.",
        ),
    ] = True
    lag_ms_max: Annotated[
        int,
        duration("A node of the cluster that is behind for longer is not waited for.", least=100, most=10 * MINUTE),
    ] = 3 * SECOND

    digest_interval_ms: Annotated[
        int,
        duration(
            "How often the nodes of a cluster compare digests of their state, if something was written.",
            least=100,
            most=60 * MINUTE,
        ),
    ] = MINUTE

    copy_bytes_a_second: Annotated[
        int,
        size("A node that fetches everything from another takes no more than this.", least=64 * KIB, most=100 * GIB),
    ] = 64 * MIB
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
            le=9,
            description="Write and speak as the version before did: for tests of upgrades.",
            extra={"hidden": True},
        ),
    ] = 9
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
    load_per_host: Annotated[
        int,
        size(
            "Bytes a second that a host is meant for, a message counting for 1 KiB; more of them want more hosts. "
            "0: the load wants none.",
            least=0,
            most=100 * GIB,
        ),
    ] = 0
    hosts_min: Annotated[int, Meta(ge=1, le=1000, description="Fewer hosts than these are never wanted.")] = 1
    hosts_max: Annotated[int, Meta(ge=1, le=1000, description="More hosts than these are never wanted.")] = 9

    # Topics.
    auto_create_topics: Annotated[bool, Meta(description="Make a topic when a client first asks for it.")] = True
    default_partitions: Annotated[
        int, Meta(ge=1, le=10_000, description="Partitions of a topic whose maker named no number.")
    ] = 1
    message_bytes_max: Annotated[int, size("The largest record batch that is taken.", least=1 * KIB, most=1 * GIB)] = (
        MIB + 12
    )
    segment_bytes: Annotated[
        int, size("A partition starts a new segment at this size.", least=16 * KIB, most=2 * GIB)
    ] = GIB
    segment_ms: Annotated[int, duration("A partition starts a new segment at this age.", least=1)] = 7 * DAY
    retention_ms: Annotated[int, duration("How long messages are kept.", least=-1)] = 14 * DAY
    retention_bytes: Annotated[int, size("How much of each partition is kept, oldest deleted first.", least=-1)] = -1

    # Durability.
    durability: Annotated[
        Literal["always", "interval", "none"],
        Meta(
            description="Acknowledge after the disk has it (always), sync now and then (interval), or never ask (none)."
        ),
    ] = "always"
    durability_interval_ms: Annotated[
        int, duration('How much time may be lost with durability "interval".', least=1, most=DAY)
    ] = SECOND
    shards: Annotated[
        int, Meta(ge=1, le=1024, description="Data shards of a new data directory; an existing one keeps its number.")
    ] = 8
    wal_file_bytes: Annotated[int, size("Size of one file of the write-ahead log.", least=16 * MIB, most=2 * GIB)] = (
        32 * MIB
    )
    checkpoint_bytes: Annotated[
        int, size("A checkpoint is made after this much of the write-ahead log.", least=64 * KIB)
    ] = 256 * MIB
    wal_bytes_max: Annotated[
        int,
        size(
            "Messages are refused, for producers to try again, while the write-ahead log has more than this behind its "
            "last checkpoint: a checkpoint waits for followers in sync, and for a node that fetches everything.",
            least=64 * MIB,
        ),
    ] = 16 * GIB
    disk_reserve_bytes: Annotated[
        int, size("Producing is refused when less than this is free; commits and reads go on.")
    ] = 128 * MIB
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
        int, size("How much of what was written to segments last stays in the page cache; 0 leaves it to the system.")
    ] = 256 * MIB

    behind_partitions_min: Annotated[
        int,
        Meta(
            ge=0,
            description="With more partitions at work, what they write goes to segments past the page cache.",
        ),
    ] = 32

    # Bounds.
    memory_bytes: Annotated[
        int, size("One budget for all buffers; beyond it producers are told to wait.", least=16 * MIB)
    ] = 256 * MIB
    request_bytes_max: Annotated[int, size("The largest request that is read.", least=64 * KIB, most=2 * GIB - 1)] = (
        100 * MIB
    )
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
        int, duration("A connection on which nothing happens is closed after this.", least=SECOND)
    ] = 10 * MINUTE
    drain_ms: Annotated[int, duration("How long a stop waits for requests that are under way.")] = 10 * SECOND
    drain_delay_ms: Annotated[
        int,
        duration(
            "How long a node that was told to stop serves its clients as before, with /readyz at 503, so that "
            "balancers notice.",
            most=10 * MINUTE,
        ),
    ] = 0

    # Groups, producers and transactions.
    group_initial_rebalance_delay_ms: Annotated[
        int, duration("How long a new group waits for more members before its first assignment.", most=MINUTE * 5)
    ] = 250
    group_session_timeout_min_ms: Annotated[
        int, duration("The shortest session a group member may ask for.", least=1)
    ] = 6 * SECOND
    group_session_timeout_max_ms: Annotated[
        int, duration("The longest session a group member may ask for.", least=1)
    ] = 30 * MINUTE
    group_members_max: Annotated[int, Meta(ge=1, le=100_000, description="Members of one group.")] = 1_000
    offsets_retention_ms: Annotated[
        int, duration("Offsets of a group without members are forgotten after this.", least=1)
    ] = 7 * DAY
    producer_expiry_ms: Annotated[
        int, duration("An idempotent producer that is silent this long is forgotten.", least=1)
    ] = DAY
    transaction_timeout_max_ms: Annotated[int, duration("The longest transaction a producer may ask for.", least=1)] = (
        15 * MINUTE
    )
    transactional_id_expiry_ms: Annotated[
        int, duration("A transactional id that is unused this long is forgotten.", least=1)
    ] = 7 * DAY

    # Background work and logs.
    scrub_interval_ms: Annotated[
        int,
        duration("Everything on the disk is read and verified within this time; 0 for only when asked.", most=YEAR),
    ] = 7 * DAY
    scrub_bytes_a_second_max: Annotated[
        int, size("Verifying what is on the disk reads no more than this.", least=64 * KIB, most=100 * GIB)
    ] = 32 * MIB
    tls: TlsSettings = TlsSettings()
    proxy: ProxySettings = ProxySettings()
    oidc: OidcSettings = OidcSettings()
    console: ConsoleSettings = ConsoleSettings()
    cleaner: CleanerSettings = CleanerSettings()
    consumer_groups: ConsumerGroupSettings = ConsumerGroupSettings()
    sqs_limits: SqsSettings = SqsSettings()
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least important messages that are logged.")
    ] = "info"
    log_format: Annotated[Literal["text", "json"], Meta(description="Log lines for people or for machines.")] = "text"
