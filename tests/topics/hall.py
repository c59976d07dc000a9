"""A shard's groups for tests: numbered tickets, collected replies, events that went through msgpack."""

from __future__ import annotations

from typing import Any

import msgspec

from longhall.topics.assignment import Assigned, assigned, places
from longhall.topics.assignors import SubscribedTopic
from longhall.topics.effects import (
    CommitRequest,
    CommitResult,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    Effect,
    JoinRequest,
    JoinResult,
    LeaveResult,
    Persist,
    Reply,
    Result,
    SyncRequest,
    SyncResult,
)
from longhall.topics.events import GroupEvent
from longhall.topics.groups import Groups
from longhall.topics.settings import GroupSettings

QUICK = GroupSettings(initial_rebalance_delay_ms=0)
ROUND_ROBIN = (("roundrobin", b"r"),)


class Topics:
    """A catalogue of topics for groups with server-side assignment."""

    def __init__(self, **partitions: int) -> None:
        self.version = 1
        self._topics: dict[str, SubscribedTopic] = {}
        for name, count in partitions.items():
            self.set(name, count)

    def set(self, name: str, partitions: int) -> None:
        """Create a topic, or give it more partitions."""
        self.version += 1
        self._topics[name] = SubscribedTopic(name.encode().ljust(16, b"."), name, partitions)

    def drop(self, name: str) -> None:
        self.version += 1
        self._topics.pop(name, None)

    def find(self, name: str) -> SubscribedTopic | None:
        return self._topics.get(name)

    def names(self) -> list[str]:
        return list(self._topics)


class Hall:
    """One `Groups` with a clock, its journal and its replies."""

    def __init__(self, settings: GroupSettings = QUICK, topics: Topics | None = None) -> None:
        self.settings = settings
        self.topics = topics or Topics()
        self.groups = Groups(settings, self.topics)
        self.now_ms = 1_000
        self.journal: list[bytes] = []
        self.replies: dict[int, Result] = {}
        self.asked = 0
        self.fresh = 0

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Persist):
                self.journal.append(msgspec.msgpack.encode(effect.event))
            else:
                assert isinstance(effect, Reply)
                assert isinstance(effect.ticket, int)
                assert effect.ticket not in self.replies, "answered twice"
                self.replies[effect.ticket] = effect.result

    def ticket(self) -> int:
        self.asked += 1
        return self.asked

    def events(self) -> list[GroupEvent]:
        return [msgspec.msgpack.decode(entry, type=GroupEvent) for entry in self.journal]

    def replayed(self) -> Groups:
        groups = Groups(self.settings, self.topics)
        for event in self.events():
            groups.apply(event, self.now_ms)
        return groups

    def restart(self) -> None:
        self.groups = self.replayed()

    def advance(self, by_ms: int) -> None:
        """Advance the time as a broker does: from deadline to deadline."""
        until_ms = self.now_ms + by_ms
        while (deadline_ms := self.groups.next_deadline_ms()) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.take(self.groups.tick(self.now_ms))
        self.now_ms = until_ms

    # Requests; those that may have to wait return their ticket.

    def send_join(self, member_id: str = "", group_id: str = "g", **fields: Any) -> int:
        self.fresh += 1
        fields.setdefault("protocol_type", "consumer")
        fields.setdefault("protocols", ROUND_ROBIN)
        fields.setdefault("requires_known_member", False)
        fields.setdefault("fresh_member_id", f"m{self.fresh}")
        ticket = self.ticket()
        request = JoinRequest(group_id=group_id, member_id=member_id, **fields)
        self.take(self.groups.join(request, ticket, self.now_ms))
        return ticket

    def joined(self, ticket: int) -> JoinResult:
        result = self.replies[ticket]
        assert isinstance(result, JoinResult)
        return result

    def send_sync(self, joined: JoinResult, assignments: dict[str, bytes] | None = None, **fields: Any) -> int:
        ticket = self.ticket()
        request = SyncRequest(
            group_id=fields.pop("group_id", "g"),
            member_id=joined.member_id,
            generation=joined.generation,
            assignments=tuple((assignments or {}).items()),
            **fields,
        )
        self.take(self.groups.sync(request, ticket, self.now_ms))
        return ticket

    def synced(self, ticket: int) -> SyncResult:
        result = self.replies[ticket]
        assert isinstance(result, SyncResult)
        return result

    def leave(self, *members: tuple[str, str | None]) -> LeaveResult:
        ticket = self.ticket()
        self.take(self.groups.leave("g", members, ticket, self.now_ms))
        result = self.replies[ticket]
        assert isinstance(result, LeaveResult)
        return result

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeatResult:
        """A heartbeat of the consumer protocol; what is owned is given as (topic, number)."""
        ticket = self.ticket()
        if fields.get("owned") is not None:
            found = [(self.topics.find(name), number) for name, number in fields["owned"]]
            fields["owned"] = assigned((topic.topic_id, number) for topic, number in found if topic is not None)
        request = ConsumerHeartbeat(group_id=fields.pop("group_id", "g"), member_id=member_id, epoch=epoch, **fields)
        self.take(self.groups.consumer_heartbeat(request, ticket, self.now_ms))
        result = self.replies[ticket]
        assert isinstance(result, ConsumerHeartbeatResult)
        return result

    def enter(self, member_id: str, *topics: str, **fields: Any) -> ConsumerHeartbeatResult:
        """Join with the consumer protocol."""
        fields.setdefault("rebalance_timeout_ms", 20_000)
        fields.setdefault("topics", topics or None)
        return self.beat(member_id, 0, owned=(), **fields)

    def named(self, rows: Assigned | None) -> set[tuple[str, int]]:
        """What was assigned, as (name, number)."""
        return {(topic_id.rstrip(b".").decode(), number) for topic_id, number in places(rows or ())}

    def commit(self, offset: int = 1, topic: str = "t", partition: int = 0, **fields: Any) -> CommitResult:
        ticket = self.ticket()
        metadata = fields.pop("metadata", "")
        request = CommitRequest(
            group_id=fields.pop("group_id", "g"), offsets=((topic, partition, offset, 0, metadata),), **fields
        )
        self.take(self.groups.commit_offsets(request, ticket, self.now_ms))
        result = self.replies[ticket]
        assert isinstance(result, CommitResult)
        return result

    def hold(self, producer_id: int, offset: int, topic: str = "t", partition: int = 0, **fields: Any) -> CommitResult:
        ticket = self.ticket()
        request = CommitRequest(group_id="g", offsets=((topic, partition, offset, 0, ""),), **fields)
        self.take(self.groups.hold_offsets(request, producer_id, 0, ticket, self.now_ms))
        result = self.replies[ticket]
        assert isinstance(result, CommitResult)
        return result

    def end(self, producer_id: int, committed: bool) -> None:
        self.take(self.groups.end_transaction("g", producer_id, committed, self.ticket(), self.now_ms))

    def offset(self, topic: str = "t", partition: int = 0, group_id: str = "g") -> int:
        (fetched,) = self.groups.fetch_offsets(group_id, [(topic, partition)], require_stable=False)
        return fetched.offset

    # Sequences of requests.

    def stable(self, count: int = 1, **fields: Any) -> list[JoinResult]:
        """A group of `count` members with their assignments; the leader first."""
        tickets = [self.send_join(**fields) for _ in range(count)]
        self.advance(self.settings.initial_rebalance_delay_ms)
        for _ in range(count):
            known = [ticket for ticket in tickets if ticket in self.replies]
            results = [self.joined(ticket) for ticket in known]
            behind = [ticket for ticket in tickets if ticket not in self.replies]
            if not behind:
                break
            tickets = behind + [self.send_join(result.member_id, **fields) for result in results]
        results = [self.joined(ticket) for ticket in tickets]
        results.sort(key=lambda result: result.leader != result.member_id)
        plan = {result.member_id: result.member_id.encode() for result in results}
        syncs = [self.send_sync(result, plan if result.members else None) for result in results]
        assert all(self.synced(sync).code is None for sync in syncs)
        return results

    def state(self, group_id: str = "g") -> str:
        described = self.groups.describe_group(group_id)
        return "Dead" if described is None else described.state
