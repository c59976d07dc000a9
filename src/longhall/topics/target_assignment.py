"""The target of a group with server-side assignment: which member should have which partitions, and since when.

    epoch              of the group: grows with each change of members, subscriptions or topics
    assignment_epoch   the group epoch for which the targets were computed; behind while they have to be computed

Groups of consumers and of sharers have such a target. How members get there is another matter (`reconciliation`). Only
`apply` changes a target; `decide_targets` and the subscriptions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol, final

from longhall.topics.assignment import Assigned, assigned, places
from longhall.topics.assignors import Assignor, AssignorMember, SubscribedTopic
from longhall.topics.events import ConsumerGroupChanged, SubscribedMember
from longhall.topics.topic_pattern import TopicPattern

PATTERNS_MAX: Final = 1_000  # Compiled expressions of a shard.


class TopicCatalogue(Protocol):
    """The topics of the hall. The version grows with each change of their names, ids and numbers of partitions."""

    @property
    def version(self) -> int: ...

    def find(self, name: str) -> SubscribedTopic | None: ...

    def names(self) -> Iterable[str]: ...


@final
class NoTopics:
    """A catalogue without topics."""

    version = 0

    def find(self, name: str) -> SubscribedTopic | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


@final
class TargetAssignment:
    """The target of one group."""

    def __init__(self) -> None:
        self.epoch = 0
        self.assignment_epoch = 0
        self.topics: dict[str, SubscribedTopic] = {}  # The subscribed topics that exist.
        self.of_member: dict[str, Assigned] = {}

    def apply(self, event: ConsumerGroupChanged) -> None:
        if event.complete:
            self.of_member = {}
        self.epoch = event.epoch
        self.assignment_epoch = event.assignment_epoch
        if event.topics is not None:
            self.topics = {name: SubscribedTopic(topic_id, name, count) for topic_id, name, count in event.topics}
        for member_id in event.removed:
            self.of_member.pop(member_id, None)
        self.of_member.update(event.targets)

    def name_of(self, topic_id: bytes) -> str:
        """The name of a subscribed topic; empty if it is not subscribed any more."""
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), "")


@final
class _KnownPattern:
    """A compiled expression, and the names that it matches as of one version of the catalogue."""

    def __init__(self, expression: str) -> None:
        self.pattern = TopicPattern(expression)
        self.version = -1
        self.seen: frozenset[str] = frozenset()
        self.matched: frozenset[str] = frozenset()


@final
class Subscriptions:
    """Resolves subscriptions into topics that exist. Expressions are compiled once; their table is a cache."""

    def __init__(self) -> None:
        self._patterns: dict[str, _KnownPattern] = {}

    def compile(self, expression: str) -> None:
        """Raises ValueError with the reason if the expression is not valid."""
        if expression not in self._patterns:
            known = _KnownPattern(expression)
            if len(self._patterns) >= PATTERNS_MAX:
                del self._patterns[next(iter(self._patterns))]
            self._patterns[expression] = known

    def topics_of(self, member: SubscribedMember, catalogue: TopicCatalogue) -> dict[str, SubscribedTopic]:
        """The existing topics of a member, by name."""
        found = {}
        for name in {*member.topics, *self._matched(member.pattern, catalogue)}:
            topic = catalogue.find(name)
            if topic is not None:
                found[name] = topic
        return found

    def _matched(self, expression: str, catalogue: TopicCatalogue) -> frozenset[str]:
        if not expression:
            return frozenset()
        self.compile(expression)
        known = self._patterns[expression]
        if known.version != catalogue.version:
            names = frozenset(catalogue.names())
            added = {name for name in names - known.seen if known.pattern.matches(name)}
            known.matched = (known.matched & names) | added
            known.seen, known.version = names, catalogue.version
        return known.matched


def decide_targets(
    members: Mapping[str, SubscribedMember],
    subscribed: Mapping[str, Mapping[str, SubscribedTopic]],
    previous: Mapping[str, Assigned],
    assignor: Assignor,
) -> dict[str, Assigned]:
    """New targets of all members. `subscribed` has the topics of each."""
    counts = {topic.topic_id: topic.partitions for topics in subscribed.values() for topic in topics.values()}
    asked = {
        member_id: AssignorMember(
            member.instance_id,
            frozenset(topic.topic_id for topic in subscribed[member_id].values()),
            places(previous.get(member_id, ())),
        )
        for member_id, member in members.items()
    }
    return {member_id: assigned(target) for member_id, target in assignor(asked, counts).items()}
