"""The queues of the catalogue: names, settings and hidden lanes. Part of the state of the catalogue shard.

decide_*() reads and returns an event; apply() alone mutates. The catalogue knows the topic of a queue, not its
messages. A queue has two sets of settings: the declared ones, which are stored, and those in force, which follow from
them and from the policies (`queue_policies`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, final

import msgspec

from longhall.broker.events import (
    CopyCompleted,
    CopyLogMade,
    LaneDropped,
    LaneMade,
    QueueCatalogueEvent,
    QueueConfigured,
    QueueDeclared,
    QueueRemoved,
    QueueRenewed,
)
from longhall.broker.queue_policies import declared_settings, effective_settings
from longhall.errors import Code
from longhall.exchanges.policies import Policies
from longhall.names import is_legal_name
from longhall.queues.settings import QueueSettings

DELETED_MAX: Final = 10_000  # Deleted queues whose dead-letter queues are remembered; the oldest are dropped.
DELETED_FIELDS: Final = 2
NO_STARTS: Final[Mapping[int, int]] = {}


@final
class QueueEntry:
    """The catalogue entry of a queue."""

    def __init__(self, declared: QueueDeclared) -> None:
        self.name = declared.name
        self.queue_id = declared.queue_id
        self.number = declared.number
        self.topic_id = declared.topic_id
        self.owns_topic = declared.owns_topic
        self.declared = declared.settings
        self.settings = declared.settings  # In force.
        self.created_ms = declared.at_ms
        self.modified_ms = declared.at_ms
        self.starts = declared.starts
        self.lanes: dict[int, str] = {}  # Hidden logs: partition id to purpose.
        self.numbers: dict[int, int] = {}  # Of a queue that moved here: the lanes of its logs, by partition id,
        self.copies: dict[int, int] = {}  # and of one that moves here: partition ids of copies, by lane.

    @property
    def has_moved(self) -> bool:
        """True if something of a move has to be remembered."""
        return bool(self.numbers or self.copies)


@final
class QueueCatalogue:
    """All queues, by name and by id."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._watchers: list[Callable[[str], None]] = []
        self.by_name: dict[str, QueueEntry] = {}
        self.letters_of_deleted: dict[str, str] = {}  # By name of the deleted queue: its dead-letter queue.
        self.by_id: dict[bytes, QueueEntry] = {}
        self._over: dict[bytes, dict[str, QueueEntry]] = {}  # By topic id: queues that do not own it.
        self._sources: dict[str, dict[str, None]] = {}  # Source queues by their dead-letter queue.

    def sources(self, name: str) -> list[str]:
        """Queues whose dead letters go to this one, by name."""
        return sorted(self._sources.get(name, ()))

    def over_topic(self, topic_id: bytes) -> list[QueueEntry]:
        """The queues over a topic that do not own it: forks, and queues over a topic of Kafka. By name."""
        return [entry for _, entry in sorted(self._over.get(topic_id, {}).items())]

    def decide_declare(
        self,
        name: str,
        queue_id: bytes,
        number: int,
        topic_id: bytes,
        owns_topic: bool,
        settings: QueueSettings,
        now_ms: int,
        starts: Mapping[int, int] = NO_STARTS,
    ) -> QueueDeclared | Code:
        """Create a queue on a topic."""
        if not is_legal_name(name):
            return Code.INVALID_NAME
        if name in self.by_name:
            return Code.QUEUE_EXISTS
        return QueueDeclared(
            name=name,
            queue_id=queue_id,
            number=number,
            topic_id=topic_id,
            owns_topic=owns_topic,
            settings=settings,
            at_ms=now_ms,
            starts=dict(starts),
        )

    def decide_configure(self, name: str, settings: QueueSettings, now_ms: int) -> QueueConfigured | Code:
        """Replace the settings of a queue."""
        entry = self.by_name.get(name)
        if entry is None:
            return Code.UNKNOWN_QUEUE
        declared = declared_settings(settings, entry.declared, entry.settings)
        return QueueConfigured(queue_id=entry.queue_id, settings=declared, at_ms=now_ms)

    def decide_remove(self, name: str) -> QueueRemoved | Code:
        """Delete a queue."""
        entry = self.by_name.get(name)
        if entry is None:
            return Code.UNKNOWN_QUEUE
        own = entry.settings.dead_letters
        letters = own.queue if own is not None and own.after_delete and own.queue != name else ""
        return QueueRemoved(queue_id=entry.queue_id, letters=letters)

    def apply(self, event: QueueCatalogueEvent) -> None:
        """Apply an event: the only way in which the queues change."""
        match event:
            case QueueDeclared():
                entry = QueueEntry(event)
                entry.settings = effective_settings(entry.declared, self._policies)
                self.by_name[event.name] = entry
                self.letters_of_deleted.pop(event.name, None)
                self.by_id[event.queue_id] = entry
                if not entry.owns_topic:
                    self._over.setdefault(entry.topic_id, {})[entry.name] = entry
                self._note_source(entry)
                self._notify(event.name)
            case QueueConfigured():
                changed = self.by_id[event.queue_id]
                self._forget_source(changed)
                changed.declared = event.settings
                changed.settings = effective_settings(event.settings, self._policies)
                self._note_source(changed)
                changed.modified_ms = event.at_ms
                self._notify(changed.name)
            case QueueRemoved():
                gone = self.by_id.pop(event.queue_id)
                del self.by_name[gone.name]
                self._forget_over(gone)
                if event.letters:
                    self.letters_of_deleted[gone.name] = event.letters
                    if len(self.letters_of_deleted) > DELETED_MAX:
                        del self.letters_of_deleted[next(iter(self.letters_of_deleted))]
                self._forget_source(gone)
                self._notify(gone.name)
            case LaneMade():
                self.by_id[event.queue_id].lanes[event.partition] = event.key
            case LaneDropped():
                dropped = self.by_id[event.queue_id]
                dropped.lanes.pop(event.partition, None)
                dropped.numbers.pop(event.partition, None)
            case CopyLogMade():
                self.by_id[event.queue_id].copies[event.lane] = event.partition
            case CopyCompleted():
                whole = self.by_id[event.queue_id]
                whole.lanes, whole.numbers = dict(event.lanes), dict(event.numbers)
                whole.copies = {lane: number for lane, number in whole.copies.items() if number in event.lanes}
            case QueueRenewed():
                renewed = self.by_id[event.queue_id]
                renewed.lanes, renewed.numbers, renewed.copies = {}, {}, {}

    def follow_policies(self) -> None:
        """Policies have changed: settings in force follow them."""
        for entry in self.by_name.values():
            effective = effective_settings(entry.declared, self._policies)
            if effective != entry.settings:
                entry.settings = effective
                self._notify(entry.name)

    def watch(self, on_change: Callable[[str], None]) -> None:
        """Call this with the name of every queue that is created, changed or deleted from now on."""
        self._watchers.append(on_change)

    def _notify(self, name: str) -> None:
        for on_change in self._watchers:
            on_change(name)

    def _note_source(self, entry: QueueEntry) -> None:
        if entry.settings.dead_letters is not None:
            self._sources.setdefault(entry.settings.dead_letters.queue, {})[entry.name] = None

    def _forget_source(self, entry: QueueEntry) -> None:
        letters = entry.settings.dead_letters
        names = self._sources.get(letters.queue) if letters is not None else None
        if letters is not None and names is not None:
            names.pop(entry.name, None)
            if not names:
                del self._sources[letters.queue]

    def _forget_over(self, entry: QueueEntry) -> None:
        over = self._over.get(entry.topic_id)
        if over is not None and over.get(entry.name) is entry:
            del over[entry.name]
            if not over:
                del self._over[entry.topic_id]

    def snapshot(self) -> list[Any]:
        """For `restore`."""
        return [
            [
                entry.name,
                entry.queue_id,
                entry.number,
                entry.topic_id,
                entry.owns_topic,
                msgspec.to_builtins(entry.declared),
                entry.created_ms,
                entry.modified_ms,
                entry.lanes,
                *([entry.starts] if entry.starts or entry.has_moved else []),
                *([[entry.numbers, entry.copies]] if entry.has_moved else []),
            ]
            for entry in self.by_name.values()
        ] + [[name, letters] for name, letters in self.letters_of_deleted.items()]

    def restore(self, state: list[Any]) -> None:
        """Take the state of a `snapshot`."""
        for row in state:
            if len(row) == DELETED_FIELDS:
                self.letters_of_deleted[row[0]] = row[1]
                continue
            name, queue_id, number, topic_id, owns_topic, settings, created_ms, modified_ms, lanes, *starts = row
            declared = QueueDeclared(
                name=name,
                queue_id=queue_id,
                number=number,
                topic_id=topic_id,
                owns_topic=owns_topic,
                settings=msgspec.convert(settings, QueueSettings),
                at_ms=created_ms,
                starts={int(partition): offset for partition, offset in starts[0].items()} if starts else {},
            )
            self.apply(declared)
            entry = self.by_id[queue_id]
            entry.modified_ms = modified_ms
            entry.lanes = {int(partition): key for partition, key in lanes.items()}
            if len(starts) > 1:
                entry.numbers = {int(partition): int(lane) for partition, lane in starts[1][0].items()}
                entry.copies = {int(lane): int(partition) for lane, partition in starts[1][1].items()}
