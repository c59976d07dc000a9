"""Groups with server-side assignment under arbitrary members, topics, times, lost answers and restarts.

The invariants: no partition is read by two members at once, as far as the members themselves know; the server never
assigns what another member has not given up; epochs only grow; the journal replays to the same durable state; and
once the members behave, every partition is assigned, each to one member.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from longhall.errors import Code
from longhall.topics.effects import ConsumerHeartbeatResult
from longhall.topics.events import ConsumerGroupChanged
from longhall.topics.groups import Groups
from longhall.topics.settings import GroupSettings
from tests.examples import examples
from tests.topics.hall import Hall, Topics

SETTINGS = GroupSettings(consumer_members_max=5, empty_group_linger_ms=10**9)
SLOTS = st.integers(0, 4)
SUBSCRIPTIONS = st.sampled_from([("a",), ("b",), ("a", "b"), ("a", "b", "c"), ("c",)])
PATTERNS = st.sampled_from(["", "a|b", "[bc]", ".*"])


class Consumer:
    """A client: what it knows, and what it reads."""

    def __init__(self, slot: int) -> None:
        self.names = 0
        self.slot = slot
        self.member_id = f"m{slot}-0"
        self.instance_id = f"i{slot}" if slot >= 3 else None
        self.epoch = 0
        self.topics: tuple[str, ...] = ("a", "b")
        self.pattern = ""
        self.wanted: set[tuple[str, int]] = set()
        self.owned: set[tuple[str, int]] = set()
        self.heard_ms = -(10**9)

    def fresh(self) -> None:
        """Another process of this client starts."""
        self.names += 1
        self.member_id = f"m{self.slot}-{self.names}"
        self.abandon()

    def abandon(self) -> None:
        """Stop reading, and join again."""
        self.epoch, self.owned, self.wanted = 0, set(), set()


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.topics = Topics(a=3, b=4, c=2)
        self.hall = Hall(SETTINGS, self.topics)
        self.consumers = [Consumer(slot) for slot in range(5)]
        self.epochs = (0, 0)

    def beat(self, consumer: Consumer, lost: bool = False, **fields: Any) -> ConsumerHeartbeatResult:
        hall = self.hall
        fields.setdefault("assignor", None)
        if consumer.epoch == 0:
            result = hall.enter(
                consumer.member_id,
                topics=consumer.topics,
                pattern=consumer.pattern,
                instance_id=consumer.instance_id,
                **fields,
            )
        else:
            result = hall.beat(
                consumer.member_id,
                consumer.epoch,
                topics=consumer.topics,
                pattern=consumer.pattern,
                rebalance_timeout_ms=20_000,
                instance_id=consumer.instance_id,
                owned=sorted(consumer.owned),
                **fields,
            )
        if not lost:
            self.listen(consumer, result)
        return result

    def listen(self, consumer: Consumer, result: ConsumerHeartbeatResult) -> None:
        if result.code is None:
            consumer.heard_ms = self.hall.now_ms
            assert result.epoch >= consumer.epoch, "a member's epoch went back"
            consumer.epoch = result.epoch
            if result.assigned is not None:
                consumer.wanted = self.hall.named(result.assigned)
                consumer.owned |= consumer.wanted  # What it has to give up, it gives up in its own time.
        elif result.code in (Code.UNKNOWN_MEMBER, Code.FENCED_MEMBER_EPOCH, Code.GROUP_UNKNOWN):
            consumer.abandon()
        elif result.code is Code.FENCED_INSTANCE:
            consumer.fresh()

    @rule(slot=SLOTS, lost=st.booleans())
    def heartbeat(self, slot: int, lost: bool) -> None:
        self.beat(self.consumers[slot], lost)

    @rule(slot=SLOTS)
    def give_up(self, slot: int) -> None:
        """A client has finished what it was asked to give up."""
        consumer = self.consumers[slot]
        consumer.owned &= consumer.wanted

    @rule(rounds=st.integers(1, 3))
    def behave(self, rounds: int) -> None:
        for _ in range(rounds):
            for consumer in self.consumers[:3]:
                self.beat(consumer)

    @rule(slot=SLOTS, topics=SUBSCRIPTIONS, pattern=PATTERNS, assignor=st.sampled_from([None, "range", "uniform"]))
    def subscribe(self, slot: int, topics: tuple[str, ...], pattern: str, assignor: str | None) -> None:
        consumer = self.consumers[slot]
        consumer.topics, consumer.pattern = topics, pattern
        self.beat(consumer, assignor=assignor)

    @rule(slot=SLOTS, returns=st.booleans())
    def leave(self, slot: int, returns: bool) -> None:
        consumer = self.consumers[slot]
        epoch = -2 if returns and consumer.instance_id is not None else -1
        self.hall.beat(consumer.member_id, epoch, instance_id=consumer.instance_id)
        consumer.fresh()

    @rule(slot=SLOTS)
    def die(self, slot: int) -> None:
        """A process ends without a word; the next one has another member id."""
        self.consumers[slot].fresh()

    @rule(name=st.sampled_from(["a", "b", "c"]), partitions=st.integers(1, 6))
    def change_topic(self, name: str, partitions: int) -> None:
        known = self.topics.find(name)
        self.topics.set(name, max(partitions, known.partitions if known is not None else 0))

    @rule(name=st.sampled_from(["b", "c"]))
    def drop_topic(self, name: str) -> None:
        self.topics.drop(name)
        for consumer in self.consumers:
            consumer.owned = {place for place in consumer.owned if place[0] != name}

    @rule(by_ms=st.sampled_from([100, 5_000, 21_000, 46_000]))
    def wait(self, by_ms: int) -> None:
        until_ms = self.hall.now_ms + by_ms
        for consumer in self.consumers:  # A client that hears nothing for a session stops reading, as clients do.
            if consumer.epoch and until_ms - consumer.heard_ms >= 20_000:
                consumer.abandon()
        self.hall.advance(by_ms)

    @rule()
    def restart(self) -> None:
        self.hall.restart()

    @rule()
    def snapshot(self) -> None:
        """The state goes through a checkpoint."""
        groups = Groups(SETTINGS, self.topics)
        groups.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(self.hall.groups.snapshot())), self.hall.now_ms)
        assert groups.snapshot() == self.hall.groups.snapshot()
        self.hall.groups = groups

    @rule()
    def settle(self) -> None:
        """All clients behave for a while: then every partition of a subscribed topic has one reader."""
        self.hall.advance(50_000)  # Whoever does not live any more is gone.
        for consumer in self.consumers:
            consumer.abandon()
        for _ in range(12):
            for consumer in self.consumers:
                self.beat(consumer)
                consumer.owned &= consumer.wanted
                self.no_partition_has_two_readers()
        described = self.hall.groups.describe_consumer_group("g")
        assert described is not None
        assert described.state == "Stable"
        wanted = set()
        for consumer in self.consumers:
            matched = set(consumer.topics)
            if consumer.pattern:
                matched |= {"a|b": {"a", "b"}, "[bc]": {"b", "c"}, ".*": {"a", "b", "c"}}[consumer.pattern]
            wanted |= matched
        everything = {
            (name, number)
            for name in wanted
            if (topic := self.topics.find(name)) is not None
            for number in range(topic.partitions)
        }
        assert {place for consumer in self.consumers for place in consumer.owned} == everything

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        readers: dict[tuple[str, int], str] = {}
        for consumer in self.consumers:
            for place in consumer.owned:
                assert place not in readers, f"{place} is read by {readers[place]} and {consumer.member_id}"
                readers[place] = consumer.member_id

    @invariant()
    def epochs_grow(self) -> None:
        described = self.hall.groups.describe_consumer_group("g")
        if described is not None:
            now = (described.epoch, described.assignment_epoch)
            assert now >= self.epochs
            assert described.assignment_epoch <= described.epoch
            self.epochs = now

    @invariant()
    def the_journal_replays_to_the_same_state(self) -> None:
        assert self.hall.replayed().snapshot() == self.hall.groups.snapshot()


TestConsumerGroups = Machine.TestCase
TestConsumerGroups.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


def test_an_event_goes_through_msgpack() -> None:
    event = ConsumerGroupChanged(group_id="g", epoch=1, assignment_epoch=1, at_ms=1)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=ConsumerGroupChanged) == event
