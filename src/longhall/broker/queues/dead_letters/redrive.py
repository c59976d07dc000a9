"""Redrive: tasks that move messages of a dead-letter queue, at a bounded rate, and survive a crash.

A task receives from the dead-letter queue like any consumer, sends to the target and settles, in one atomic write, so a
crash neither loses nor duplicates a message.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.queues.audit.audit_log import audited, audits, note
from longhall.broker.queues.dead_letters.dead_lettering import dead_letter
from longhall.broker.queues.dead_letters.move_bounds import can_leave, move_target
from longhall.broker.queues.dead_letters.move_selection import move_selection_of, select_next
from longhall.broker.queues.delivery.message_lookup import warm
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.auxiliary_events import MoveEvent
from longhall.queues.delivery_reports import message_info_of
from longhall.queues.envelope import (
    RANDOM_BYTES,
    body_bytes_of,
    dead_letter_source_of,
    decode_record,
    new_message_id,
)
from longhall.queues.events import QueueEvent, Withdrawn
from longhall.queues.messages import MoveTask
from longhall.queues.outcomes import Outcome, Status
from longhall.queues.record_copies import redriven_record
from longhall.queues.redrive import CHOSEN_MAX, RATE_MAX, SOURCE_GONE, TARGET_GONE, Redrives, Step
from longhall.records.record import Record
from longhall.shards.shard import MOVES

LEASE_MS: Final = 30_000  # Within one atomic write; never visible.
COUNT_MAX: Final = 100
RETRY_S: Final = 0.5
_REFUSALS: Final = {
    Code.MOVE_RUNNING: "another task moves the messages of this queue",
    Code.INVALID_REQUEST: f"a task moves at most {RATE_MAX} messages a second, and names at most {CHOSEN_MAX}",
}


@final
class RedriveTasks:
    """The redrive tasks of a node, one asyncio task for each shard with work."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._stopped = False

    def start(self) -> None:
        """Resume the tasks that a restart interrupted."""
        for shard in range(1, len(self._hall.shards)):
            self._begin(shard)

    async def stop(self) -> None:
        """Finish the steps that are under way."""
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def start_move(
        self, source: RunningQueue, target: str, rate_max: int, ids: list[str], filter: str
    ) -> MoveTask:
        """Start to move the messages that are in the source now: all, or those of the ids or the filter."""
        move_selection_of(ids, filter)  # Raises for an invalid filter.
        hall = self._hall
        ends = tuple((lane, partition.high_watermark) for lane, partition in source.lanes.items())
        source.queue.tick(hall.time.now_ms())
        waiting = source.queue.waiting(list(ends))
        task_id = hall.world.entropy.bytes(16).hex()
        redrives = self._redrives(source)
        chosen = tuple(dict.fromkeys(ids))
        to_move = min(waiting, len(chosen)) if chosen else waiting
        name = source.entry.name
        now_ms = hall.time.now_ms()
        started = redrives.decide_start(task_id, name, target, rate_max, to_move, ends, now_ms, chosen, filter)
        if isinstance(started, Code):
            raise LonghallError(started, _REFUSALS[started])
        self._write(source.shard.number, started)
        await committed(hall, source.shard)
        self._begin(source.shard.number)
        return _known(redrives.get(task_id))

    async def cancel_move(self, task_id: str, queue: str = "") -> MoveTask:
        """Stop a task, of this queue if one is named; moved messages stay moved."""
        for number, redrives in enumerate(self._hall.redrives, 1):
            task = redrives.get(task_id)
            if task is None or (queue and task.source != queue):
                continue
            cancelling = redrives.decide_cancel(task_id)
            if isinstance(cancelling, Code):
                raise LonghallError(cancelling, "the task has ended")
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
        self._hall.write_event(self._hall.shards[shard], MOVES, event, self._hall.redrives[shard - 1].apply)

    def _begin(self, shard: int) -> None:
        now_ms = self._hall.time.now_ms()
        if shard not in self._tasks and self._hall.redrives[shard - 1].next_deadline_ms(now_ms) is not None:
            self._tasks[shard] = self._hall.background.start("move", partial(self._work, shard))

    async def _work(self, shard: int) -> None:
        redrives = self._hall.redrives[shard - 1]
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
        del self._tasks[shard]  # After a failure the supervisor restarts the task under this shard.

    async def _step(self, shard: int, redrives: Redrives, step: Step) -> None:
        hall = self._hall
        if step.ended is not None:
            self._write(shard, step.ended)
            await committed(hall, hall.shards[shard])
            return
        task = _known(redrives.get(step.task_id))
        source = hall.running_queue(task.source)
        if source is None or source.is_away:
            gone = "the source is gone" if source is None else "the source has moved to another replication group"
            self._fail(shard, redrives, step, gone)
            return
        if task.target and move_target(hall, task.target) is None:
            self._fail(shard, redrives, step, TARGET_GONE)
            return
        if hall.storage_full or hall.is_backed_up:
            redrives.give_up(step)
            await asyncio.sleep(RETRY_S)
            return
        if task.ids or task.filter:
            await self._step_chosen(shard, redrives, step, task, source)
            return
        left = max(task.to_move - task.moved, 0)
        outcome = self._receive(source, min(step.count_max, COUNT_MAX, left))
        if outcome.status is Status.COLD:
            redrives.give_up(step)
            await warm(hall, source, outcome.cold_lane)
        elif outcome.status is Status.CLOSED and left:  # Paused: continues when the queue resumes.
            redrives.give_up(step)
            await asyncio.sleep(RETRY_S)
        elif outcome.status in (Status.MORE, Status.DEATHS):
            with together(hall):
                write_queue(hall, source, outcome.events)
            dead_letter(hall, source, outcome.deaths)
            redrives.give_up(step)
        else:
            records = [given.candidate.payload for given in outcome.given]
            fitting = self._fitting(task, [record for record in records if isinstance(record, Record)])
            if fitting < len(records):
                outcome = self._receive(source, fitting)  # Nothing of the first decision was written.
            if records and not fitting:
                redrives.give_up(step)
                await asyncio.sleep(RETRY_S)  # The target has no room: the move goes on when it has.
                return
            self._move(shard, redrives, step, task, source, outcome)
            await committed(hall, source.shard)

    def _fail(self, shard: int, redrives: Redrives, step: Step, failure: str) -> None:
        failed = redrives.decide_fail(step.task_id, failure, self._hall.time.now_ms())
        if not isinstance(failed, Code):
            self._write(shard, failed)

    def _fitting(self, task: MoveTask, records: list[Record]) -> int:
        """The number of these messages, from the first on, that have room in their targets."""
        loads: dict[str, tuple[int, int]] = {}
        for index, record in enumerate(records):
            target = move_target(self._hall, task.target or dead_letter_source_of(record))
            if target is not None:
                count, size = loads.get(target.name, (0, 0))
                count, size = count + 1, size + body_bytes_of(record)
                if not target.makes_room(self._hall, count, size):
                    return index
                loads[target.name] = count, size
        return len(records)

    def _receive(self, source: RunningQueue, count: int) -> Outcome:
        return source.queue.decide_receive(self._hall.time.now_ms(), count, LEASE_MS, source.peek)

    def _move(
        self, shard: int, redrives: Redrives, step: Step, task: MoveTask, source: RunningQueue, outcome: Outcome
    ) -> None:
        """One step: lease, send, settle and progress, in one atomic write. A message without a target is returned, and
        the task fails.
        """
        hall = self._hall
        now_ms = hall.time.now_ms()
        with together(hall):
            write_queue(hall, source, outcome.events)
            receipts: list[tuple[int, int, int]] = []
            unsent = 0
            for given in outcome.given:
                record = given.candidate.payload
                assert isinstance(record, Record)
                receipt = (given.lane, record.offset, given.number)
                if not unsent and self._send(source, task, given.lane, record):
                    receipts.append(receipt)
                    continue
                unsent += 1
                returned = source.queue.decide_unseen(now_ms, *receipt, at_once=True)
                assert not isinstance(returned, Code)
                write_queue(hall, source, [returned])
            settled, _ = source.queue.decide_settle(now_ms, receipts)
            write_queue(hall, source, settled)
            moved = len(receipts)
            ended = not outcome.given or task.moved + moved >= task.to_move
            behind = step.until_offset if ended else step.from_offset
            self._write(shard, redrives.decide_progress(step, behind, moved))
            if unsent:
                self._fail(shard, redrives, step, SOURCE_GONE)
        dead_letter(hall, source, outcome.deaths)

    async def _step_chosen(
        self, shard: int, redrives: Redrives, step: Step, task: MoveTask, source: RunningQueue
    ) -> None:
        """One step of a task with a selection: withdraws the selected messages."""
        hall = self._hall
        lane = step.partition
        count_max = min(step.count_max, COUNT_MAX)
        chosen, behind = await select_next(hall, source, move_selection_of(task.ids, task.filter), step, count_max)
        fitting = self._fitting(task, chosen)
        if chosen and not fitting:
            redrives.give_up(step)
            await asyncio.sleep(RETRY_S)
            return
        if fitting < len(chosen):
            behind = chosen[fitting].offset
            chosen = chosen[:fitting]
        passed: list[QueueEvent] = []
        if chosen and chosen[-1].offset >= source.queue.cursor(lane).scan:
            decided = source.queue.decide_pass(lane, chosen[-1].offset + 1, source.peek)
            if decided is Status.COLD:
                redrives.give_up(step)
                await warm(hall, source, lane)
                return
            if isinstance(decided, Status):
                self._fail(shard, redrives, step, "too many messages are before the selected ones")
                return
            passed.append(decided)
        with together(hall):
            write_queue(hall, source, passed)
            moved = [record.offset for record in chosen if self._send(source, task, lane, record)]
            if moved:
                write_queue(hall, source, [Withdrawn(queue=source.number, lane=lane, offsets=moved)])
            self._write(shard, redrives.decide_progress(step, behind, len(moved)))
            if len(moved) < len(chosen):
                self._fail(shard, redrives, step, SOURCE_GONE)
        await committed(hall, source.shard)

    def _send(self, source: RunningQueue, task: MoveTask, lane: int, record: Record) -> bool:
        """Send one message to its target, inside an atomic write; False if the target queue is gone."""
        hall = self._hall
        fields = decode_record(record, lane)
        target = move_target(hall, task.target or fields.dead_letter_source)
        if target is None or (target.queue is None and not can_leave(record)):
            return False
        now_ms = hall.time.now_ms()
        back = redriven_record(record, new_message_id(hall.world.entropy.bytes(RANDOM_BYTES)), now_ms)
        target.write(hall, back, fields.priority, fields.group, now_ms)
        if audits(source):
            place = (lane, record.offset)
            note(
                hall,
                source,
                [
                    audited(
                        hall, source, "moved", place, message_info_of(fields), 0, reason="redriven", target=target.name
                    )
                ],
            )
        return True


def _known(task: MoveTask | None) -> MoveTask:
    assert task is not None
    return task
