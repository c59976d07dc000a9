"""Partition administration: begin, advance and end moves of partitions between replication groups, in the catalogue.

Each function decides the next move record of a topic and commits it in one entry of the catalogue; between the decision
and the entry nothing else runs. `topics/partition_moves.py` has the rules, `cluster/placement/partition_mover.py` calls
these functions as the copy proceeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import IN_THE_HALL, MOVES, PARTS, PLACEMENT, SHARE, WINGS
from longhall.broker.events import TopicConfigured
from longhall.broker.feature_gates import check_moves, check_queue_moves
from longhall.broker.hall import Hall
from longhall.broker.queue_catalogue import QueueEntry
from longhall.broker.queues.upkeep.side_topics import RETRY, existing_side_topics
from longhall.broker.queues.write import together
from longhall.broker.system_topics import refuse_system_topic
from longhall.broker.topic_administration import commit_event, must_lead
from longhall.broker.waiting import Commit
from longhall.errors import Code, LonghallError
from longhall.names import SETTLE_GROUP, SYSTEM_TOPICS
from longhall.queues.audit import SUFFIX as DELIVERIES
from longhall.topics.partition_moves import (
    MovePhase,
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
    if owned_queue(hall, topic) is not None or topic.options.compacts:
        check_queue_moves(hall)
    wanted: dict[int, int] = {}
    for partition, target in targets.items():
        move = record.of(partition)
        is_there = 0 <= partition < len(owners) and owners[partition] == target and move is None
        if not is_there and (move is None or move.target != target):
            wanted[partition] = target
    if wanted and owned_queue(hall, topic) is not None:
        groups = {targets.get(partition, owner) for partition, owner in enumerate(owners)}
        if len(groups) > 1:
            raise LonghallError(Code.INVALID_REQUEST, f"The partitions of the queue '{name}' move together.")
    if wanted:
        await _commit(hall, topic, decide_begin(record, owners, wanted))
    return len(wanted)


async def cancel_moves(hall: Hall, name: str, partitions: Iterable[int] | None = None) -> int:
    """Cancel the moves of these partitions, or of all; returns how many. Those that have switched go on."""
    must_lead(hall)
    topic = _topic(hall, name)
    record = topic.options.moves
    if partitions is not None and owned_queue(hall, topic) is not None:
        partitions = None  # They are one unit.
    if partitions is None and owned_queue(hall, topic) is not None and record.moves:
        numbers = record.unit_of(record.moves[0])
        if record.moves[0].phase in (MovePhase.COPYING, MovePhase.FENCED):
            await _commit(hall, topic, decide_cancel(record, *numbers))
            return len(numbers)
        return 0
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
    group_id = SETTLE_GROUP + topic.name
    if owned_queue(hall, topic) is not None and hall.groups_of(group_id).has_pending(group_id):
        raise LonghallError(Code.NOT_READY, "open transactions settle messages of the queue")
    record = decide_fence(_current(hall, topic, move), *_unit(hall, topic, move))
    await _commit(hall, topic, record)
    return _step(record, move)


async def lift(hall: Hall, topic: Topic, move: PartitionMove) -> None:
    """The source serves clients again, and the copy goes on."""
    await _commit(hall, topic, decide_lift(_current(hall, topic, move), *_unit(hall, topic, move)))


async def switch(hall: Hall, topic: Topic, move: PartitionMove) -> PartitionMove:
    """The target is the owner from now on. Returns the new step."""
    movable_topic(hall, topic.name)
    owners = owners_of(topic.options.wings, len(topic.partitions))
    record, owners = decide_switch(_current(hall, topic, move), owners, *_unit(hall, topic, move))
    await _commit(hall, topic, record, owners)
    return _step(record, move)


async def finish(hall: Hall, topic: Topic, move: PartitionMove) -> None:
    """The move has ended."""
    await _commit(hall, topic, decide_finish(_current(hall, topic, move), *_unit(hall, topic, move)))


def movable_topic(hall: Hall, name: str) -> Topic:
    """The topic of this name. INVALID_REQUEST, with the reason, if its partitions cannot move."""
    topic = _topic(hall, name)
    refuse_system_topic(name)
    others = len(hall.queues_on(topic.topic_id)) - (owned_queue(hall, topic) is not None)
    reason = why_it_stays(hall, topic, is_consumed=others > 0, by_itself=False)
    if reason:
        raise LonghallError(Code.INVALID_REQUEST, f"The partitions of '{name}' cannot move: {reason}.")
    return topic


def why_it_stays(hall: Hall, topic: Topic, *, is_consumed: bool, by_itself: bool = True) -> str:
    """Why the partitions of a topic cannot move; empty if they can. `is_consumed` says that a queue or share group
    consumes it, beside the queue that owns it; `by_itself` that nobody has asked for the move.
    """
    options = topic.options
    if topic.name in SYSTEM_TOPICS:
        return "it is a topic of Longhall itself"
    if is_consumed:
        return "a queue or share group that does not own it consumes it, and such cursors do not move"
    queues = hall.catalogue.queues.by_name
    if any(topic.name.endswith(end) and topic.name.removesuffix(end) in queues for end in (DELIVERIES, RETRY)):
        return "it is the audit or retry topic of a queue, and stays with it"
    queue = owned_queue(hall, topic)
    if queue is not None and topic.open and len(topic.partitions) != queue.settings.partitions:
        return "the queue has grown before, and the order of its groups depends on the parts that it has here"
    if queue is not None and (reason := _why_queue_stays(hall, queue, by_itself)):
        return reason
    if options.archive_required:
        return "it is archived, and the progress of its archive does not move"
    if options.quota is not None and len(topic.partitions) > 1:
        return "it has a quota over several partitions, which one group counts"
    return ""


def owned_queue(hall: Hall, topic: Topic) -> QueueEntry | None:
    """The queue that owns a topic."""
    entry = hall.catalogue.queues.by_name.get(topic.name)
    return entry if entry is not None and entry.owns_topic and entry.topic_id == topic.topic_id else None


def _why_queue_stays(hall: Hall, entry: QueueEntry, by_itself: bool) -> str:
    """Why a queue cannot move; empty if it can. Every queue that AMQP declared may take messages in chunks: it moves
    when somebody asks for that, as long as it has none (`queue_copy.list_logs`).
    """
    settings = entry.settings
    amqp = settings.amqp
    if len(set(settings.wings)) > 1:
        return "the queue is in several groups"
    if settings.whole_bytes_max and (by_itself or amqp is None):
        return "the queue takes messages in chunks (whole_bytes_max), which stay in their group"
    if settings.parts_max > settings.partitions:
        return "the queue grows (parts_max)"
    if any(topic.name in hall.catalogue.topics for topic in existing_side_topics(hall, entry.name, settings)):
        return "the queue has an audit or retry topic, which stays in its group"
    if amqp is not None and (amqp.owner or amqp.auto_delete or amqp.expires_ms or amqp.letters_exchange is not None):
        return "the queue depends on connections or exchanges, which the hall has"
    return ""


def _unit(hall: Hall, topic: Topic, move: PartitionMove) -> tuple[int, ...]:
    """The partitions that take a step together: all of a queue, else the one."""
    is_queue = owned_queue(hall, topic) is not None
    return topic.options.moves.unit_of(move) if is_queue else (move.partition,)


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
    """All moves of the catalogue, by topic; of a queue the one of its first partition."""
    found: list[tuple[Topic, PartitionMove]] = []
    for topic in hall.catalogue.topics.values():
        moves = topic.options.moves.moves
        found += [(topic, move) for move in (moves[:1] if moves and owned_queue(hall, topic) is not None else moves)]
    return found


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
        entry = owned_queue(hall, topic)
        if entry is not None:
            await _commit_queue(hall, topic, entry, configuration, owners)
            return
    await commit_event(hall, TopicConfigured(topic_id=topic.topic_id, configuration=configuration))


async def _commit_queue(
    hall: Hall, topic: Topic, entry: QueueEntry, configuration: dict[str, str], owners: list[int]
) -> None:
    """The same for a queue, whose settings name its group too: one atomic write."""
    wings = tuple(lanes_of(owners)) if any(owners) else ()
    settings = msgspec.structs.replace(entry.settings, wings=wings, placement=_placement(owners))
    configured = hall.catalogue.queues.decide_configure(entry.name, settings, hall.time.now_ms())
    assert not isinstance(configured, Code), "the queue exists"
    commit = Commit()
    with together(hall):
        hall.append_catalogue(TopicConfigured(topic_id=topic.topic_id, configuration=configuration), Commit())
        hall.append_catalogue(configured, commit)
    await commit.future


def _placement(owners: list[int]) -> str:
    if not any(owners):
        return IN_THE_HALL
    return SHARE if len(set(owners)) == 1 else PARTS
