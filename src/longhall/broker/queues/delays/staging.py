"""Delay staging: stores delayed messages in hidden logs until they are due.

Each queue has a state machine of slices of due time (`queues.staging`). This module creates the logs of the slices,
promotes due messages to the lanes of the queue, and restages messages of coarse slices to finer ones. A move appends
the message to its new log and settles the staged copy in one atomic write.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final, final

from longhall.broker.events import LaneDropped, LaneMade, LogTrimmed
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.delays.delay_promotion import NOTHING, gather_due, promote
from longhall.broker.queues.delays.hidden_reader import HiddenReader
from longhall.broker.queues.delivery.message_lookup import warm
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_records, write_staging
from longhall.broker.waiting import Commit, committed
from longhall.errors import Code, LonghallError
from longhall.queues.auxiliary_events import StagedSettled
from longhall.queues.envelope import decode_record, due_of, moved_record
from longhall.queues.staging import DROP, DUE_NOW, LOAD, MOVE, NO_LANE, RESTAGE, Work
from longhall.records.record import Record
from longhall.shards.shard import PARTITIONS

STEP_MAX: Final = 500
APART_MS: Final = 8  # Messages that are due within this time are moved together.
RETRY_S: Final = 1.0
WAIT_S_MAX: Final = 3600.0

_log = logging.getLogger("longhall.queues")


@final
class DelayStager:
    """The delays of all queues of a node."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._timers: dict[int, tuple[float, asyncio.Handle]] = {}  # By queue: when the timer fires, and its handle.
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._stopped = False

    def start(self) -> None:
        """Set the timers of all queues with delayed messages."""
        for queue in self._hall.queues.values():
            self.arm(queue)

    async def stop(self) -> None:
        """Finish the steps that are under way."""
        self._stopped = True
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def stage(self, queue: RunningQueue, record: Record, due_ms: int, now_ms: int) -> tuple[int, int]:
        """Store a delayed message; returns its log and offset."""
        log = self.log_for(queue, due_ms, now_ms)
        offset = write_records(self._hall, log, [record], now_ms)
        self.arm(queue)
        return log.lane, offset

    def log_for(self, queue: RunningQueue, due_ms: int, now_ms: int) -> Partition:
        """The log for a message due then. The caller calls `arm` after the append."""
        key, lane = queue.staging.place(due_ms, now_ms)
        return queue.hidden[self._open(queue, key) if lane == NO_LANE else lane]

    def _open(self, queue: RunningQueue, key: int) -> int:
        hall = self._hall
        fresh = NO_LANE
        if not queue.staging.has_idle_lane:
            fresh = hall.catalogue.next_partition
            made = LaneMade(queue_id=queue.entry.queue_id, partition=fresh, key=str(key))
            hall.append_catalogue(made, Commit())
        opened = queue.staging.decide_open(key, fresh)
        write_staging(hall, queue, [opened])
        return opened.lane

    # Time

    def arm(self, queue: RunningQueue, least_ms: int = 0) -> None:
        """Set the timer of this queue to its next due time, at least `least_ms` ahead."""
        if self._stopped or queue.number in self._tasks:
            return
        now_ms = self._hall.time.now_ms()
        deadline_ms = queue.staging.next_deadline_ms(now_ms)
        if deadline_ms is None or queue.is_closed:
            return
        loop = asyncio.get_running_loop()
        at_s = loop.time() + min(max(deadline_ms - now_ms, least_ms) / 1000, WAIT_S_MAX)
        armed = self._timers.get(queue.number)
        if armed is not None:
            if armed[0] <= at_s:
                return  # An early wake-up is cheaper than a new timer for every message.
            armed[1].cancel()
        self._timers[queue.number] = at_s, loop.call_at(at_s, self._begin, queue)

    def _begin(self, queue: RunningQueue) -> None:
        self._timers.pop(queue.number, None)
        if queue.number not in self._tasks and not queue.is_closed:
            self._tasks[queue.number] = self._hall.background.start("stage", partial(self._work, queue))

    async def _work(self, queue: RunningQueue) -> None:
        now_ms = self._hall.time.now_ms()
        try:
            while not self._stopped and not queue.is_closed:
                work = queue.staging.next_work(now_ms)
                if work is None:
                    break
                await self._do(queue, work)
                await asyncio.sleep(0)
                if (
                    self._hall.time.now_ms() - now_ms >= APART_MS
                ):  # Else newly due messages wait and are moved together.
                    now_ms = self._hall.time.now_ms()
        except (OSError, LonghallError) as error:
            if not isinstance(error, LonghallError) or error.code is not Code.QUEUE_FULL:  # Else they wait for room.
                _log.warning(
                    "delayed messages could not be moved and will be retried",
                    extra={"queue": queue.entry.name, "reason": str(error)},
                )
            await asyncio.sleep(RETRY_S)
        del self._tasks[queue.number]  # After an unexpected failure the supervisor restarts the task under this number.
        self.arm(queue, APART_MS)

    async def _do(self, queue: RunningQueue, work: Work) -> None:
        if work.kind == MOVE:
            await self._move_due(queue)
        elif work.kind == LOAD:
            found = await HiddenReader(self._hall, queue).read(work.lane, work.from_offset, STEP_MAX)
            entries = [(due_of(record), record.offset) for record in found[0] if record.offset < work.until_offset]
            queue.staging.load(work.key, entries, min(max(found[1], work.from_offset + 1), work.until_offset))
        elif work.kind == RESTAGE:
            await self._restage(queue, work)
        elif work.kind == DROP:
            self._drop(queue, work)

    async def _move_due(self, queue: RunningQueue) -> None:
        """Promote due messages, the longest due first, in atomic writes of bounded size."""
        places = queue.staging.due(self._hall.time.now_ms(), STEP_MAX)
        moved = 0
        try:
            while moved < len(places) and not queue.is_closed:
                load = gather_due(queue, places, moved)
                if load.behind > moved:
                    promote(self._hall, queue, load, places[moved : load.behind])
                    moved = load.behind
                if load.cold != NOTHING:
                    await warm(self._hall, queue, load.cold)
                elif load.unreadable:
                    raise LonghallError(Code.NOT_READY, "a delayed message is being repaired from another replica")
                elif load.uncommitted:
                    await committed(self._hall, queue.shard)
        finally:
            for lane, offset in places[moved:]:  # After a failure the rest is due again.
                queue.staging.put_back(lane, offset, self._hall.time.now_ms())

    async def _restage(self, queue: RunningQueue, work: Work) -> None:
        """Move the messages of a coarse slice that has begun to finer ones."""
        hall = self._hall
        records, behind = await HiddenReader(self._hall, queue).read(work.lane, work.from_offset, STEP_MAX)
        settled: list[tuple[int, int]] = []
        for record in records:
            if record.offset >= work.until_offset or queue.staging.is_settled(work.lane, record.offset):
                continue
            now_ms = hall.time.now_ms()
            due_ms = due_of(record)
            fields = decode_record(record, work.lane)
            key = queue.staging.route(work.key, due_ms, now_ms)
            with together(hall):
                if key == DUE_NOW:
                    moved = moved_record(record, fields.message_id, now_ms)
                    write_records(hall, queue.lane_for(fields.priority, fields.group), [moved], now_ms, message=False)
                else:
                    lane = queue.staging.lane_of(key)
                    if lane == NO_LANE:
                        lane = self._open(queue, key)
                    moved = moved_record(record, fields.message_id, now_ms, due_ms)
                    write_records(hall, queue.hidden[lane], [moved], now_ms, message=False)
                why: list[StagedSettled] = queue.staging.decide_settle([(work.lane, record.offset)], "restaged")
                write_staging(hall, queue, why)
            settled.append((work.lane, record.offset))
        if not settled:  # Only gaps: settle them.
            gone = [(work.lane, offset) for offset in range(work.from_offset, min(behind, work.until_offset))]
            write_staging(hall, queue, queue.staging.decide_settle(gone, "cancelled"))

    def _drop(self, queue: RunningQueue, work: Work) -> None:
        dropped = queue.staging.decide_drop(work.key)
        with together(self._hall):
            write_staging(self._hall, queue, [dropped])
            if dropped.lane_deleted:
                dropped_log = queue.hidden[work.lane].log.partition
                event = LaneDropped(queue_id=queue.entry.queue_id, partition=dropped_log)
                self._hall.append_catalogue(event, Commit())
            else:
                self._empty(queue.hidden[work.lane])

    def _empty(self, partition: Partition) -> None:
        """Trim an unused log for another slice."""
        hall = self._hall
        end = partition.log.next_offset
        if end > partition.log.start_offset and hall.flush_tail(partition):
            hall.append_event(
                partition.shard, PARTITIONS, LogTrimmed(partition=partition.log.partition, start_offset=end)
            )
            hall.trim(partition, end)
