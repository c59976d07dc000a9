"""Groups under arbitrary members, times and restarts.

The invariants: one assignment per generation, so that a partition has one owner in it; generations grow; every waiting
request is answered, once; and the journal replays to the same durable state.
"""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from longhall.errors import Code
from longhall.topics.effects import CommitRequest, JoinResult
from longhall.topics.events import GroupStable
from longhall.topics.groups import Groups
from longhall.topics.settings import GroupSettings
from tests.examples import examples
from tests.topics.hall import Hall

SETTINGS = GroupSettings(
    initial_rebalance_delay_ms=500, new_member_join_timeout_ms=60_000, members_max=4, offsets_retention_ms=200_000
)
SLOTS = st.integers(0, 4)
PROTOCOLS = st.sampled_from(
    [(("x", b"1"), ("y", b"1")), (("x", b"2"), ("y", b"2")), (("y", b"3"), ("x", b"3")), (("y", b"4"),)]
)


class Consumer:
    """The state of a client between its requests."""

    def __init__(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.join: int | None = None
        self.sync: int | None = None
        self.joined: JoinResult | None = None


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.hall = Hall(SETTINGS)
        self.consumers = [Consumer() for _ in range(5)]
        self.plans: dict[int, bytes] = {}  # Generation to the assignment that its members got.
        self.highest = 0
        self.lost: set[int] = set()  # Tickets that were waiting when the node died.

    def instance(self, slot: int) -> str | None:
        return f"i{slot}" if slot >= 3 else None

    def listen(self) -> None:
        """Let every client read its answers."""
        for consumer in self.consumers:
            if consumer.join in self.hall.replies:
                result = self.hall.joined(consumer.join)
                consumer.join = None
                if result.code is None:
                    assert result.generation >= self.highest
                    self.highest = result.generation
                    consumer.joined = result
                    consumer.member_id, consumer.generation = result.member_id, result.generation
                elif result.code is Code.MEMBER_ID_REQUIRED:
                    consumer.member_id = result.member_id
                elif result.code in (Code.UNKNOWN_MEMBER, Code.FENCED_INSTANCE, Code.GROUP_FULL):
                    consumer.member_id = ""
            if consumer.sync in self.hall.replies:
                answer = self.hall.synced(consumer.sync)
                consumer.sync = None
                if answer.code is None and answer.assignment:
                    plan = self.plans.setdefault(consumer.generation, answer.assignment)
                    assert plan == answer.assignment, "two assignments in one generation"

    @rule(slot=SLOTS, protocols=PROTOCOLS, known=st.booleans())
    def join(self, slot: int, protocols: tuple[tuple[str, bytes], ...], known: bool) -> None:
        consumer = self.consumers[slot]
        consumer.join = self.hall.send_join(
            consumer.member_id,
            instance_id=self.instance(slot),
            protocols=protocols,
            requires_known_member=known,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
        )
        self.listen()

    @rule(slot=SLOTS)
    def sync(self, slot: int) -> None:
        consumer = self.consumers[slot]
        if consumer.joined is None:
            return
        joined = consumer.joined
        plan = {}
        if joined.members and not joined.skip_assignment:
            # An assignment is identified by its number: a member that leads twice in a generation would make two.
            plan = dict.fromkeys((member[0] for member in joined.members), str(self.hall.asked).encode())
        consumer.sync = self.hall.send_sync(joined, plan, instance_id=self.instance(slot))
        self.listen()

    @rule(slots=st.sets(SLOTS, min_size=1, max_size=4), rounds=st.integers(1, 4))
    def behave(self, slots: set[int], rounds: int) -> None:
        """Some clients follow the protocol for a while; arbitrary requests alone would rarely form a group."""
        for _ in range(rounds):
            for slot in sorted(slots):
                consumer = self.consumers[slot]
                if consumer.join is not None or consumer.sync is not None:
                    continue
                instance_id = self.instance(slot)
                groups, now_ms = self.hall.groups, self.hall.now_ms
                if groups.heartbeat("g", consumer.member_id, consumer.generation, now_ms, instance_id) is not None:
                    self.join(slot, (("x", b"1"), ("y", b"1")), True)
                elif consumer.joined is not None:
                    self.sync(slot)
            self.wait(600)

    @rule(slot=SLOTS)
    def heartbeat(self, slot: int) -> None:
        consumer = self.consumers[slot]
        code = self.hall.groups.heartbeat(
            "g", consumer.member_id, consumer.generation, self.hall.now_ms, self.instance(slot)
        )
        if code in (Code.UNKNOWN_MEMBER, Code.FENCED_INSTANCE):
            consumer.member_id = ""

    @rule(slot=SLOTS)
    def leave(self, slot: int) -> None:
        consumer = self.consumers[slot]
        self.hall.leave((consumer.member_id, self.instance(slot)))
        consumer.member_id = ""
        self.listen()

    @rule(slot=SLOTS, partition=st.integers(0, 2), offset=st.integers(0, 99))
    def commit(self, slot: int, partition: int, offset: int) -> None:
        consumer = self.consumers[slot]
        self.hall.commit(
            offset,
            partition=partition,
            member_id=consumer.member_id,
            generation=consumer.generation,
            instance_id=self.instance(slot),
        )

    @rule(producer_id=st.integers(0, 2), partition=st.integers(0, 2), offset=st.integers(0, 99))
    def hold(self, producer_id: int, partition: int, offset: int) -> None:
        ticket = self.hall.ticket()
        request = CommitRequest(group_id="g", offsets=(("t", partition, offset, -1, None),))
        self.hall.take(self.hall.groups.hold_offsets(request, producer_id, 0, ticket, self.hall.now_ms))

    @rule(producer_id=st.integers(0, 2), committed=st.booleans())
    def end(self, producer_id: int, committed: bool) -> None:
        self.hall.end(producer_id, committed)

    @rule()
    def delete(self) -> None:
        self.hall.take(self.hall.groups.delete_groups(("g",), self.hall.ticket(), self.hall.now_ms))
        if len(self.hall.groups) == 0:
            self.forget_generations()

    @rule(by_ms=st.sampled_from([100, 1_000, 7_000, 11_000, 30_000, 250_000]))
    def wait(self, by_ms: int) -> None:
        self.hall.advance(by_ms)
        self.listen()
        if len(self.hall.groups) == 0:
            self.forget_generations()

    @precondition(lambda self: self.hall.journal)
    @rule()
    def crash(self) -> None:
        self.lost.update(set(range(1, self.hall.asked + 1)) - set(self.hall.replies))
        for consumer in self.consumers:
            consumer.join = consumer.sync = None
        self.hall.restart()
        described = self.hall.groups.describe_group("g")
        # Generations without an assignment are not written, and their numbers may be used again.
        self.highest = 0 if described is None else described.generation
        self.plans = {number: plan for number, plan in self.plans.items() if number <= self.highest}
        for consumer in self.consumers:
            if consumer.generation > self.highest:
                consumer.joined = None

    def forget_generations(self) -> None:
        """The group was removed; a new one of that name counts from the start."""
        self.plans, self.highest = {}, 0
        for consumer in self.consumers:
            consumer.joined = None
            consumer.generation = -1

    @invariant()
    def the_journal_replays_to_the_same_state(self) -> None:
        assert self.hall.replayed().snapshot() == self.hall.groups.snapshot()

    @invariant()
    def a_snapshot_restores_to_the_same_state(self) -> None:
        stored = msgspec.msgpack.decode(msgspec.msgpack.encode(self.hall.groups.snapshot()))
        restored = Groups(SETTINGS)
        restored.restore(stored, self.hall.now_ms)
        assert restored.snapshot() == self.hall.groups.snapshot()

    @invariant()
    def a_written_generation_has_each_member_once(self) -> None:
        for event in self.hall.events()[-1:]:
            if isinstance(event, GroupStable):
                ids = [member.member_id for member in event.members]
                assert len(set(ids)) == len(ids)
                assert event.leader in ids

    def teardown(self) -> None:
        self.hall.advance(10 * 60 * 1000)
        unanswered = set(range(1, self.hall.asked + 1)) - set(self.hall.replies) - self.lost
        assert not unanswered, "never answered"


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
