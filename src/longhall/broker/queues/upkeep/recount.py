"""Recount: updates the counts of queues after retention or a trim removed messages of their log."""

from __future__ import annotations

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import write_queue
from longhall.queues.events import Passed, Recounted


def recount(hall: Hall, partition: Partition, began: int) -> None:
    """Update every queue on this log, whose start has moved from `began`.

    Outstanding messages that are gone die at their next delivery. The scan passes the others at once, so that they do
    not count as waiting and a full queue has room again.
    """
    lane = partition.lane
    start = partition.log.start_offset
    for queue in partition.listeners:
        if not isinstance(queue, RunningQueue) or lane not in queue.lanes:
            continue
        scan = queue.queue.cursor(lane).scan
        if scan >= start:
            continue
        events: list[Passed | Recounted] = [Passed(queue=queue.number, lane=lane, next_offset=start)]
        state = queue.queue.state
        if state.messages and not queue.judges(partition):
            lost = start - max(scan, began)
            size = state.bytes * lost // state.messages
            events.append(
                Recounted(queue=queue.number, messages=max(0, state.messages - lost), bytes=max(0, state.bytes - size))
            )
        write_queue(hall, queue, events)
