"""The catalogue: topics, queues with their settings, exchanges and the directory; the state of the catalogue shard.

decide_*() reads and returns an event; apply() alone mutates. It knows names and numbers, not logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

from longhall.broker.broker_configuration import options_with, values_of
from longhall.broker.configuration import TopicOptions, check, resolve
from longhall.broker.events import (
    BrokersConfigured,
    CatalogueEvent,
    CopyLogMade,
    LaneMade,
    PartitionRenewed,
    PartitionsAdded,
    PartitionsMapped,
    PartsDropped,
    PartsMade,
    ProducerIdsTaken,
    QueueCatalogueEvent,
    QueueDeclared,
    QueueRemoved,
    QueueRenewed,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from longhall.broker.options import HallOptions
from longhall.broker.queue_catalogue import QueueCatalogue
from longhall.directory.directory import Directory
from longhall.directory.events import DirectoryChanged
from longhall.errors import Code
from longhall.exchanges.events import ExchangeEvent, PolicyRemoved, PolicySet
from longhall.exchanges.names import names_of
from longhall.exchanges.topology import Topology
from longhall.names import is_legal_name

PARTITIONS_MAX: Final = 100_000  # Of all topics together.
PRODUCER_ID_BLOCK: Final = 1000


@final
class Topic:
    """The catalogue entry of a topic."""

    def __init__(self, created: TopicCreated, options: TopicOptions) -> None:
        self.name = created.name
        self.topic_id = created.topic_id
        self.partitions = list(created.partitions)
        self.configuration = dict(created.configuration)
        self.created_ms = created.at_ms
        self.shard = created.shard
        self.options = options
        self.open = 0  # The number of partitions that accept messages of the doors; 0: all.
        self.shown = 0  # The number of partitions in the metadata of clients; 0: all.
        self.generation = 0  # The number of changes of `open` and `shown`.
        self.chosen = False  # True if clients choose the partition themselves.

    @property
    def open_count(self) -> int:
        """The number of partitions that accept messages."""
        return self.open or len(self.partitions)

    @property
    def shown_count(self) -> int:
        """The number of partitions that clients see."""
        return self.shown or len(self.partitions)


@final
class Catalogue:
    """All topics, by name and by id."""

    def __init__(self, options: HallOptions) -> None:
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.exchanges = Topology()
        self.queues = QueueCatalogue(self.exchanges.policies)
        self.directory = Directory()
        self.parts: dict[int, int] = {}  # Chunk logs of large messages: partition to shard.
        self.next_partition = options.first_partition
        self.producer_ids_below = 0
        self.brokers: dict[str, dict[str, str]] = {}  # Configurations that brokers got at run time; "" is for all.
        self.broker = 1  # The number of this broker.
        self.options = options  # With the configurations of this broker.
        self._options_at_start = options
        self._own_producer_ids = range(0)
        self._partition_count = 0  # Counted incrementally.

    # Deciding

    def decide_create(
        self,
        name: str,
        topic_id: bytes,
        partitions: int,
        configuration: Mapping[str, str],
        now_ms: int,
        shard: int = 0,
    ) -> TopicCreated | Code:
        """Create a topic. Raises LonghallError for a wrong configuration, with the reason."""
        if not is_legal_name(name):
            return Code.INVALID_NAME
        if name in self.topics:
            return Code.TOPIC_EXISTS
        if partitions < 1 or self.partition_count() + partitions > PARTITIONS_MAX:
            return Code.INVALID_PARTITION_COUNT
        check(configuration)
        first = self.next_partition
        return TopicCreated(
            name=name,
            topic_id=topic_id,
            partitions=list(range(first, first + partitions)),
            configuration=dict(configuration),
            at_ms=now_ms,
            shard=shard,
        )

    def decide_delete(self, name: str) -> TopicDeleted | Code:
        """Delete a topic."""
        topic = self.topics.get(name)
        return TopicDeleted(topic_id=topic.topic_id) if topic is not None else Code.UNKNOWN_TOPIC

    def decide_grow(self, name: str, partitions: int) -> PartitionsAdded | Code:
        """Add partitions, up to `partitions` in all."""
        topic = self.topics.get(name)
        if topic is None:
            return Code.UNKNOWN_TOPIC
        more = partitions - len(topic.partitions)
        if more <= 0 or self.partition_count() + more > PARTITIONS_MAX:
            return Code.INVALID_PARTITION_COUNT
        first = self.next_partition
        return PartitionsAdded(topic_id=topic.topic_id, partitions=list(range(first, first + more)))

    def decide_map(self, topic: Topic, open: int, shown: int, chosen: bool) -> list[PartitionsAdded | PartitionsMapped]:
        """Set the numbers of open and shown partitions; missing partitions are added. Empty if the bound is reached."""
        events: list[PartitionsAdded | PartitionsMapped] = []
        more = max(open, shown) - len(topic.partitions)
        if more > 0:
            if self.partition_count() + more > PARTITIONS_MAX:
                return events
            first = self.next_partition
            events.append(PartitionsAdded(topic_id=topic.topic_id, partitions=list(range(first, first + more))))
        generation = topic.generation + (open != topic.open_count or shown != topic.shown_count)
        mapped = PartitionsMapped(topic_id=topic.topic_id, open=open, shown=shown, generation=generation, chosen=chosen)
        return [*events, mapped]

    def decide_configure(self, name: str, configuration: Mapping[str, str]) -> TopicConfigured | Code:
        """Replace the configuration of a topic."""
        topic = self.topics.get(name)
        if topic is None:
            return Code.UNKNOWN_TOPIC
        check(configuration)
        return TopicConfigured(topic_id=topic.topic_id, configuration=dict(configuration))

    def decide_producer_ids(self) -> ProducerIdsTaken:
        """The event for a new block of ids, for this process or another one."""
        return ProducerIdsTaken(below=self.producer_ids_below + PRODUCER_ID_BLOCK)

    def own_producer_ids(self, first: int) -> None:
        """Give out the newest block here, from its first id on."""
        self._own_producer_ids = range(first, self.producer_ids_below)

    @property
    def has_producer_id(self) -> bool:
        """True if the block of this process is not used up."""
        return bool(self._own_producer_ids)

    def take_producer_id(self) -> int:
        """A new producer id of the block of this process. The rest of a block is not used after a restart."""
        producer_id = self._own_producer_ids[0]
        self._own_producer_ids = self._own_producer_ids[1:]
        return producer_id

    def partition_count(self) -> int:
        """The number of partitions of all topics."""
        return self._partition_count

    # Applying

    def apply(self, event: CatalogueEvent, replayed: bool = False) -> None:
        """Apply an event: the only way in which the catalogue changes."""
        if isinstance(event, QueueCatalogueEvent):
            self._apply_to_queues(event)
            return
        if isinstance(event, ExchangeEvent):
            self.exchanges.apply(event)
            if isinstance(event, PolicySet | PolicyRemoved):
                self.queues.follow_policies()
            return
        match event:
            case TopicCreated():
                topic = Topic(event, resolve(self.options, event.configuration))
                self.topics[event.name] = topic
                self.by_id[event.topic_id] = topic
                self._partition_count += len(event.partitions)
                self.next_partition = max(self.next_partition, event.partitions[-1] + 1)
            case TopicDeleted():
                gone = self.by_id.pop(event.topic_id)
                del self.topics[gone.name]
                self._partition_count -= len(gone.partitions)
            case PartitionsAdded():
                self.by_id[event.topic_id].partitions.extend(event.partitions)
                self._partition_count += len(event.partitions)
                self.next_partition = max(self.next_partition, event.partitions[-1] + 1)
            case PartitionRenewed():
                self.by_id[event.topic_id].partitions[event.number] = event.partition
                self.next_partition = max(self.next_partition, event.partition + 1)
            case PartitionsMapped():
                mapped = self.by_id[event.topic_id]
                mapped.open, mapped.shown = event.open, event.shown
                mapped.generation, mapped.chosen = event.generation, event.chosen
            case TopicConfigured():
                changed = self.by_id[event.topic_id]
                changed.configuration = dict(event.configuration)
                changed.options = resolve(self.options, event.configuration)
            case BrokersConfigured():
                self._configure_brokers(event.configurations)
            case ProducerIdsTaken():
                self.producer_ids_below = event.below
                if replayed:
                    self._own_producer_ids = range(0)
            case PartsMade():
                self.parts[event.partition] = event.shard
                self.next_partition = max(self.next_partition, event.partition + 1)
            case PartsDropped():
                self.parts.pop(event.partition, None)
            case DirectoryChanged():
                self.directory.apply(event)

    def _apply_to_queues(self, event: QueueCatalogueEvent) -> None:
        """Apply an event of a queue, and what follows from it for its topic and for exchanges."""
        gone = self.queues.by_id[event.queue_id].name if isinstance(event, QueueRemoved) else ""
        self.queues.apply(event)
        match event:
            case QueueDeclared():
                self.next_partition = max(self.next_partition, event.number + 1)
            case QueueRemoved():
                self.exchanges.queue_removed(names_of(gone)[0], gone)
            case LaneMade() | CopyLogMade():
                self.next_partition = max(self.next_partition, event.partition + 1)
            case QueueRenewed():
                self.by_id[self.queues.by_id[event.queue_id].topic_id].partitions = list(event.partitions)
                self.next_partition = max(self.next_partition, event.partitions[-1] + 1)
            case _:
                pass

    def _configure_brokers(self, configurations: Mapping[str, Mapping[str, str]]) -> None:
        self.brokers = {broker: dict(values) for broker, values in configurations.items()}
        self.options = options_with(self._options_at_start, values_of(self.brokers, self.broker))
        for topic in self.topics.values():
            topic.options = resolve(self.options, topic.configuration)

    # Snapshots

    def row_of(self, topic: Topic) -> list[Any]:
        """The durable state of a topic."""
        return [
            [topic.name, topic.topic_id, topic.partitions, topic.configuration, topic.created_ms, topic.shard],
            [topic.open, topic.shown, topic.generation, topic.chosen],
        ]

    def snapshot(self) -> dict[str, Any]:
        """For `restore`."""
        return {
            "topics": [
                [topic.name, topic.topic_id, topic.partitions, topic.configuration, topic.created_ms, topic.shard]
                for topic in self.topics.values()
            ],
            "maps": [
                [topic.topic_id, topic.open, topic.shown, topic.generation, topic.chosen]
                for topic in self.topics.values()
                if topic.open
            ],
            "queues": self.queues.snapshot(),
            # Only if there are any: replicas compare their snapshots, and older nodes read them.
            **({"exchanges": self.exchanges.snapshot()} if self.exchanges.rows() else {}),
            **({"brokers": self.brokers} if self.brokers else {}),
            **({"directory": self.directory.snapshot()} if self.directory.version else {}),
            "parts": self.parts,
            "next_partition": self.next_partition,
            "producer_ids_below": self.producer_ids_below,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take the state of a `snapshot`."""
        self._configure_brokers(state.get("brokers", {}))
        for name, topic_id, partitions, configuration, created_ms, shard in state["topics"]:
            created = TopicCreated(
                name=name,
                topic_id=topic_id,
                partitions=partitions,
                configuration=configuration,
                at_ms=created_ms,
                shard=shard,
            )
            self.apply(created, replayed=True)
        for topic_id, open, shown, generation, chosen in state.get("maps", []):
            self.apply(
                PartitionsMapped(topic_id=topic_id, open=open, shown=shown, generation=generation, chosen=chosen)
            )
        if "directory" in state:
            self.directory.restore(state["directory"])
        self.exchanges.restore(state.get("exchanges", []))  # Before the queues, whose settings follow the policies.
        self.queues.restore(state["queues"])
        self.parts = {int(number): int(shard) for number, shard in state.get("parts", {}).items()}
        self.next_partition = max(self.next_partition, state["next_partition"])
        self.apply(ProducerIdsTaken(below=state["producer_ids_below"]), replayed=True)
