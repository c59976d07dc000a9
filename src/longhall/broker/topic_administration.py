"""Topic administration: create, change and delete topics. Each call returns when the change is committed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from longhall.broker.archive_hold import archived_end
from longhall.broker.catalogue import Topic
from longhall.broker.configuration import ACKNOWLEDGE, PLACEMENT
from longhall.broker.events import CatalogueEvent, LogTrimmed, QueueRemoved, TopicCreated
from longhall.broker.feature_gates import check_acknowledge, check_topic, may_map
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.upkeep.recount import recount
from longhall.broker.queues.upkeep.resizer import mark_all, open_lanes
from longhall.broker.queues.upkeep.side_topics import check_unused
from longhall.broker.queues.write import together, write_queue
from longhall.broker.seal_rules import keep_keys
from longhall.broker.system_topics import refuse_system_topic
from longhall.broker.topic_placement import (
    check_given,
    choose_wings,
    clear,
    furnish,
    is_for_wings,
    keep_placement,
    place_by_default,
)
from longhall.broker.waiting import Commit, committed
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.shards.shard import PARTITIONS

HIGH_WATERMARK: Final = -1  # As an offset to delete up to: everything.

_log = logging.getLogger("longhall.topics")


async def create_topic(
    hall: Hall,
    name: str,
    partitions: int,
    configuration: Mapping[str, str],
    validate_only: bool = False,
    topic_id: bytes = b"",
    copies_min: int | None = 0,
) -> Topic | None:
    """Create a topic; None with `validate_only`. A wing passes the topic id of the main hall. `copies_min` is the least
    number of replicas, None if the replicas of the hall have to store it.
    """
    must_lead(hall)
    refuse_system_topic(name)
    check_topic(hall, configuration)
    check_given(hall, configuration)
    configuration = keep_keys(hall, None, configuration, owned=False)
    if PLACEMENT not in configuration:
        if copies_min is not None:
            partitions, configuration = place_by_default(hall, partitions, configuration, copies_min)
    elif is_for_wings(hall, configuration) and not validate_only:
        _decide_create(hall, name, topic_id, partitions, configuration)  # Validate before wings are created.
        partitions, configuration = await choose_wings(hall, name, partitions, configuration)
        must_lead(hall)  # Leadership may have changed while the wings were chosen.
    event = _decide_create(hall, name, topic_id, partitions, configuration)
    if validate_only:
        return None
    await commit_event(hall, event)
    _log.info("a topic was created", extra={"topic": name, "partitions": len(event.partitions)})
    await furnish(hall, name)
    return hall.topic(name)


def _decide_create(
    hall: Hall, name: str, topic_id: bytes, partitions: int, configuration: Mapping[str, str]
) -> TopicCreated:
    if partitions == -1:
        partitions = hall.options.default_partitions
    event = hall.catalogue.decide_create(
        name, topic_id or hall.world.entropy.bytes(16), partitions, configuration, hall.time.now_ms()
    )
    if isinstance(event, Code):
        raise LonghallError(event, _why_not(event, name))
    return event


async def delete_topic(hall: Hall, name: str) -> None:
    """Delete a topic and its messages."""
    must_lead(hall)
    refuse_system_topic(name)
    check_unused(hall, name)
    event = hall.catalogue.decide_delete(name)
    if isinstance(event, Code):
        raise LonghallError(event, _why_not(event, name))
    topic = hall.catalogue.by_id[event.topic_id]
    for entry in list(hall.catalogue.queues.by_name.values()):
        if entry.topic_id == event.topic_id:  # A queue cannot outlive its log.
            hall.append_catalogue(QueueRemoved(queue_id=entry.queue_id), Commit())
    await commit_event(hall, event)
    _log.info("a topic was deleted", extra={"topic": name})
    await clear(hall, topic)


async def add_partitions(hall: Hall, name: str, partitions: int, validate_only: bool = False) -> None:
    """Grow a topic to `partitions` in all."""
    must_lead(hall)
    refuse_system_topic(name)
    event = hall.catalogue.decide_grow(name, partitions)
    topic = hall.topic(name)
    if isinstance(event, Code):
        have = len(topic.partitions) if topic is not None else 0
        message = f"Topic already has {have} partitions." if topic is not None else _why_not(event, name)
        raise LonghallError(event, message)
    queues = hall.queues_on(event.topic_id)
    if (topic is not None and topic.open) or any(queue.grows for queue in queues):
        raise LonghallError(Code.INVALID_PARTITION_COUNT, "The queue adds partitions by itself when it fills.")
    if validate_only:
        return
    if not hall.has_room(EVENT_ROOM_BYTES // 2):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")
    marks = mark_all(queues) if may_map(hall) else []  # Groups may use other partitions from now on.
    if marks is None:
        raise LonghallError(Code.INVALID_PARTITION_COUNT, "Too many messages of earlier partition counts wait.")
    commit = Commit()
    with together(hall):
        hall.append_catalogue(event, commit)
        open_lanes(hall, queues, event)
        for queue, marked in marks:
            write_queue(hall, queue, [marked])
    await commit.future
    await furnish(hall, name)


async def configure_topic(hall: Hall, name: str, configuration: Mapping[str, str], validate_only: bool = False) -> None:
    """Replace the configuration of a topic. Its placement stays."""
    must_lead(hall)
    refuse_system_topic(name)
    check_acknowledge(hall, configuration.get(ACKNOWLEDGE, "all"))
    topic = hall.topic(name)
    if topic is not None:
        configuration = keep_placement(hall, topic, configuration)
        owner = hall.catalogue.queues.by_name.get(name)
        is_owned = owner is not None and owner.owns_topic and owner.topic_id == topic.topic_id
        configuration = keep_keys(hall, topic, configuration, is_owned)
    event = hall.catalogue.decide_configure(name, configuration)
    if isinstance(event, Code):
        raise LonghallError(event, _why_not(event, name))
    if not validate_only:
        await commit_event(hall, event)
        await furnish(hall, name)


async def trim_log(hall: Hall, partition: Partition, before_offset: int) -> int:
    """Delete records below an offset and return the new start of the log."""
    if partition.elsewhere:
        raise LonghallError(Code.NOT_LEADER)
    if before_offset == HIGH_WATERMARK:
        before_offset = partition.high_watermark
    if before_offset < 0 or before_offset > partition.high_watermark:
        raise LonghallError(Code.OFFSET_OUT_OF_RANGE, "the offset is outside the log")
    if before_offset > archived_end(hall, partition):
        raise LonghallError(Code.NOT_ARCHIVED, "messages up to this offset must be archived first")
    if before_offset > partition.log.start_offset:
        event = LogTrimmed(partition=partition.log.partition, start_offset=before_offset)
        began = partition.log.start_offset
        hall.append_event(partition.shard, PARTITIONS, event)
        hall.trim(partition, before_offset)
        recount(hall, partition, began)
        await committed(hall, partition.shard)
    return partition.log.start_offset


async def commit_event(hall: Hall, event: CatalogueEvent) -> None:
    """Append and apply a change of the catalogue, and wait until it is committed."""
    if not hall.has_room(EVENT_ROOM_BYTES // 2):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")
    commit = Commit()
    hall.append_catalogue(event, commit)
    await commit.future


def must_lead(hall: Hall) -> None:
    """Raises NOT_CONTROLLER unless this node leads the catalogue."""
    if hall.leadership is not None and not hall.leadership.leads(CATALOGUE_SHARD):
        raise LonghallError(Code.NOT_CONTROLLER, "another node leads the hall: send the request to it")


def _why_not(code: Code, name: str) -> str:
    match code:
        case Code.INVALID_NAME:
            return f"'{name}' is not a legal name: use up to 249 of letters, digits, '.', '_' and '-'"
        case Code.TOPIC_EXISTS:
            return f"Topic '{name}' already exists."
        case Code.UNKNOWN_TOPIC:
            return f"There is no topic '{name}'."
        case Code.INVALID_PARTITION_COUNT:
            return "The number of partitions is not allowed."
        case _:
            return str(code.value)
