"""Effects of requests to a group: replies to release and events to write.

Effects are ordered. A reply depends on the events before it in the same list: it is released when those are committed.
The state has already changed when a list of effects is returned; `Persist` is written, not applied again.
"""

from __future__ import annotations

import msgspec

from longhall.errors import Code
from longhall.topics.events import GroupEvent


class JoinRequest(msgspec.Struct, kw_only=True, frozen=True):
    """JoinGroup. `fresh_member_id` is a new id from the caller, for a member without one."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    fresh_member_id: str
    requires_known_member: bool = True  # KIP-394, from version 4 on.
    supports_skipping_assignment: bool = True  # KIP-814, from version 9 on.


class SyncRequest(msgspec.Struct, kw_only=True, frozen=True):
    """SyncGroup. Only the leader's assignments count."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class CommitRequest(msgspec.Struct, kw_only=True, frozen=True):
    """OffsetCommit and TxnOffsetCommit: rows are topic, partition, offset, leader epoch, metadata."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None
    offsets: tuple[tuple[str, int, int, int, str | None], ...]


class JoinResult(msgspec.Struct, kw_only=True, frozen=True):
    """The answer to a join. Only the leader gets `members` (id, instance id, metadata)."""

    code: Code | None = None
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False


class SyncResult(msgspec.Struct, kw_only=True, frozen=True):
    """The answer to a sync."""

    code: Code | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class LeaveResult(msgspec.Struct, kw_only=True, frozen=True):
    """The answer to a leave: (member id, instance id, code) in the order of the request."""

    code: Code | None = None
    members: tuple[tuple[str, str | None, Code | None], ...] = ()


class CommitResult(msgspec.Struct, kw_only=True, frozen=True):
    """The answer to a commit: one code for the request, or codes of the refused partitions."""

    code: Code | None = None
    refused: dict[tuple[str, int], Code] = {}


class DeleteOffsetsResult(msgspec.Struct, kw_only=True, frozen=True):
    """The answer to a deletion of offsets, in the form of CommitResult."""

    code: Code | None = None
    refused: dict[tuple[str, int], Code] = {}


class DeleteGroupsResult(msgspec.Struct, kw_only=True, frozen=True):
    """The answer to a deletion of groups: a code or None for each, in the order of the request."""

    groups: tuple[tuple[str, Code | None], ...] = ()


class EndResult(msgspec.Struct, kw_only=True, frozen=True):
    """The pending offsets of a transaction were committed or discarded."""


Result = JoinResult | SyncResult | LeaveResult | CommitResult | DeleteOffsetsResult | DeleteGroupsResult | EndResult


class Persist(msgspec.Struct, frozen=True):
    """Write this event; the replies after it wait until it is committed."""

    event: GroupEvent


class Reply(msgspec.Struct, frozen=True):
    """Answer the request with this ticket."""

    ticket: object
    result: Result


Effect = Persist | Reply
