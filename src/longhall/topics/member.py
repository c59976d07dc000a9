"""One member of a consumer group, and its waiting requests."""

from __future__ import annotations

from typing import final

from longhall.topics.effects import JoinRequest
from longhall.topics.events import MemberRecord
from longhall.topics.timers import Timer


@final
class ConsumerMember:
    """A member. The tickets are those of waiting requests; None if there is none."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
        "timer",
    )

    def __init__(self, member_id: str, timer: Timer) -> None:
        self.member_id = member_id
        self.instance_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.session_timeout_ms = 0
        self.rebalance_timeout_ms = 0
        self.protocols: tuple[tuple[str, bytes], ...] = ()
        self.assignment = b""
        self.join_ticket: object | None = None
        self.sync_ticket: object | None = None
        self.is_new = False  # It was never part of a generation, so it does not know its id and cannot send heartbeats.
        self.timer = timer

    def take(self, request: JoinRequest) -> None:
        """Update the member from its join request."""
        self.protocols = request.protocols
        self.session_timeout_ms = request.session_timeout_ms
        self.rebalance_timeout_ms = request.rebalance_timeout_ms

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata for the group's protocol."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str:
        """The member's preferred protocol among those that every member supports."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError("a member shares no protocol with the others")

    @property
    def may_be_silent(self) -> bool:
        """True while it waits for a join or a sync, when it cannot send heartbeats; a new member waits for a bounded
        time.
        """
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def record(self) -> MemberRecord:
        return MemberRecord(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=self.protocols,
            assignment=self.assignment,
        )

    @staticmethod
    def from_record(record: MemberRecord, timer: Timer) -> ConsumerMember:
        member = ConsumerMember(record.member_id, timer)
        member.instance_id = record.instance_id
        member.client_id = record.client_id
        member.client_host = record.client_host
        member.session_timeout_ms = record.session_timeout_ms
        member.rebalance_timeout_ms = record.rebalance_timeout_ms
        member.protocols = record.protocols
        member.assignment = record.assignment
        return member
