"""Redrives: the messages of a dead-letter queue on their way back, at a bounded rate, resumable and cancellable.

    state        by                                      then
    (none)       decide_start: MoveStarted               RUNNING
    RUNNING      decide_progress: MoveProgressed         RUNNING
    RUNNING      decide_cancel: MoveCancelling           CANCELLING
    RUNNING      next_step finds nothing left: MoveEnded COMPLETED
    CANCELLING   next_step: MoveEnded                    CANCELLED
    either       decide_fail: MoveEnded                  FAILED

A task takes what was in the source when it started, partition after partition, in order; what is leased there when its
turn comes is passed over. Progress is written in the same entry as the moves (or as the outbox that carries them), so a
crash repeats nothing. One task runs a source; the last ten that ended are remembered for each.

The rate is a token bucket of a tenth of a second that is filled by the time told; it is not kept, and starts empty but
for one message. This machine moves nothing itself, and refuses to know queues, cursors and where messages came from.
"""

from __future__ import annotations

from typing import Any, Final, final

from longhall.errors import Code
from longhall.queues.auxiliary_events import MoveCancelling, MoveEnded, MoveEvent, MoveProgressed, MoveStarted
from longhall.queues.messages import MoveTask

ENDED_MAX: Final = 10  # Ended tasks that are remembered, for each source.
STEP_MAX: Final = 1000  # Messages of one step.
RATE_MAX: Final = 1_000_000  # Messages a second.
CHOSEN_MAX: Final = 1000  # Messages that a task can name by their ids.

RUNNING: Final = "RUNNING"
CANCELLING: Final = "CANCELLING"

_TOKEN: Final = 1000  # One message, in thousandths: a rate a second is so many of them a millisecond.


@final
class Step:
    """What the broker should do for a task: move at most `count_max` from here, or write that it has ended."""

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
        # Not kept:
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
        """How many may move now."""
        if self.started.rate_max <= 0:
            return STEP_MAX
        self.fill(now_ms)
        return min(self.tokens // _TOKEN, STEP_MAX)

    def next_place(self) -> tuple[int, int, int] | None:
        """Partition, next offset and end of the first partition that is not done."""
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
        self._ended: dict[str, list[str]] = {}  # By source, the last to end last.

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
        """Start a task; refused while another one runs on the same source. Ids or a filter choose what it takes."""
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
        """So many of the step are moved, and everything below `next_offset` is done with. Ends the step."""
        return MoveProgressed(task_id=step.task_id, partition=step.partition, next_offset=next_offset, moved=moved)

    def decide_cancel(self, task_id: str) -> MoveCancelling | Code:
        """Stop it after the step that it is in. What was moved stays moved."""
        task = self._tasks.get(task_id)
        if task is None or task.state != RUNNING:
            return Code.MOVE_UNKNOWN
        return MoveCancelling(task_id=task_id)

    def decide_fail(self, task_id: str, failure: str, now_ms: int) -> MoveEnded | Code:
        """It cannot go on: its source or target is gone, or refuses."""
        task = self._tasks.get(task_id)
        if task is None or task.state not in (RUNNING, CANCELLING):
            return Code.MOVE_UNKNOWN
        return MoveEnded(task_id=task_id, state="FAILED", failure=failure, at_ms=now_ms)

    def next_step(self, now_ms: int) -> Step | None:
        """Something to do, for one of the tasks that are not in a step already; None until `next_deadline_ms`."""
        for source, task in self._running.items():
            if task.stepping:
                continue
            step = self._step_of(task, now_ms)
            if step is not None:
                # Whoever was served goes to the end, so that a task without a rate does not hold up the others.
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
        """The step could not be done now; it will be given again."""
        task = self._tasks.get(step.task_id)
        if task is not None:
            task.stepping = False

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When `next_step` has something again, if nothing else happens. None: not by time."""
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
        """Alone changes what is kept. What is about a task that is forgotten changes nothing."""
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
        """The queue is deleted. Part of the fold."""
        running = self._running.pop(source, None)
        if running is not None:
            del self._tasks[running.started.task_id]
        for task_id in self._ended.pop(source, ()):
            del self._tasks[task_id]

    def snapshot(self) -> list[Any]:
        """Builtins only; `restore` takes it back. Tasks in the order in which they came."""
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
            ids, filter = row[11:13] if len(row) > 11 else ((), "")  # Before tasks could choose.
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
