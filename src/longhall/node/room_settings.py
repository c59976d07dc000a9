"""The settings of single rooms, from the settings of the node: the broker, the SQS door, and what Kafka's tools see.

Pure: nothing here opens, starts or checks anything.
"""

from __future__ import annotations

import os
from typing import Final

from longhall.broker.options import HallOptions
from longhall.doors.sqs.limits import SqsLimits
from longhall.node.memory_shares import shares_of
from longhall.node.settings import Settings
from longhall.topics.share_groups import MEMBERS_MAX as SHARE_MEMBERS_MAX
from longhall.topics.share_settings import SETTINGS as SHARE_SETTINGS

WAL_CHECKPOINTS_MIN: Final = 2  # The log may always grow to this many checkpoints, whatever the setting is.
BEHIND_BYTES_MIN: Final = 64 * 1024  # Smaller tails are written by the event loop itself.
BEHIND_SHARE: Final = 4096


def group_role(settings: Settings) -> str:
    """The role under which a node registers; empty for one that does everything, as before there were roles."""
    return "" if settings.role == "all" else settings.role


def options_of(settings: Settings) -> HallOptions:
    """The options of the broker, from the settings."""
    consumers = settings.consumer_groups
    return HallOptions(
        auto_create_topics=settings.auto_create_topics,
        default_partitions=settings.default_partitions,
        in_sync_min=settings.in_sync_min if settings.coordinator is not None else 1,
        message_bytes_max=settings.message_bytes_max,
        segment_bytes=settings.segment_bytes,
        segment_ms=settings.segment_ms,
        retention_ms=settings.retention_ms,
        retention_bytes=settings.retention_bytes,
        durability=settings.durability,
        durability_interval_ms=settings.durability_interval_ms,
        shards=settings.shards,
        wal_file_bytes=settings.wal_file_bytes,
        checkpoint_bytes=settings.checkpoint_bytes,
        disk_reserve_bytes=settings.disk_reserve_bytes,
        backlog_bytes_max=shares_of(settings.memory_bytes).backlog_bytes,
        wal_bytes_max=max(settings.wal_bytes_max, WAL_CHECKPOINTS_MIN * settings.checkpoint_bytes),
        open_files_max=settings.open_files_max,
        recent_bytes=settings.recent_bytes,
        lone_sync_us_max=settings.lone_sync_us_max,
        tail_bytes_max=shares_of(settings.memory_bytes).tail_bytes,
        behind_tails_min=settings.behind_partitions_min,
        behind_bytes_min=min(BEHIND_BYTES_MIN, settings.memory_bytes // BEHIND_SHARE),
        scrub_interval_ms=settings.scrub_interval_ms,
        scrub_bytes_a_second_max=settings.scrub_bytes_a_second_max,
        cleaner_interval_ms=settings.cleaner.interval_ms,
        cleaner_dirty_ratio=settings.cleaner.dirty_ratio,
        settled_grace_ms=settings.cleaner.settled_grace_ms,
        queue_segment_bytes=settings.cleaner.queue_segment_bytes,
        group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        group_session_timeout_min_ms=settings.group_session_timeout_min_ms,
        group_session_timeout_max_ms=settings.group_session_timeout_max_ms,
        group_members_max=settings.group_members_max,
        consumer_session_timeout_ms=consumers.session_timeout_ms,
        consumer_session_timeout_min_ms=consumers.session_timeout_min_ms,
        consumer_session_timeout_max_ms=consumers.session_timeout_max_ms,
        consumer_heartbeat_interval_ms=consumers.heartbeat_interval_ms,
        consumer_heartbeat_interval_min_ms=consumers.heartbeat_interval_min_ms,
        consumer_heartbeat_interval_max_ms=consumers.heartbeat_interval_max_ms,
        consumer_members_max=consumers.members_max,
        consumer_assignors=tuple(dict.fromkeys(consumers.assignors.split(","))),
        consumer_migration=consumers.migration_policy,
        offsets_retention_ms=settings.offsets_retention_ms,
        producer_expiry_ms=settings.producer_expiry_ms,
        transaction_timeout_max_ms=settings.transaction_timeout_max_ms,
        transactional_id_expiry_ms=settings.transactional_id_expiry_ms,
    )


def sqs_limits_of(settings: Settings) -> SqsLimits:
    """The limits of the SQS door."""
    limits = settings.sqs_limits
    return SqsLimits(
        message_bytes_max=limits.message_bytes_max,
        batch_bytes_max=limits.batch_bytes_max,
        delay_s_max=limits.delay_ms_max // 1000,
        retention_s_min=-(-limits.retention_ms_min // 1000),
        retention_s_max=limits.retention_ms_max // 1000,
        visibility_s_max=limits.visibility_ms_max // 1000,
        wait_s_max=limits.wait_ms_max // 1000,
        fifo_sends_max=limits.fifo_sends_max,
        purge_apart_ms=limits.purge_apart_ms,
        name_reuse_ms=limits.name_reuse_ms,
        seals_queues=limits.seals_queues,
    )


def broker_settings(settings: Settings) -> dict[str, str]:
    """What DescribeConfigs shows of this broker, by the names that Kafka's tools know."""
    copies = str(settings.replication_factor)
    consumers = settings.consumer_groups
    shared = {"default.replication.factor": copies, "min.insync.replicas": str(settings.in_sync_min)}
    return {
        "auto.create.topics.enable": str(settings.auto_create_topics).lower(),
        "num.partitions": str(settings.default_partitions),
        "default.replication.factor": "1",
        "message.max.bytes": str(settings.message_bytes_max),
        "log.segment.bytes": str(settings.segment_bytes),
        "log.roll.ms": str(settings.segment_ms),
        "log.retention.ms": str(settings.retention_ms),
        "log.retention.bytes": str(settings.retention_bytes),
        "offsets.retention.minutes": str(settings.offsets_retention_ms // 60_000),
        "group.consumer.session.timeout.ms": str(consumers.session_timeout_ms),
        "group.consumer.min.session.timeout.ms": str(consumers.session_timeout_min_ms),
        "group.consumer.max.session.timeout.ms": str(consumers.session_timeout_max_ms),
        "group.consumer.heartbeat.interval.ms": str(consumers.heartbeat_interval_ms),
        "group.consumer.min.heartbeat.interval.ms": str(consumers.heartbeat_interval_min_ms),
        "group.consumer.max.heartbeat.interval.ms": str(consumers.heartbeat_interval_max_ms),
        "group.consumer.max.size": str(consumers.members_max),
        "group.consumer.assignors": consumers.assignors,
        "group.consumer.migration.policy": consumers.migration_policy,
        **{f"group.{name}": setting.default for name, setting in SHARE_SETTINGS.items() if setting.default.isdigit()},
        "group.share.max.size": str(SHARE_MEMBERS_MAX),
        "transaction.max.timeout.ms": str(settings.transaction_timeout_max_ms),
        "socket.request.max.bytes": str(settings.request_bytes_max),
        "max.connections": str(settings.connections_max),
        "max.connections.per.ip": str(settings.connections_per_address_max),
        "log.cleaner.backoff.ms": str(settings.cleaner.interval_ms),
        "log.cleaner.min.cleanable.ratio": str(settings.cleaner.dirty_ratio),
        "producer.id.expiration.ms": str(settings.producer_expiry_ms),
        "log.dirs": os.path.abspath(settings.data),
        "longhall.durability": settings.durability,
        **(shared if settings.coordinator is not None else {}),
    }
