"""The selection of messages for a redrive, by ids or by a filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.queues.dead_letters.letters import live
from longhall.broker.queues.running_queue import RunningQueue
from longhall.queues.envelope import Fields, decode_record
from longhall.queues.filters import Filter
from longhall.queues.redrive import Step
from longhall.queues.selector import compile_filter
from longhall.records.record import Record

LOOKED_AT_MAX: Final = 500  # Messages examined in one step.


@final
class MoveSelection:
    """Matches messages with one of the ids, if there are any, that match the filter, if there is one."""

    def __init__(self, ids: frozenset[str], filter: Filter | None) -> None:
        self._ids = ids
        self._filter = filter

    def wants(self, fields: Fields) -> bool:
        """True if the message is selected."""
        if self._ids and fields.message_id not in self._ids:
            return False
        return self._filter is None or self._filter.matches(fields)


def move_selection_of(ids: Sequence[str], filter: str) -> MoveSelection:
    """Compile a selection. Raises INVALID_REQUEST for an invalid filter."""
    return MoveSelection(frozenset(ids), compile_filter(filter) if filter else None)


async def select_next(
    hall: Hall, queue: RunningQueue, choice: MoveSelection, step: Step, count_max: int
) -> tuple[list[Record], int]:
    """The next selected messages, in the order of offsets, and the offset at which the next step continues.

    Leased messages are skipped. The caller must not await between this and the move.
    """
    found, behind = await live(hall, queue, step.partition, step.from_offset, LOOKED_AT_MAX)
    chosen: list[Record] = []
    for record in found:
        if record.offset >= step.until_offset or len(chosen) >= count_max:
            return chosen, min(record.offset, step.until_offset)
        leased = queue.queue.is_leased(step.partition, record.offset)
        if not leased and choice.wants(decode_record(record, step.partition)):
            chosen.append(record)
    return chosen, step.until_offset if behind < 0 else min(behind, step.until_offset)
