"""Move: messages of a dead-letter queue go back to work, at a bounded rate, as a task that survives a crash.

A task receives from the dead letters like any consumer, sends to the target and settles, all in one step that stands or
falls as a whole; so nothing is lost or doubled whenever the node dies.
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.queues.receive import warm
from longhall.broker.queues.running import RunningQueue
from longhall.broker.queues.write import together, write_queue, write_records
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.envelope import decode_record, redriven_record
from longhall.queues.messages import MoveTask
from longhall.queues.outcomes import Candidate, Outcome, Status
from longhall.queues.redrive import Redrives, Step
from longhall.queues.steps import MoveEvent
from longhall.records.record import Record
from longhall.shards.shard import MOVES

LEASE_MS: Final = 30_000  # Within one step; never seen outside.
COUNT_MAX: Final = 100
RETRY_S: Final = 0.5


@final
class Mover:
    """The move tasks of a node."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._stopped = False

    def start(self) -> None:
        """Go on with what a restart interrupted."""
        for shard in range(1, len(self._hall.shards)):
            self._begin(shard)

    async def stop(self) -> None:
        """Finish the steps that are under way."""
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def start_move(self, source: RunningQueue, target: str, rate_max: int) -> MoveTask:
        """Begin to move what is in the source now."""
        hall = self._hall
        ends = tuple((lane, partition.high_watermark) for lane, partition in source.lanes.items())
        source.queue.tick(hall.time.now_ms())
        waiting = source.queue.waiting(list(ends))
        task_id = hall.world.entropy.bytes(16).hex()
        redrives = self._redrives(source)
        started = redrives.decide_start(task_id, source.entry.name, target, rate_max, waiting, ends, hall.time.now_ms())
        if isinstance(started, Code):
            raise LonghallError(started, "another task moves the messages of this queue")
        self._write(source.shard.number, started)
        await committed(hall, source.shard)
        self._begin(source.shard.number)
        return _known(redrives.get(task_id))

    async def cancel_move(self, task_id: str) -> MoveTask:
        """Stop a task; what was moved stays moved."""
        for number, redrives in enumerate(self._hall.redrives, 1):
            if redrives.get(task_id) is None:
                continue
            cancelling = redrives.decide_cancel(task_id)
            if isinstance(cancelling, Code):
                raise LonghallError(cancelling, "the task does not run any more")
            self._write(number, cancelling)
            await committed(self._hall, self._hall.shards[number])
            return _known(redrives.get(task_id))
        raise LonghallError(Code.MOVE_UNKNOWN, "there is no such task")

    def moves(self, source: RunningQueue) -> list[MoveTask]:
        """The tasks of a source, the newest first."""
        return self._redrives(source).describe(source.entry.name)

    def _redrives(self, source: RunningQueue) -> Redrives:
        return self._hall.redrives[source.shard.number - 1]

    def _write(self, shard: int, event: MoveEvent) -> None:
        self._hall.append_event(self._hall.shards[shard], MOVES, event)
        self._hall.redrives[shard - 1].apply(event)

    def _begin(self, shard: int) -> None:
        now_ms = self._hall.time.now_ms()
        if shard not in self._tasks and self._hall.redrives[shard - 1].next_deadline_ms(now_ms) is not None:
            self._tasks[shard] = asyncio.get_running_loop().create_task(self._work(shard))

    async def _work(self, shard: int) -> None:
        redrives = self._hall.redrives[shard - 1]
        try:
            while not self._stopped:
                now_ms = self._hall.time.now_ms()
                step = redrives.next_step(now_ms)
                if step is not None:
                    await self._step(shard, redrives, step)
                    continue
                deadline_ms = redrives.next_deadline_ms(now_ms)
                if deadline_ms is None:
                    break
                await asyncio.sleep(max(deadline_ms - now_ms, 1) / 1000)
        finally:
            del self._tasks[shard]

    async def _step(self, shard: int, redrives: Redrives, step: Step) -> None:
        hall = self._hall
        if step.ended is not None:
            self._write(shard, step.ended)
            await committed(hall, hall.shards[shard])
            return
        task = _known(redrives.get(step.task_id))
        source = hall.running_queue(task.source)
        if source is None:
            failed = redrives.decide_fail(step.task_id, "the source is gone", hall.time.now_ms())
            if not isinstance(failed, Code):
                self._write(shard, failed)
            return
        left = max(task.to_move - task.moved, 0)
        outcome = self._receive(source, min(step.count_max, COUNT_MAX, left))
        if outcome.status is Status.COLD:
            redrives.give_up(step)
            await warm(hall, source, outcome.cold_lane)
        elif hall.storage_full:
            redrives.give_up(step)
            await asyncio.sleep(RETRY_S)
        elif outcome.status is Status.MORE:
            with together(hall):
                write_queue(hall, source, outcome.events)
            redrives.give_up(step)
        else:
            self._move(shard, redrives, step, task, source, outcome)
            await committed(hall, source.shard)

    def _receive(self, source: RunningQueue, count: int) -> Outcome:
        def peek(lane: int, offset: int, wanted: int) -> list[Candidate] | None:
            return source.window(lane).look(offset, wanted)

        return source.queue.decide_receive(self._hall.time.now_ms(), count, LEASE_MS, peek)

    def _move(
        self, shard: int, redrives: Redrives, step: Step, task: MoveTask, source: RunningQueue, outcome: Outcome
    ) -> None:
        """One step: lease, send, settle, and the progress, all together."""
        hall = self._hall
        now_ms = hall.time.now_ms()
        with together(hall):
            write_queue(hall, source, outcome.events)
            receipts: list[tuple[int, int, int]] = []
            for given in outcome.given:
                record = given.candidate.payload
                assert isinstance(record, Record)
                name = task.target or decode_record(record, given.lane).dead_letter_source
                target = hall.running_queue(name)
                if target is None:
                    continue  # Its queue is gone; it stays here, leased for a moment.
                back = redriven_record(record, now_ms)
                write_records(hall, target.lane_for(0, ""), [back], now_ms, message=False)
                receipts.append((given.lane, record.offset, given.number))
            settled, _ = source.queue.decide_settle(now_ms, receipts)
            write_queue(hall, source, settled)
            moved = len(receipts)
            ended = not outcome.given or task.moved + moved >= task.to_move
            behind = step.until_offset if ended else step.from_offset
            self._write(shard, redrives.decide_progress(step, behind, moved))


def _known(task: MoveTask | None) -> MoveTask:
    assert task is not None
    return task
