"""Filters of receivers: compiled once, and shared by all receivers of a queue with the same text."""

from __future__ import annotations

from typing import Final, final

from longhall.broker.queues.running_queue import RunningQueue
from longhall.queues.envelope import decode_record
from longhall.queues.filters import Filter
from longhall.queues.outcomes import Candidate
from longhall.queues.receiver_filter import ReceiverFilter
from longhall.queues.selector import compile_filter
from longhall.records.record import Record

FILTERS_MAX: Final = 16  # In one queue; the least recently used is dropped.


@final
class CompiledReceiverFilter(ReceiverFilter):
    """The scan state of a compiled filter."""

    def __init__(self, filter: Filter) -> None:
        super().__init__()
        self._filter = filter

    def wants(self, lane: int, candidate: Candidate) -> bool:
        record = candidate.payload
        return isinstance(record, Record) and self._filter.matches(decode_record(record, lane))


def receiver_filter_for(queue: RunningQueue, text: str) -> ReceiverFilter | None:
    """The filter state of this text in this queue; None without a filter."""
    if not text:
        return None
    receiver_filter = queue.receiver_filters.pop(text, None)
    if receiver_filter is None:
        receiver_filter = CompiledReceiverFilter(compile_filter(text))
        if len(queue.receiver_filters) >= FILTERS_MAX:
            queue.receiver_filters.pop(next(iter(queue.receiver_filters)))
    queue.receiver_filters[text] = receiver_filter
    return receiver_filter
