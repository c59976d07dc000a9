"""The broker's options, given when the node is assembled; some of them change at run time (`broker_configuration`)."""

from __future__ import annotations

import msgspec


class HallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The broker's part of the settings; the node settings describe meaning and bounds."""

    wing: int = 0  # The wing number of this hall; 0: the main hall.
    auto_create_topics: bool = True
    default_partitions: int = 1
    in_sync_min: int = 1  # In a cluster: with fewer replicas in sync, messages are refused.
    message_bytes_max: int = 1024 * 1024 + 12
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    retention_ms: int = 14 * 24 * 3_600_000
    retention_bytes: int = -1
    durability: str = "always"
    durability_interval_ms: int = 1_000
    shards: int = 8
    first_partition: int = 1  # The first partition id; wings use other ranges than the main hall.
    wal_file_bytes: int = 32 * 1024 * 1024
    checkpoint_bytes: int = 256 * 1024 * 1024
    checkpoint_steps: int = 400_000
    disk_reserve_bytes: int = 128 * 1024 * 1024
    backlog_bytes_max: int = 128 * 1024 * 1024  # Bytes that a leader has appended and not committed.
    wal_bytes_max: int = 16 * 1024**3  # After the last checkpoint.
    open_files_max: int = 4_096
    lone_sync_us_max: int = 0
    recent_bytes: int = 256 * 1024 * 1024
    tail_bytes_max: int = 128 * 1024 * 1024
    behind_tails_min: int = 32  # With more active partitions, tails are written in the background,
    behind_bytes_min: int = 64 * 1024  # if they are at least this large.
    scrub_interval_ms: int = 0
    scrub_bytes_a_second_max: int = 32 * 1024 * 1024
    cleaner_interval_ms: int = 15_000
    cleaner_dirty_ratio: float = 0.5
    settled_grace_ms: int = 30_000
    queue_segment_bytes: int = 16 * 1024 * 1024
    group_initial_rebalance_delay_ms: int = 250
    group_session_timeout_min_ms: int = 6_000
    group_session_timeout_max_ms: int = 1_800_000
    group_members_max: int = 1_000
    consumer_session_timeout_ms: int = 45_000
    consumer_session_timeout_min_ms: int = 45_000
    consumer_session_timeout_max_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_heartbeat_interval_min_ms: int = 5_000
    consumer_heartbeat_interval_max_ms: int = 15_000
    consumer_members_max: int = 1_000
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration: str = "bidirectional"
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    producer_expiry_ms: int = 24 * 3_600_000
    transaction_timeout_max_ms: int = 900_000
    transactional_id_expiry_ms: int = 7 * 24 * 3_600_000
    topic_defaults: dict[str, str] = {}  # Of topic configurations, before those of the table: changed at run time.
