"""Sections of the settings for one part of the broker each: cleaning, consumer groups, the limits of the SQS door."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from longhall.node.setting_kinds import DAY, KIB, MIB, MINUTE, SECOND, YEAR, duration, size


class CleanerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the janitor frees space."""

    interval_ms: Annotated[int, duration("How often retention and compaction look for work.", least=10)] = 15 * SECOND
    dirty_ratio: Annotated[
        float,
        Meta(ge=0.0, le=1.0, description="A compacted partition is cleaned when this share of it was never cleaned."),
    ] = 0.5
    settled_grace_ms: Annotated[
        int, duration("How long what a queue has settled can still be read from its topic, at least.")
    ] = 30 * SECOND
    queue_segment_bytes: Annotated[
        int,
        size("The segments of queues; settled messages give back their space by segments.", least=4096, most=1 << 30),
    ] = 16 * MIB


class ConsumerGroupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Consumer groups with server-side assignment (group.protocol=consumer)."""

    session_timeout_ms: Annotated[
        int, duration("A member that sends no heartbeat for this long is removed, unless its group has its own value.")
    ] = 45 * SECOND
    session_timeout_min_ms: Annotated[int, duration("The shortest session that a group may be given.", least=1)] = (
        45 * SECOND
    )
    session_timeout_max_ms: Annotated[int, duration("The longest session that a group may be given.", least=1)] = (
        60 * SECOND
    )
    heartbeat_interval_ms: Annotated[
        int, duration("The time between two heartbeats of a member, unless its group has its own value.")
    ] = 5 * SECOND
    heartbeat_interval_min_ms: Annotated[
        int, duration("The shortest heartbeat interval that a group may be given.", least=1)
    ] = 5 * SECOND
    heartbeat_interval_max_ms: Annotated[
        int, duration("The longest heartbeat interval that a group may be given.", least=1)
    ] = 15 * SECOND
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
    """The limits of the SQS door, and what new queues have. The limits of Amazon SQS are the defaults."""

    message_bytes_max: Annotated[
        int, size("The largest MaximumMessageSize, and that of new queues.", least=KIB, most=4 * MIB)
    ] = MIB
    batch_bytes_max: Annotated[int, size("The messages of one batch together.", least=KIB, most=4 * MIB)] = MIB
    delay_ms_max: Annotated[int, duration("The longest DelaySeconds.", least=SECOND, most=YEAR)] = 15 * MINUTE
    retention_ms_min: Annotated[int, duration("The shortest MessageRetentionPeriod.", least=SECOND, most=MINUTE)] = (
        MINUTE
    )
    retention_ms_max: Annotated[int, duration("The longest MessageRetentionPeriod.", least=MINUTE, most=10 * YEAR)] = (
        14 * DAY
    )
    visibility_ms_max: Annotated[
        int, duration("The longest VisibilityTimeout, with all its extensions.", least=SECOND, most=YEAR)
    ] = 12 * 60 * MINUTE
    wait_ms_max: Annotated[
        int, duration("The longest WaitTimeSeconds of a receive.", least=SECOND, most=15 * MINUTE)
    ] = 20 * SECOND
    fifo_sends_max: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Send requests a second that a process takes for a FIFO queue, or for each message group if "
            "the queue has FifoThroughputLimit=perMessageGroupId; 0 is no limit.",
        ),
    ] = 0
    purge_apart_ms: Annotated[
        int, duration("The time between two purges of a queue by SQS clients; 0 is none.", least=0, most=60 * MINUTE)
    ] = MINUTE
    name_reuse_ms: Annotated[
        int,
        duration(
            "The time before SQS clients can use the name of a deleted queue again; 0 is none.",
            least=0,
            most=60 * MINUTE,
        ),
    ] = MINUTE
    seals_queues: Annotated[
        bool,
        Meta(
            description="New queues of SQS clients are sealed with the managed key (SqsManagedSseEnabled), as in "
            "Amazon SQS, unless the request says otherwise. It needs the setting `keys` with a managed key."
        ),
    ] = False
