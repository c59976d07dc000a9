"""Redrives: tasks that move the messages of a dead-letter queue, at a bounded rate, resumable and cancellable.

    state        by                                      then
    (none)       decide_start: MoveStarted               RUNNING
    RUNNING      decide_progress: MoveProgressed         RUNNING
    RUNNING      decide_cancel: MoveCancelling           CANCELLING
    RUNNING      next_step finds nothing left: MoveEnded COMPLETED
    CANCELLING   next_step: MoveEnded                    CANCELLED
    either       decide_fail: MoveEnded                  FAILED

A task moves the messages that were in the source when it started, partition by partition, in order; leased messages are
skipped. Progress is written in the same entry as the moves, so a crash repeats nothing. A source has one running task;
the last ten ended tasks of each source are stored.

The rate limit is a token bucket of a tenth of a second. Its level is not durable and starts at one message. This
machine moves nothing itself and does not know queues, cursors or the sources of messages.
"""

from __future__ import annotations

from typing import Any, Final, final

from longhall.errors import Code
from longhall.queues.auxiliary_events import MoveCancelling, MoveEnded, MoveEvent, MoveProgressed, MoveStarted
from longhall.queues.messages import MoveTask

ENDED_MAX: Final = 10  # Ended tasks that are stored, for each source.
STEP_MAX: Final = 1000  # Messages of one step.
RATE_MAX: Final = 1_000_000  # Messages a second.
CHOSEN_MAX: Final = 1000  # Message ids in one task.

RUNNING: Final = "RUNNING"
CANCELLING: Final = "CANCELLING"

# Failures that doors have words of their own for.
TARGET_GONE: Final = "the target queue does not exist"
SOURCE_GONE: Final = "the queue that a message came from does not exist"

_TOKEN: Final = 1000  # One message: a rate a second fills this many tokens a millisecond times the rate.


@final
class Step:
    """The next work for a task: move at most `count_max` messages from here, or write `ended`."""

    def __init__(self, task_id: str, ended: MoveEnded | None) -> None:
        self.task_id = task_id
        self.ended = ended
        self.partition = -1
        self.from_offset = 0
        self.until_offset = 0
        self.count_max = 0


@final
class _Task:
    """One task, running or ended."""

    def __init__(self, started: MoveStarted) -> None:
        self.started = started
        self.state = RUNNING
        self.moved = 0
        self.failure = ""
        self.positions: dict[int, int] = {}  # Partition to the next offset, where that is not the beginning.
        # Not durable:
        self.tokens = _TOKEN
        self.filled_ms = -1
        self.stepping = False  # A step is under way.

    def describe(self) -> MoveTask:
        started = self.started
        return MoveTask(
            task_id=started.task_id,
            source=started.source,
            target=started.target,
            rate_max=started.rate_max,
            state=self.state,
            moved=self.moved,
            to_move=started.to_move,
            started_ms=started.at_ms,
            failure=self.failure,
            ids=list(started.ids),
            filter=started.filter,
        )

    def fill(self, now_ms: int) -> None:
        rate = self.started.rate_max
        if self.filled_ms >= 0 and now_ms > self.filled_ms:
            self.tokens = min(self.tokens + rate * (now_ms - self.filled_ms), max(_TOKEN, rate * 100))
        self.filled_ms = max(now_ms, self.filled_ms)

    def allowance(self, now_ms: int) -> int:
        """The number of messages that may move now."""
        if self.started.rate_max <= 0:
            return STEP_MAX
        self.fill(now_ms)
        return min(self.tokens // _TOKEN, STEP_MAX)

    def next_place(self) -> tuple[int, int, int] | None:
        """Partition, next offset and end of the first unfinished partition."""
        for partition, end in self.started.ends:
            at = self.positions.get(partition, 0)
            if at < end:
                return partition, at, end
        return None


@final
class Redrives:
    """All tasks of a shard."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._running: dict[str, _Task] = {}  # By source.
        self._ended: dict[str, list[str]] = {}  # By source, in the order of their ends.

    def decide_start(
        self,
        task_id: str,
        source: str,
        target: str,
        rate_max: int,
        to_move: int,
        ends: tuple[tuple[int, int], ...],
        now_ms: int,
        ids: tuple[str, ...] = (),
        filter: str = "",
    ) -> MoveStarted | Code:
        """Start a task; refused while another runs on the same source. Ids or a filter select the messages."""
        if source in self._running:
            return Code.MOVE_RUNNING
        if not 0 <= rate_max <= RATE_MAX or task_id in self._tasks or len(ids) > CHOSEN_MAX:
            return Code.INVALID_REQUEST
        return MoveStarted(
            task_id=task_id,
            source=source,
            target=target,
            rate_max=rate_max,
            to_move=to_move,
            ends=ends,
            at_ms=now_ms,
            ids=ids,
            filter=filter,
        )

    def decide_progress(self, step: Step, next_offset: int, moved: int) -> MoveProgressed:
        """End a step: `moved` messages moved, and everything below `next_offset` is done."""
        return MoveProgressed(task_id=step.task_id, partition=step.partition, next_offset=next_offset, moved=moved)

    def decide_cancel(self, task_id: str) -> MoveCancelling | Code:
        """Stop a task after its current step. Moved messages stay moved."""
        task = self._tasks.get(task_id)
        if task is None or task.state != RUNNING:
            return Code.MOVE_UNKNOWN
        return MoveCancelling(task_id=task_id)

    def decide_fail(self, task_id: str, failure: str, now_ms: int) -> MoveEnded | Code:
        """End a task that cannot continue: its source or target is gone, or refuses."""
        task = self._tasks.get(task_id)
        if task is None or task.state not in (RUNNING, CANCELLING):
            return Code.MOVE_UNKNOWN
        return MoveEnded(task_id=task_id, state="FAILED", failure=failure, at_ms=now_ms)

    def next_step(self, now_ms: int) -> Step | None:
        """The next step of a task without a current step; None until `next_deadline_ms`."""
        for source, task in self._running.items():
            if task.stepping:
                continue
            step = self._step_of(task, now_ms)
            if step is not None:
                # The served task moves to the end, so that a task without a rate limit does not starve the others.
                del self._running[source]
                self._running[source] = task
                return step
        return None

    def _step_of(self, task: _Task, now_ms: int) -> Step | None:
        task_id = task.started.task_id
        if task.state == CANCELLING:
            return Step(task_id, MoveEnded(task_id=task_id, state="CANCELLED", at_ms=now_ms))
        place = task.next_place()
        if place is None:
            return Step(task_id, MoveEnded(task_id=task_id, state="COMPLETED", at_ms=now_ms))
        allowed = task.allowance(now_ms)
        if allowed <= 0:
            return None
        task.stepping = True
        step = Step(task_id, None)
        step.partition, step.from_offset, step.until_offset = place
        step.count_max = allowed
        return step

    def give_up(self, step: Step) -> None:
        """Abandon a step; `next_step` returns it again."""
        task = self._tasks.get(step.task_id)
        if task is not None:
            task.stepping = False

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When `next_step` has work again; None if time alone makes none."""
        soonest_ms: int | None = None
        for task in self._running.values():
            if task.stepping:
                continue
            at_ms = now_ms
            if task.state == RUNNING and task.next_place() is not None and task.allowance(now_ms) <= 0:
                rate = task.started.rate_max
                at_ms = now_ms + (_TOKEN - task.tokens + rate - 1) // rate
            soonest_ms = at_ms if soonest_ms is None else min(soonest_ms, at_ms)
        return soonest_ms

    def describe(self, source: str, count_max: int = ENDED_MAX) -> list[MoveTask]:
        """The tasks of a source, the newest first."""
        found = []
        running = self._running.get(source)
        if running is not None:
            found.append(running.describe())
        for task_id in reversed(self._ended.get(source, ())):
            found.append(self._tasks[task_id].describe())
        return found[:count_max]

    def get(self, task_id: str) -> MoveTask | None:
        task = self._tasks.get(task_id)
        return None if task is None else task.describe()

    def apply(self, event: MoveEvent) -> None:
        """Apply an event: the only way in which tasks change. Events of unknown tasks are ignored."""
        if isinstance(event, MoveStarted):
            task = _Task(event)
            self._tasks[event.task_id] = task
            self._running[event.source] = task
            return
        known = self._tasks.get(event.task_id)
        if known is None:
            return
        if isinstance(event, MoveProgressed):
            known.positions[event.partition] = event.next_offset
            known.moved += event.moved
            known.tokens -= event.moved * _TOKEN
            known.stepping = False
        elif isinstance(event, MoveCancelling):
            known.state = CANCELLING
        else:
            known.state = event.state
            known.failure = event.failure
            self._end(known)

    def _end(self, task: _Task) -> None:
        source = task.started.source
        if self._running.get(source) is task:
            del self._running[source]
        ended = self._ended.setdefault(source, [])
        ended.append(task.started.task_id)
        while len(ended) > ENDED_MAX:
            del self._tasks[ended.pop(0)]

    def forget(self, source: str) -> None:
        """Drop the tasks of a deleted queue. Part of the fold."""
        running = self._running.pop(source, None)
        if running is not None:
            del self._tasks[running.started.task_id]
        for task_id in self._ended.pop(source, ()):
            del self._tasks[task_id]

    def snapshot(self) -> list[Any]:
        """Builtins only, for `restore`. Tasks are in the order of their start."""
        return [
            [
                task.started.task_id,
                task.started.source,
                task.started.target,
                task.started.rate_max,
                task.started.to_move,
                [list(end) for end in task.started.ends],
                task.started.at_ms,
                task.state,
                task.moved,
                task.failure,
                [[partition, offset] for partition, offset in task.positions.items()],
                list(task.started.ids),
                task.started.filter,
            ]
            for task in self._tasks.values()
        ]

    def restore(self, state: list[Any]) -> None:
        self._tasks = {}
        self._running = {}
        self._ended = {}
        for row in state:
            task_id, source, target, rate_max, to_move, ends, at_ms, word, moved, failure, positions = row[:11]
            ids, filter = row[11:13] if len(row) > 11 else ((), "")  # Old snapshots have neither.
            self.apply(
                MoveStarted(
                    task_id=task_id,
                    source=source,
                    target=target,
                    rate_max=rate_max,
                    to_move=to_move,
                    ends=tuple((int(partition), int(end)) for partition, end in ends),
                    at_ms=at_ms,
                    ids=tuple(ids),
                    filter=filter,
                )
            )
            task = self._tasks[task_id]
            task.state = word
            task.moved = moved
            task.failure = failure
            task.positions = {int(partition): int(offset) for partition, offset in positions}
            if word not in (RUNNING, CANCELLING):
                self._end(task)
