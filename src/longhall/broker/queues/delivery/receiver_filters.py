"""Filters of receivers: compiled once, and shared by all at a queue that name the same text."""

from __future__ import annotations

from typing import Final, final

from longhall.broker.queues.running import RunningQueue
from longhall.queues.envelope import decode_record
from longhall.queues.filters import Filter
from longhall.queues.outcomes import Candidate
from longhall.queues.selector import compile_filter
from longhall.queues.wish import ReceiverFilter
from longhall.records.record import Record

WISHES_MAX: Final = 16  # Of one queue; the one that was not asked for longest is forgotten first.


@final
class FilterWish(ReceiverFilter):
    """Messages whose attributes fit."""

    def __init__(self, filter: Filter) -> None:
        super().__init__()
        self._filter = filter

    def wants(self, lane: int, candidate: Candidate) -> bool:
        record = candidate.payload
        return isinstance(record, Record) and self._filter.matches(decode_record(record, lane))


def wish_for(queue: RunningQueue, text: str) -> ReceiverFilter | None:
    """What a receiver of this queue with this filter asks for; None without a filter."""
    if not text:
        return None
    wish = queue.wishes.pop(text, None)
    if wish is None:
        wish = FilterWish(compile_filter(text))
        if len(queue.wishes) >= WISHES_MAX:
            queue.wishes.pop(next(iter(queue.wishes)))
    queue.wishes[text] = wish
    return wish
