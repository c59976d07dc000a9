"""Queue administration: create, configure and delete queues."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from longhall.broker.configuration import ACKNOWLEDGE, IN_THE_HALL, PLACEMENT, SEALED, UNPLACED, WINGS
from longhall.broker.events import QueueRemoved, TopicConfigured, TopicCreated, TopicDeleted
from longhall.broker.feature_gates import (
    check_acknowledge,
    check_exchanges,
    check_placement,
    check_queue,
    may_note_deleted,
    newer_settings,
)
from longhall.broker.hall import Hall
from longhall.broker.queues.dead_letters.queue_drain import drain_to_dead_letters
from longhall.broker.queues.delivery.time_zones import check_hours
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.upkeep.side_topics import check_side_topics, make_side_topics
from longhall.broker.queues.write import together, write_queue
from longhall.broker.seal_rules import check_queue_sealed, seal_configuration
from longhall.broker.system_topics import refuse_system_topic
from longhall.broker.topic_administration import commit_event
from longhall.broker.waiting import Commit, committed
from longhall.errors import Code, LonghallError
from longhall.queues.events import LaneOpened, Marked, Recounted
from longhall.queues.parts import check_parts
from longhall.queues.selector import compile_filter
from longhall.queues.settings import QueueSettings
from longhall.queues.stamps import HEAD
from longhall.records.profiles import BALANCED, PROFILE

NOWHERE: Final[Mapping[int, int]] = {}
# Retention takes whole segments: none may span much of it, or a message would outlive it by as much.
SEGMENT_MS_MIN: Final = 60_000
SEGMENT_MS_MAX: Final = 70 * 24 * 3_600_000

_log = logging.getLogger("longhall.queues")


NO_CONFIGURATION: Final[Mapping[str, str]] = {}


class PlacedOrigin(NamedTuple):
    """The id of a queue over a placed topic, and the offsets at which its groups begin."""

    queue_id: bytes = b""
    starts: Mapping[int, int] = NOWHERE


HERE: Final = PlacedOrigin()  # Of a queue that no other group stores.


async def create(
    hall: Hall,
    name: str,
    settings: QueueSettings,
    topic_id: bytes = b"",
    configuration: Mapping[str, str] = NO_CONFIGURATION,
) -> RunningQueue:
    """Create a queue with a topic of its own. A wing passes the topic id of the main hall, and of a queue that moves
    here the configuration of the topic, which says so.
    """
    refuse_system_topic(name)
    if settings.priorities > 1 and settings.fifo:
        raise LonghallError(
            Code.INVALID_CONFIGURATION, "A FIFO queue has one priority: the order inside a group comes first."
        )
    if settings.late_stamped == HEAD and (settings.fifo or settings.priorities > 1):
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            "A queue with late_stamped has no FIFO groups and one priority: its head is one.",
        )
    if settings.filter:
        raise LonghallError(Code.INVALID_CONFIGURATION, "A filter is only for a queue over an existing topic.")
    check_parts(settings)
    now_ms = hall.time.now_ms()
    topic = hall.catalogue.decide_create(
        name,
        topic_id or hall.world.entropy.bytes(16),
        settings.partitions,
        {**_configuration(hall, settings), **configuration},
        now_ms,
        _shard_for(hall, name, settings),
    )
    if topic is Code.TOPIC_EXISTS and hall.running_queue(name) is None:
        raise LonghallError(
            topic, f"There is a topic '{name}' that is no queue; a queue over it names it as its topic."
        )
    if topic is Code.INVALID_NAME:
        raise LonghallError(topic, f"'{name}' is not a legal name: use up to 249 letters, digits, '.', '_' and '-'.")
    if isinstance(topic, Code):
        code = Code.QUEUE_EXISTS if topic is Code.TOPIC_EXISTS else topic
        reason = "it exists already" if code is Code.QUEUE_EXISTS else code.value
        raise LonghallError(code, f"Queue '{name}' cannot be created: {reason}.")
    return await _declare(hall, name, settings, topic, None)


async def declare(hall: Hall, name: str, topic_name: str, settings: QueueSettings) -> RunningQueue:
    """Create a queue over an existing topic, from its beginning on. What a client sends to it goes to the topic."""
    refuse_system_topic(name)
    refuse_system_topic(topic_name)
    topic = hall.topic(topic_name)
    if topic is None:
        raise LonghallError(Code.UNKNOWN_TOPIC, f"There is no topic '{topic_name}'.")
    return await _declare(hall, name, settings, None, topic.topic_id)


async def declare_from(
    hall: Hall, name: str, topic_id: bytes, settings: QueueSettings, starts: Mapping[int, int]
) -> RunningQueue:
    """Create a queue over an existing topic by its id, from these offsets on, by log."""
    return await _declare(hall, name, settings, None, topic_id, starts)


async def declare_placed(
    hall: Hall, name: str, topic_id: bytes, settings: QueueSettings, starts: Mapping[int, int], queue_id: bytes = b""
) -> RunningQueue:
    """Create a queue over a topic that other groups store, from these offsets on, by partition; from the beginning of
    the log on for others. The main hall notes the offsets for the groups; a group passes the queue id of the main hall.
    """
    topic = hall.catalogue.by_id.get(topic_id)
    if topic is None:
        raise LonghallError(Code.UNKNOWN_TOPIC_ID, "There is no topic of this id.")
    here = {
        partition.lane: max(starts[partition.number], partition.log.start_offset)
        for partition in hall.routes[topic.name]
        if partition.number in starts and not partition.elsewhere
    }
    noted = NOWHERE if hall.options.wing else starts
    return await _declare(hall, name, settings, None, topic_id, here, PlacedOrigin(queue_id, noted))


async def _declare(
    hall: Hall,
    name: str,
    settings: QueueSettings,
    topic: TopicCreated | None,
    topic_id: bytes | None,
    starts: Mapping[int, int] = NOWHERE,
    origin: PlacedOrigin = HERE,
) -> RunningQueue:
    if topic is None and settings.priorities > 1:
        raise LonghallError(Code.INVALID_CONFIGURATION, "A queue over a topic delivers in the topic's order.")
    if topic is None and settings.late_stamped == HEAD:
        raise LonghallError(Code.INVALID_CONFIGURATION, "A queue over a topic delivers in the topic's order.")
    if topic is None and settings.parts_max > 1:
        raise LonghallError(Code.INVALID_CONFIGURATION, "A queue over a topic has the topic's partitions.")
    if settings.filter:
        compile_filter(settings.filter)
    if not hall.has_room(1024 * 1024):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")
    check_side_topics(hall, name, settings)
    check_hours(settings.hours)
    check_profile(settings, topic is not None)
    if topic is None and settings.acknowledge != "all":
        raise LonghallError(Code.INVALID_CONFIGURATION, "A queue over a topic is acknowledged as the topic says.")
    check_acknowledge(hall, settings.acknowledge)
    check_placement(hall, settings.placement)
    check_queue(hall, settings)
    check_queue_sealed(hall, settings, hall.catalogue.by_id.get(topic_id) if topic_id is not None else None)
    if settings.placement == UNPLACED:
        settings = msgspec.structs.replace(settings, placement=IN_THE_HALL)
    if settings.amqp is not None:
        check_exchanges(hall)
    identity = topic.topic_id if topic is not None else topic_id
    assert identity is not None
    number = topic.partitions[-1] + 1 if topic is not None else hall.catalogue.next_partition
    declared = hall.catalogue.queues.decide_declare(
        name,
        origin.queue_id or hall.world.entropy.bytes(16),
        number,
        identity,
        topic is not None,
        settings,
        hall.time.now_ms(),
        origin.starts,
    )
    if isinstance(declared, Code):
        raise LonghallError(declared, f"Queue '{name}' cannot be made: {declared.value}.")
    commit = Commit()
    with together(hall):
        if topic is not None:
            hall.append_catalogue(topic, Commit())
        hall.append_catalogue(declared, commit)
        queue = hall.queues[declared.number]
        siblings = [one for one in hall.queues_on(identity) if one is not queue]
        waiting = 0
        for lane, at in queue.lanes.items():
            start = starts.get(lane, at.log.start_offset)
            waiting += at.log.next_offset - start
            write_queue(hall, queue, [LaneOpened(queue=number, lane=lane, start=start)])
        if settings.fifo and siblings:  # The groups of the log have used other partitions before.
            known = max((one.queue.state.marks.moments() for one in siblings), key=len)
            write_queue(hall, queue, [Marked(queue=number, ends=ends, base=base) for ends, base in known])
        if waiting:  # Messages that are in the log already count as sent.
            write_queue(hall, queue, [Recounted(queue=number, messages=waiting, bytes=0)])
        make_side_topics(hall, queue)
    await commit.future
    await committed(hall, queue.shard)
    _log.info("a queue was created", extra={"queue": name, "fifo": settings.fifo, "over_topic": topic is None})
    return queue


async def configure(hall: Hall, queue: RunningQueue, settings: QueueSettings) -> None:
    """Replace the settings of a queue. Its placement stays unless the settings name another."""
    if settings.placement == UNPLACED:
        settings = msgspec.structs.replace(settings, placement=queue.settings.placement)
    decided = hall.catalogue.queues.decide_configure(queue.entry.name, settings, hall.time.now_ms())
    if isinstance(decided, Code):
        raise LonghallError(decided, f"There is no queue '{queue.entry.name}'.")
    if settings.fifo != queue.settings.fifo:
        raise LonghallError(Code.INVALID_CONFIGURATION, "Whether a queue is FIFO cannot change.")
    if settings.priorities != queue.settings.priorities:
        raise LonghallError(Code.INVALID_CONFIGURATION, "The number of priorities of a queue cannot change.")
    if settings.late_stamped != queue.settings.late_stamped:
        raise LonghallError(
            Code.INVALID_CONFIGURATION, "The place of late messages is decided when a queue is created."
        )
    if settings.parts_max > 1 and not queue.entry.owns_topic:
        raise LonghallError(Code.INVALID_CONFIGURATION, "A queue over a topic has the topic's partitions.")
    check_parts(settings)
    check_hours(settings.hours)
    if settings.filter:
        if queue.entry.owns_topic:
            raise LonghallError(Code.INVALID_CONFIGURATION, "A filter is for a queue over a topic.")
        compile_filter(settings.filter)
    check_profile(settings, queue.entry.owns_topic)
    if settings.acknowledge != "all" and not queue.entry.owns_topic:
        raise LonghallError(Code.INVALID_CONFIGURATION, "A queue over a topic is acknowledged as the topic says.")
    check_acknowledge(hall, settings.acknowledge)
    if newer_settings(settings) != newer_settings(queue.settings):  # What the queue has already may stay.
        check_queue(hall, settings)
    topic = hall.catalogue.by_id[queue.entry.topic_id]
    check_queue_sealed(hall, settings, None if queue.entry.owns_topic else topic)
    configuration = topic.configuration | _configuration(hall, settings)
    if settings.acknowledge == "all":
        configuration.pop(ACKNOWLEDGE, None)
    if not settings.sealed:  # The data keys stay: what was sealed can be read.
        configuration.pop(SEALED, None)
    if settings.profile == BALANCED and queue.settings.profile != BALANCED:
        configuration.pop(PROFILE, None)
    if queue.entry.owns_topic and configuration != topic.configuration:
        hall.append_catalogue(TopicConfigured(topic_id=topic.topic_id, configuration=configuration), Commit())
    check_side_topics(hall, queue.entry.name, settings)
    await commit_event(hall, decided)
    with together(hall):
        make_side_topics(hall, queue)
    queue.waiters.wake(len(queue.waiters))  # Other delivery hours, or several messages at once where it was one.


def check_profile(settings: QueueSettings, owns_topic: bool) -> None:
    """Raises INVALID_CONFIGURATION for a profile of a queue whose topic has its own."""
    if settings.profile != BALANCED and not owns_topic:
        raise LonghallError(Code.INVALID_CONFIGURATION, "A queue over a topic has the profile of the topic.")


async def delete(hall: Hall, queue: RunningQueue) -> None:
    """Delete a queue and the topic that it owns. Refused while other queues are on that topic.

    Its messages move to its dead-letter queue first, if that is configured.
    """
    _decide_delete(hall, queue)
    await drain_to_dead_letters(hall, queue)
    removed = _decide_delete(hall, queue)
    commit = Commit()
    with together(hall):
        hall.append_catalogue(removed, commit)
        if queue.entry.owns_topic:
            hall.append_catalogue(TopicDeleted(topic_id=queue.entry.topic_id), Commit())
    await commit.future
    _log.info("a queue was deleted", extra={"queue": queue.entry.name})


def _decide_delete(hall: Hall, queue: RunningQueue) -> QueueRemoved:
    removed = hall.catalogue.queues.decide_remove(queue.entry.name)
    if isinstance(removed, Code) or hall.queues.get(queue.number) is not queue:
        raise LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{queue.entry.name}'.")
    entry = queue.entry
    others = [one.name for one in hall.catalogue.queues.by_name.values() if one.topic_id == entry.topic_id]
    if entry.owns_topic and len(others) > 1:
        forks = ", ".join(sorted(name for name in others if name != entry.name))
        raise LonghallError(Code.TOPIC_IN_USE, f"Other queues read the log of '{entry.name}': {forks}.")
    return removed if may_note_deleted(hall) else msgspec.structs.replace(removed, letters="")


def _configuration(hall: Hall, settings: QueueSettings) -> dict[str, str]:
    stream = settings.amqp if settings.amqp is not None and settings.amqp.is_stream else None
    segment_bytes = stream.stream_segment_bytes if stream is not None else 0
    return {
        "retention.ms": str(settings.retention_ms or -1),
        "segment.bytes": str(segment_bytes or hall.options.queue_segment_bytes),
        **({"retention.bytes": str(stream.stream_bytes_max or -1)} if stream is not None else {}),
        "segment.ms": str(max(SEGMENT_MS_MIN, min(settings.retention_ms or SEGMENT_MS_MAX, SEGMENT_MS_MAX) // 10)),
        "max.message.bytes": str(max(settings.message_bytes_max * 2, 1024 * 1024) + 4096),
        **({ACKNOWLEDGE: settings.acknowledge} if settings.acknowledge != "all" else {}),
        **seal_configuration(settings),
        **({PROFILE: settings.profile} if settings.profile != BALANCED else {}),
        **({PLACEMENT: settings.placement, WINGS: ",".join(map(str, settings.wings))} if settings.wings else {}),
    }


def _shard_for(hall: Hall, name: str, settings: QueueSettings) -> int:
    """The shard of a queue: that of its dead-letter queue, so that a move is one atomic write; else by name."""
    if settings.dead_letters is not None:
        letters = hall.running_queue(settings.dead_letters.queue)
        if letters is not None:
            return letters.shard.number
    return 1 + zlib.crc32(name.encode()) % (len(hall.shards) - 1)
