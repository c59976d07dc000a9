"""What the broker was told once, when the node was put together."""

from __future__ import annotations

import msgspec


class HallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The broker's share of the settings; the meaning and bounds of each are described there."""

    wing: int = 0  # The number of the wing that this hall is; 0: the main hall, or one without wings.
    auto_create_topics: bool = True
    default_partitions: int = 1
    message_bytes_max: int = 1024 * 1024 + 12
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    retention_ms: int = 14 * 24 * 3_600_000
    retention_bytes: int = -1
    durability: str = "always"
    durability_interval_ms: int = 1_000
    shards: int = 8
    first_partition: int = 1  # Where the numbers of partitions begin: in wings they are others than in the hall.
    wal_file_bytes: int = 32 * 1024 * 1024
    checkpoint_bytes: int = 256 * 1024 * 1024
    checkpoint_steps: int = 400_000
    disk_reserve_bytes: int = 128 * 1024 * 1024
    backlog_bytes_max: int = 128 * 1024 * 1024  # What a leader has appended and its followers have not committed.
    wal_bytes_max: int = 16 * 1024**3  # Behind the last checkpoint.
    open_files_max: int = 4_096
    lone_sync_us_max: int = 0
    recent_bytes: int = 256 * 1024 * 1024
    tail_bytes_max: int = 128 * 1024 * 1024
    behind_tails_min: int = 32  # With more partitions at work their tails are written beside the loop,
    behind_bytes_min: int = 64 * 1024  # those that are at least so large.
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
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    producer_expiry_ms: int = 24 * 3_600_000
    transaction_timeout_max_ms: int = 900_000
    transactional_id_expiry_ms: int = 7 * 24 * 3_600_000
