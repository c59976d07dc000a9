"""An asyncio loop in virtual time.

When no callback is ready the clock jumps to the next timer; if there is no timer either, the run raises Deadlock.
`call_soon` keeps its documented order. Timers with equal deadlines run in an order drawn from the seed, because asyncio
promises none.

A simulated process dies as after SIGKILL: the loop drops its callbacks, so that none of its `finally` blocks and
handlers runs. The context of a callback names the process that owns it.

The loop turns in its own `_run_once`, in the order of asyncio's: that one asks a selector, and compares timers in
Python. Simulations spend a quarter of their time there.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NoReturn, TypeVar, cast, final

# A coroutine that awaits inside a handler while it is closed is closed again, at most so often.
BURIALS_MAX: Final = 10
TIMER_JITTER_S: Final = 1e-6  # Far below every delay in use, far above the resolution of a float.
CANCELLED_TIMERS_MIN: Final = 100  # So many cancelled timers, and more than half of all, are removed at once.

_T = TypeVar("_T")


class Deadlock(Exception):
    """No callback is ready and no timer is set: the run can never continue."""


class PowerCut(BaseException):
    """Raised where a process dies in the middle of a call to the world. Only this package may catch it."""


@final
class Process:
    """A simulated process: tasks and callbacks that die together.

    `start` runs a coroutine inside it, `enter` a callback of the world.
    """

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self.name = name
        self.alive = True
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._context = contextvars.copy_context()
        self._context.run(_owner.set, self)
        self.is_paused = False
        self._held: list[tuple[contextvars.Context, Callable[..., object], Sequence[Any]]] = []

    def start(self, coroutine: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        return self._loop.create_task(coroutine, context=self._context)

    def enter(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call into the process from outside, for instance with data that arrived. Does nothing if it is dead."""
        if self.is_paused:
            self.hold(self._context.copy(), callback, arguments)
        elif self.alive:
            try:
                self._context.copy().run(callback, *arguments)
            except PowerCut:
                pass

    def pause(self) -> None:
        """SIGSTOP: all callbacks are held until `resume`; the process does not notice."""
        self.is_paused = True

    def hold(self, context: contextvars.Context, callback: Callable[..., object], arguments: Sequence[Any]) -> None:
        """Keep a callback until `resume`."""
        self._held.append((context, callback, arguments))

    def resume(self) -> None:
        """SIGCONT: the held callbacks run, in their order."""
        self.is_paused = False
        held, self._held = self._held, []
        for context, callback, arguments in held:
            self._loop.call_soon(callback, *arguments, context=context)

    def kill(self) -> None:
        if self.alive:
            self.alive = False
            self.ended.set_result(None)


_owner: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def current_process() -> Process | None:
    """The process whose code is running; None for code of the world and of the scenario."""
    return _owner.get()


@final
class _Callback(asyncio.TimerHandle):
    """A callback that is due in the next turn of the loop or at a time, and the process that owns it.

    The base class is there for its type; of its fields only those that are set here are in use.
    """

    __slots__ = ("owner", "timers")

    def __init__(
        self,
        owner: Process | None,
        context: contextvars.Context,
        callback: Callable[..., object],
        arguments: tuple[object, ...],
        when: float = 0.0,
        timers: SimulatedLoop | None = None,
    ) -> None:
        self.owner = owner
        self.timers = timers  # The loop in whose heap it is; None if it is not a timer, or not any more.
        self._context = context
        self._callback = callback
        self._args = arguments
        self._when = when
        self._cancelled = False

    def __repr__(self) -> str:
        return f"<{self._callback!r} of {self.owner.name if self.owner is not None else 'the world'}>"

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            if self.timers is not None:
                self.timers.cancelled_timers += 1

    def run(self, loop: SimulatedLoop) -> None:
        """Run the callback, unless its process is dead, or hold it while the process is paused."""
        owner = self.owner
        if owner is not None:
            if owner.is_paused:
                owner.hold(self._context, self._callback, self._args)
                return
            if not owner.alive:
                return
        try:
            self._context.run(self._callback, *self._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            if owner is None or not isinstance(error, PowerCut):
                loop.call_exception_handler(
                    {"message": f"Exception in callback {self._callback!r}", "exception": error}
                )


class SimulatedLoop(asyncio.BaseEventLoop):
    """The event loop of a simulation.

    Unhandled exceptions are collected in `failures`, where a real loop would log them.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._now = 0.0
        self._soon: deque[_Callback] = deque()
        self._timers: list[tuple[float, int, _Callback]] = []  # A heap; the number keeps equal ones in their order.
        self._timers_made = 0
        self.cancelled_timers = 0  # How many of the timers in the heap were cancelled.
        self._order = random.Random(f"{seed}/loop")
        # Tasks of dead processes stay suspended for ever; if the garbage collector closed them, their code would run.
        self._kept: list[asyncio.Task[Any]] = []
        self.failures: list[str] = []
        self.set_exception_handler(_keep_failure)
        self.set_task_factory(cast(Any, _keep_task))

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if context is None:
            context = contextvars.copy_context()
        handle = _Callback(context.get(_owner), context, callback, args)
        self._soon.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if context is None:
            context = contextvars.copy_context()
        when += self._order.random() * TIMER_JITTER_S
        handle = _Callback(context.get(_owner), context, callback, args, when, self)
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def run_in_executor(self, executor: object, func: Callable[..., object], *args: object) -> NoReturn:
        raise AssertionError(f"a thread for {func} in a simulated world")

    def unheard(self) -> list[str]:
        """Exceptions of finished tasks that no code has retrieved."""
        found: list[str] = []
        for task in self._kept:
            if task.done() and not task.cancelled() and getattr(task, "_log_traceback", False):
                error = task.exception()
                if error is not None and not isinstance(error, PowerCut):
                    found.append(f"{task!r}\n{''.join(traceback.format_exception(error))}")
        return found

    def bury(self) -> None:
        """End every suspended task at the end of a run, and log nothing.

        The garbage collector would otherwise close them during a later run. A handler of such a task that starts a
        time-out would then attach it to a task of that run and cancel it.
        """
        for task in [*self._kept, *asyncio.all_tasks(self)]:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = cast(Coroutine[Any, Any, Any], task.get_coro())
            for _ in range(BURIALS_MAX):
                try:
                    coroutine.close()
                    break
                except KeyboardInterrupt:
                    raise
                except BaseException:  # The handler awaits again, or calls the world of a dead process.
                    continue
        self._kept.clear()
        self.close()

    def close(self) -> None:
        self._soon.clear()
        self._timers.clear()
        super().close()

    def _run_once(self) -> None:
        """Take one turn: move the clock if nothing is due, then run what is due now, but not what that adds."""
        timers, soon = self._timers, self._soon
        if self.cancelled_timers > CANCELLED_TIMERS_MIN and self.cancelled_timers * 2 > len(timers):
            timers[:] = [entry for entry in timers if not entry[2].cancelled()]
            heapq.heapify(timers)
            self.cancelled_timers = 0
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
            self.cancelled_timers -= 1
        if not soon and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise Deadlock("nothing is ready and nothing is scheduled")
            self._now = max(self._now, timers[0][0])
        end = self._now + TIMER_JITTER_S
        while timers and timers[0][0] < end:
            handle = heapq.heappop(timers)[2]
            handle.timers = None
            if handle.cancelled():
                self.cancelled_timers -= 1
            else:
                soon.append(handle)
        for _ in range(len(soon)):
            handle = soon.popleft()
            if not handle.cancelled():
                handle.run(self)

    def _process_events(self, event_list: list[NoReturn]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def _keep_task(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, _T], **options: Any) -> asyncio.Task[_T]:
    assert isinstance(loop, SimulatedLoop)
    task = asyncio.Task(coro, loop=loop, **options)
    context = options.get("context")
    owner = _owner.get() if context is None else context.get(_owner)
    if owner is not None:
        loop._kept.append(task)
        if len(loop._kept) > 4096:
            loop._kept = [kept for kept in loop._kept if not kept.done()]
    return task


def _keep_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimulatedLoop)
    error = context.get("exception")
    if isinstance(error, PowerCut):
        return
    lines = traceback.format_exception(error) if isinstance(error, BaseException) else []
    loop.failures.append(f"{context.get('message')}\n{''.join(lines)}")
