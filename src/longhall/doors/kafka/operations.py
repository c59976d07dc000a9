"""What the Kafka door offers: each API with the versions that work and its handler.

`direct` handlers read the frame themselves, for speed; the others get the decoded message and return the answer, now or
as a coroutine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)


class Operation(NamedTuple):
    """One row."""

    version_min: int
    version_max: int
    handler: Callable[[Door, Any, Any], Any] | None = None
    direct: Callable[[Door, Call], None] | None = None


OPERATIONS: Final[dict[int, Operation]] = {
    0: Operation(0, 13, direct=produce.handle),
    1: Operation(4, 18, direct=fetch.handle),
    2: Operation(1, 10, list_offsets.handle),
    3: Operation(0, 13, metadata.handle),
    8: Operation(2, 10, offset_commit.handle),
    9: Operation(1, 10, offset_fetch.handle),
    10: Operation(0, 6, find_coordinator.handle),
    11: Operation(0, 9, join_group.handle),
    12: Operation(0, 4, heartbeat.handle),
    13: Operation(0, 5, leave_group.handle),
    14: Operation(0, 5, sync_group.handle),
    15: Operation(0, 6, describe_groups.handle),
    16: Operation(0, 5, list_groups.handle),
    18: Operation(0, 4, api_versions.handle),
    19: Operation(2, 7, create_topics.handle),
    20: Operation(1, 6, delete_topics.handle),
    21: Operation(0, 2, delete_records.handle),
    22: Operation(0, 5, init_producer_id.handle),
    23: Operation(2, 4, offset_for_leader_epoch.handle),
    24: Operation(0, 5, add_partitions_to_txn.handle),
    25: Operation(0, 4, add_offsets_to_txn.handle),
    26: Operation(0, 5, end_txn.handle),
    27: Operation(1, 2, write_txn_markers.handle),
    28: Operation(0, 5, txn_offset_commit.handle),
    32: Operation(1, 4, describe_configs.handle),
    33: Operation(0, 2, alter_configs.handle),
    35: Operation(1, 4, describe_log_dirs.handle),
    37: Operation(0, 3, create_partitions.handle),
    42: Operation(0, 2, delete_groups.handle),
    43: Operation(0, 2, elect_leaders.handle),
    44: Operation(0, 1, alter_configs.handle_incremental),
    47: Operation(0, 0, offset_delete.handle),
    60: Operation(0, 2, describe_cluster.handle),
    61: Operation(0, 0, describe_producers.handle),
    65: Operation(0, 0, describe_transactions.handle),
    66: Operation(0, 2, list_transactions.handle),
    75: Operation(0, 0, describe_topic_partitions.handle),
}
