"""Partition administration: begin, advance and end moves of partitions between replication groups, in the catalogue.

Each function decides the next move record of a topic and commits it in one entry of the catalogue; between the decision
and the entry nothing else runs. `topics/partition_moves.py` has the rules, `cluster/placement/partition_mover.py` calls
these functions as the copy proceeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import IN_THE_HALL, MOVES, PARTS, PLACEMENT, SHARE, WINGS
from longhall.broker.events import TopicConfigured
from longhall.broker.feature_gates import check_moves
from longhall.broker.hall import Hall
from longhall.broker.queues.upkeep.side_topics import RETRY
from longhall.broker.system_topics import refuse_system_topic
from longhall.broker.topic_administration import commit_event, must_lead
from longhall.errors import Code, LonghallError
from longhall.names import SYSTEM_TOPICS
from longhall.queues.audit import SUFFIX as DELIVERIES
from longhall.topics.partition_moves import (
    MoveRecord,
    PartitionMove,
    decide_begin,
    decide_cancel,
    decide_fence,
    decide_finish,
    decide_lift,
    decide_switch,
    encode_record,
    lanes_of,
    owners_of,
)


async def begin_moves(hall: Hall, name: str, targets: Mapping[int, int]) -> int:
    """Begin to move partitions of a topic to other groups; 0 is the main hall. Returns how many move: partitions that
    are in their target group, or move there, stay as they are.
    """
    must_lead(hall)
    topic = movable_topic(hall, name)
    check_moves(hall)
    record, owners = topic.options.moves, owners_of(topic.options.wings, len(topic.partitions))
    wanted: dict[int, int] = {}
    for partition, target in targets.items():
        move = record.of(partition)
        is_there = 0 <= partition < len(owners) and owners[partition] == target and move is None
        if not is_there and (move is None or move.target != target):
            wanted[partition] = target
    if wanted:
        await _commit(hall, topic, decide_begin(record, owners, wanted))
    return len(wanted)


async def cancel_moves(hall: Hall, name: str, partitions: Iterable[int] | None = None) -> int:
    """Cancel the moves of these partitions, or of all; returns how many. Those that have switched go on."""
    must_lead(hall)
    topic = _topic(hall, name)
    record = topic.options.moves
    for partition in [move.partition for move in record.moves] if partitions is None else partitions:
        move = record.of(partition)
        if move is None:
            raise LonghallError(Code.INVALID_REQUEST, f"Partition {partition} of '{name}' does not move.")
        if move.phase.value in ("copying", "fenced"):
            record = decide_cancel(record, partition)
        elif partitions is not None:
            raise LonghallError(Code.INVALID_REQUEST, f"The move of partition {partition} of '{name}' is at its end.")
    changed = record.generation - topic.options.moves.generation
    if changed:
        await _commit(hall, topic, record)
    return changed


async def fence(hall: Hall, topic: Topic, move: PartitionMove) -> PartitionMove:
    """The source refuses clients from now on. Returns the new step."""
    movable_topic(hall, topic.name)  # A queue may consume it by now.
    record = decide_fence(_current(hall, topic, move), move.partition)
    await _commit(hall, topic, record)
    return _step(record, move)


async def lift(hall: Hall, topic: Topic, move: PartitionMove) -> None:
    """The source serves clients again, and the copy goes on."""
    await _commit(hall, topic, decide_lift(_current(hall, topic, move), move.partition))


async def switch(hall: Hall, topic: Topic, move: PartitionMove) -> PartitionMove:
    """The target is the owner from now on. Returns the new step."""
    movable_topic(hall, topic.name)
    owners = owners_of(topic.options.wings, len(topic.partitions))
    record, owners = decide_switch(_current(hall, topic, move), owners, move.partition)
    await _commit(hall, topic, record, owners)
    return _step(record, move)


async def finish(hall: Hall, topic: Topic, move: PartitionMove) -> None:
    """The move has ended."""
    await _commit(hall, topic, decide_finish(_current(hall, topic, move), move.partition))


def movable_topic(hall: Hall, name: str) -> Topic:
    """The topic of this name. INVALID_REQUEST, with the reason, if its partitions cannot move."""
    topic = _topic(hall, name)
    refuse_system_topic(name)
    reason = why_it_stays(hall, topic, is_consumed=bool(hall.queues_on(topic.topic_id)))
    if reason:
        raise LonghallError(Code.INVALID_REQUEST, f"The partitions of '{name}' cannot move: {reason}.")
    return topic


def why_it_stays(hall: Hall, topic: Topic, *, is_consumed: bool) -> str:
    """Why the partitions of a topic cannot move; empty if they can. `is_consumed` says that a queue or share group
    consumes it.
    """
    options = topic.options
    if topic.name in SYSTEM_TOPICS:
        return "it is a topic of Longhall itself"
    if is_consumed:
        return "a queue or share group consumes it, and cursors do not move"
    if any(topic.name.removesuffix(suffix) in hall.catalogue.queues.by_name for suffix in (DELIVERIES, RETRY)):
        return "it is the audit or retry topic of a queue, and stays with it"
    if options.compacts:
        return "it is compacted: a copy has to have every offset"
    if options.archive_required:
        return "it is archived, and the progress of its archive does not move"
    if options.quota is not None and len(topic.partitions) > 1:
        return "it has a quota over several partitions, which one group counts"
    return ""


def check_lanes(topic: Topic) -> None:
    """Raises INVALID_CONFIGURATION for a new queue over a topic that moves, or whose partitions are scattered."""
    wings = topic.options.wings
    if topic.options.moves.moves or 0 in wings or len(set(wings)) < len(wings):
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"The partitions of '{topic.name}' move, or are scattered over groups: a queue over it has to wait until "
            "`longhall topic placement` has brought them together, or spread them evenly.",
        )


def moves_under_way(hall: Hall) -> list[tuple[Topic, PartitionMove]]:
    """All moves of the catalogue, by topic."""
    return [(topic, move) for topic in hall.catalogue.topics.values() for move in topic.options.moves.moves]


def _topic(hall: Hall, name: str) -> Topic:
    topic = hall.topic(name)
    if topic is None:
        raise LonghallError(Code.UNKNOWN_TOPIC, f"There is no topic '{name}'.")
    return topic


def _current(hall: Hall, topic: Topic, move: PartitionMove) -> MoveRecord:
    """The record of the topic. NOT_READY if the move has taken another step meanwhile, or its topic is gone."""
    must_lead(hall)
    if hall.catalogue.by_id.get(topic.topic_id) is not topic or topic.options.moves.of(move.partition) != move:
        raise LonghallError(Code.NOT_READY, f"the move of {topic.name}-{move.partition} has changed")
    return topic.options.moves


def _step(record: MoveRecord, move: PartitionMove) -> PartitionMove:
    found = record.of(move.partition)
    assert found is not None
    return found


async def _commit(hall: Hall, topic: Topic, record: MoveRecord, owners: list[int] | None = None) -> None:
    """Replace the record, and with new owners the placement, in one entry."""
    configuration = {**topic.configuration, MOVES: encode_record(record)}
    if owners is not None:
        configuration[WINGS] = ",".join(map(str, lanes_of(owners))) if any(owners) else ""
        configuration[PLACEMENT] = _placement(owners)
    await commit_event(hall, TopicConfigured(topic_id=topic.topic_id, configuration=configuration))


def _placement(owners: list[int]) -> str:
    if not any(owners):
        return IN_THE_HALL
    return SHARE if len(set(owners)) == 1 else PARTS
