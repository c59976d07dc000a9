"""Effects of requests to a group: replies to release and events to write.

Effects are ordered. A reply depends on the events before it in the same list: it is released when those are committed.
The state has already changed when a list of effects is returned; `Persist` is written, not applied again.
"""

from __future__ import annotations

import msgspec

from longhall.errors import Code
from longhall.topics.assignment import Assigned
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


class ConsumerHeartbeat(msgspec.Struct, kw_only=True, frozen=True):
    """ConsumerGroupHeartbeat. A field that is None, and a time-out of -1, say that nothing has changed.

    The epoch is 0 to join, -1 to leave, -2 to leave as a static member that will return.
    """

    group_id: str
    member_id: str = ""
    epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Assigned | None = None
    client_id: str = ""
    client_host: str = ""
    fresh_member_id: str = ""  # A new id from the caller; empty if members of this version bring their own.


class CommitRequest(msgspec.Struct, kw_only=True, frozen=True):
    """OffsetCommit and TxnOffsetCommit: rows are topic, partition, offset, leader epoch, metadata."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None
    knows_epochs: bool = True  # From version 9 of OffsetCommit on.
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


class ConsumerHeartbeatResult(msgspec.Struct, kw_only=True, frozen=True):
    """The answer to a ConsumerGroupHeartbeat. `assigned` is None if it has not changed."""

    code: Code | None = None
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: Assigned | None = None


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


class ConfigureResult(msgspec.Struct, kw_only=True, frozen=True):
    """The settings of a group were changed."""


Result = (
    JoinResult
    | SyncResult
    | ConsumerHeartbeatResult
    | LeaveResult
    | CommitResult
    | DeleteOffsetsResult
    | DeleteGroupsResult
    | EndResult
    | ConfigureResult
)


class Persist(msgspec.Struct, frozen=True):
    """Write this event; the replies after it wait until it is committed."""

    event: GroupEvent


class Reply(msgspec.Struct, frozen=True):
    """Answer the request with this ticket."""

    ticket: object
    result: Result


Effect = Persist | Reply
