"""Moves of partitions in one replication group, at its leader: the move record of a topic, and the calls of the mover.

The record comes with the topic from the leader of the hall. A group never goes back to an earlier record: a deposed
leader of the hall must not lift a fence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from longhall.broker import partition_copy, queue_copy
from longhall.broker.catalogue import Topic
from longhall.broker.configuration import MOVES
from longhall.broker.events import TopicConfigured
from longhall.broker.feature_gates import check_moves
from longhall.broker.hall import Hall
from longhall.broker.topic_administration import commit_event
from longhall.cluster.placement.move_operations import (
    AppendPiece,
    AppendQueueState,
    CompleteCopy,
    CompleteQueueCopy,
    DiscardCopy,
    ListQueueLogs,
    ProveCopy,
    ReadPiece,
    ReadQueueState,
)
from longhall.errors import Code, LonghallError
from longhall.topics.partition_moves import decode_record


class Operations(Protocol):
    """The operations that a process carries out; fulfilled by `service.local`."""

    def also(self, kind: Any, action: Any) -> None:
        """Carry out operations of this type too."""


async def apply_moves(hall: Hall, topic: Topic, configuration: Mapping[str, str]) -> None:
    """Commit the configuration if it has a later move record than the topic here. NOT_CONTROLLER if it has an earlier
    one: its sender does not lead the hall any more, or was overtaken.
    """
    wanted = decode_record(configuration.get(MOVES, "")).generation
    have = topic.options.moves.generation
    if wanted < have:
        raise LonghallError(
            Code.NOT_CONTROLLER, f"the group has the move record {have} of {topic.name!r}, and {wanted} is earlier"
        )
    if wanted > have:
        check_moves(hall)
        await commit_event(hall, TopicConfigured(topic_id=topic.topic_id, configuration=dict(configuration)))


def check_record(hall: Hall, configuration: Mapping[str, str]) -> None:
    """Raises NOT_READY for a new topic with a move record, if not every replica of this group can read it."""
    if configuration.get(MOVES):
        check_moves(hall)


def serve_moves(hall: Hall, broker: Operations) -> None:
    """Answer the calls of the mover."""
    broker.also(ReadPiece, lambda op, caller: partition_copy.read_piece(hall, op.place, op.offset))
    broker.also(AppendPiece, lambda op, caller: partition_copy.append_piece(hall, op.place, op.offset, op.piece))
    broker.also(CompleteCopy, lambda op, caller: partition_copy.complete_copy(hall, op.place, op.piece))
    broker.also(ProveCopy, lambda op, caller: partition_copy.prove(hall, op.place))
    broker.also(DiscardCopy, lambda op, caller: partition_copy.discard(hall, op.place))
    broker.also(ListQueueLogs, lambda op, caller: queue_copy.list_logs(hall, op.place))
    broker.also(ReadQueueState, lambda op, caller: queue_copy.read_state(hall, op.place, op.at))
    broker.also(AppendQueueState, lambda op, caller: queue_copy.append_state(hall, op.place, op.at, op.piece))
    broker.also(
        CompleteQueueCopy,
        lambda op, caller: queue_copy.complete_queue(hall, op.place, op.logs, op.at, op.piece),
    )
