"""Rules for committing, deleting and expiring offsets. They change no group."""

from __future__ import annotations

from longhall.errors import Code
from longhall.names import JOB_GROUP_PREFIX
from longhall.topics.consumer_group import ConsumerGroup
from longhall.topics.effects import CommitRequest
from longhall.topics.events import OffsetRow
from longhall.topics.group import CONSUMER_PROTOCOL_TYPE, Group, State


def check_commit(group: Group, request: CommitRequest, transactional: bool) -> Code | None:
    """Why this member of this generation may not commit now; None if it may."""
    if request.generation < 0 and group.state is State.EMPTY:
        return None  # An administrator, or a consumer without group membership.
    if request.generation >= 0 or request.member_id or request.instance_id is not None:
        code = group.check_member(request.member_id, request.instance_id)
        if code is not None:
            return code
        if request.generation != group.generation:
            return Code.ILLEGAL_GENERATION
    elif not transactional:
        return Code.UNKNOWN_MEMBER  # The group has members: only they commit its offsets.
    if not transactional and group.state is State.COMPLETING:
        return Code.REBALANCE_IN_PROGRESS
    return None


def check_member_commit(group: ConsumerGroup, request: CommitRequest, transactional: bool) -> Code | None:
    """The same for a group with server-side assignment: the generation is the member epoch."""
    if request.generation < 0 and group.is_empty:
        return None
    if request.instance_id is not None and group.instances.get(request.instance_id, "") != request.member_id:
        return Code.FENCED_INSTANCE if request.instance_id in group.instances else Code.UNKNOWN_MEMBER
    member = group.members.get(request.member_id)
    if member is None:
        return Code.UNKNOWN_MEMBER
    if member.classic is not None:
        return None if request.generation == member.epoch else Code.ILLEGAL_GENERATION
    if not transactional and not request.knows_epochs:
        return Code.UNSUPPORTED_VERSION
    if request.generation == member.epoch:
        return None
    return Code.ILLEGAL_GENERATION if transactional else Code.STALE_MEMBER_EPOCH  # Producers know only the former.


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> Code | None:
    """Why this member of this epoch may not read offsets; None if it may, or if it is no member at all."""
    if member_id is None and epoch < 0:
        return None
    member = group.members.get(member_id or "")
    if member is None:
        return Code.UNKNOWN_MEMBER
    if member.epoch == epoch:
        return None
    return Code.STALE_MEMBER_EPOCH if member.classic is None else Code.ILLEGAL_GENERATION


def accepted_rows(
    request: CommitRequest, metadata_bytes_max: int
) -> tuple[tuple[OffsetRow, ...], dict[tuple[str, int], Code]]:
    """The rows that are accepted, and the codes of the others."""
    rows: list[OffsetRow] = []
    refused: dict[tuple[str, int], Code] = {}
    for topic, partition, offset, leader_epoch, metadata in request.offsets:
        metadata = metadata or ""
        if len(metadata) > metadata_bytes_max or len(metadata.encode()) > metadata_bytes_max:
            refused[topic, partition] = Code.OFFSET_METADATA_TOO_LARGE
        else:
            rows.append((topic, partition, offset, leader_epoch, metadata))
    return tuple(rows), refused


def check_delete_offsets(group: Group) -> Code | None:
    """Why offsets of this group cannot be deleted; None if they can. A live group must be of consumers, so that its
    subscriptions are known.
    """
    if group.state is not State.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return Code.GROUP_NOT_EMPTY
    return None


def expired_offsets(group: Group | ConsumerGroup, now_ms: int, retention_ms: int) -> list[tuple[str, int]]:
    """The offsets that have expired.

    Offsets of an empty group age from when it became empty; those of topics that a live group no longer reads, and
    those of consumers without membership, from their last commit. During a rebalance nothing expires. Offsets committed
    by Longhall's own jobs never expire: a replay that lost its position would send everything again.
    """
    if group.group_id.startswith(JOB_GROUP_PREFIX):
        return []
    emptied_ms = group.emptied_ms
    if isinstance(group, Group) and not group.is_empty:
        if group.state is not State.STABLE or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return []
    unstable = group.offsets.unstable()
    reading: dict[str, bool] = {}
    expired = []
    for topic, partition, committed in group.offsets.all():
        if topic not in reading:
            reading[topic] = group.is_subscribed(topic)
        if reading[topic] or (topic, partition) in unstable:
            continue
        since_ms = committed[3] if emptied_ms is None else max(emptied_ms, committed[3])
        if now_ms - since_ms >= retention_ms:
            expired.append((topic, partition))
    return expired
