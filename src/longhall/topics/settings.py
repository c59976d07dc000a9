"""Settings of groups and transactions, with bounds in the types."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

DAY_MS: Final = 24 * 60 * 60 * 1000

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_NotNegative = Annotated[int, msgspec.Meta(ge=0)]


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of consumer groups."""

    session_timeout_min_ms: _Positive = 6_000
    session_timeout_max_ms: _Positive = 30 * 60 * 1000
    initial_rebalance_delay_ms: _NotNegative = 50
    new_member_join_timeout_ms: _Positive = 5 * 60 * 1000
    members_max: _Positive = 10_000
    groups_max: _Positive = 100_000
    offsets_retention_ms: _Positive = 7 * DAY_MS
    empty_group_linger_ms: _Positive = 10 * 60 * 1000  # For groups without offsets.
    offset_metadata_bytes_max: _NotNegative = 4096
    # Groups with server-side assignment.
    consumer_session_timeout_ms: _Positive = 45_000
    consumer_session_timeout_min_ms: _Positive = 45_000
    consumer_session_timeout_max_ms: _Positive = 60_000
    consumer_heartbeat_interval_ms: _Positive = 5_000
    consumer_heartbeat_interval_min_ms: _Positive = 5_000
    consumer_heartbeat_interval_max_ms: _Positive = 15_000
    consumer_members_max: _Positive = 1_000
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # The first one is used unless members choose.
    consumer_migration: str = "bidirectional"  # Or upgrade, downgrade, disabled: of groups with members.


class TransactionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of transactions."""

    timeout_max_ms: _Positive = 15 * 60 * 1000
    idle_expiry_ms: _Positive = 7 * DAY_MS
    transactional_ids_max: _Positive = 100_000
    partitions_max: _Positive = 100_000  # In one transaction.
