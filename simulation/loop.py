"""An asyncio loop in virtual time.

When no callback is ready the clock jumps to the next timer; if there is no timer either, the run raises Deadlock.
`call_soon` keeps its documented order. Timers with equal deadlines run in an order drawn from the seed, because asyncio
promises none.

A simulated process dies as after SIGKILL: the loop drops its callbacks, so that none of its `finally` blocks and
handlers runs. The context of a callback names the process that owns it.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn, TypeVar, cast, final

# A coroutine that awaits inside a handler while it is closed is closed again, at most so often.
BURIALS_MAX: Final = 10
TIMER_JITTER_S: Final = 1e-6  # Far below every delay in use, far above the resolution of a float.

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
        self._is_paused = False
        self._held: list[tuple[contextvars.Context, Callable[..., object], tuple[object, ...]]] = []

    def start(self, coroutine: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        return self._loop.create_task(coroutine, context=self._context)

    def enter(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call into the process from outside, for instance with data that arrived. Does nothing if it is dead."""
        if self._is_paused:
            self._held.append((self._context.copy(), callback, arguments))
        elif self.alive:
            try:
                self._context.copy().run(callback, *arguments)
            except PowerCut:
                pass

    def pause(self) -> None:
        """SIGSTOP: all callbacks are held until `resume`; the process does not notice."""
        self._is_paused = True

    def resume(self) -> None:
        """SIGCONT: the held callbacks run, in their order."""
        self._is_paused = False
        held, self._held = self._held, []
        for context, callback, arguments in held:
            self._loop.call_soon(callback, *arguments, context=context)

    def kill(self) -> None:
        if self.alive:
            self.alive = False
            self.ended.set_result(None)

    def run(self, callback: Callable[..., object], *arguments: object) -> None:
        """Run a callback of this process, or hold it while the process is paused."""
        if self._is_paused:
            self._held.append((contextvars.copy_context(), callback, arguments))
        elif self.alive:
            try:
                callback(*arguments)
            except PowerCut:
                pass


_owner: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def current_process() -> Process | None:
    """The process whose code is running; None for code of the world and of the scenario."""
    return _owner.get()


@final
class _Jump:
    """The loop's selector: moves the clock instead of waiting for sockets."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[NoReturn]:
        if timeout is None:
            raise Deadlock("nothing is ready and nothing is scheduled")
        if timeout > 0:
            self._loop.jump()
        return []

    def close(self) -> None:
        pass


class SimulatedLoop(asyncio.BaseEventLoop):
    """The event loop of a simulation.

    Unhandled exceptions are collected in `failures`, where a real loop would log them.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._now = 0.0
        # The default of the base class is below the resolution of a float after some months.
        self._clock_resolution = TIMER_JITTER_S
        self._selector = _Jump(self)
        self._order = random.Random(f"{seed}/loop")
        # Tasks of dead processes stay suspended for ever; if the garbage collector closed them, their code would run.
        self._kept: list[asyncio.Task[Any]] = []
        self.failures: list[str] = []
        self.set_exception_handler(_keep_failure)
        self.set_task_factory(cast(Any, _keep_task))

    def time(self) -> float:
        return self._now

    def jump(self) -> None:
        """Move the clock to the next timer: the base class has them in a heap, the earliest first."""
        timers: list[asyncio.TimerHandle] = getattr(self, "_scheduled")  # noqa: B009
        self._now = max(self._now, timers[0].when())

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        owner = _owner.get() if context is None else context.get(_owner)
        if owner is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(owner.run, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        when += self._order.random() * TIMER_JITTER_S
        owner = _owner.get() if context is None else context.get(_owner)
        if owner is None:
            return super().call_at(when, callback, *args, context=context)
        return super().call_at(when, owner.run, callback, *args, context=context)

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
