"""The reply of an operation that completes on commit, or later.

An operation of the broker returns one of these at once, whether its reply is ready, waits for a commit, for a disk, for
messages, or for another process. There is no second version of an operation for "right now".

    state       known   done    what happens next
    waiting     no      no      something completes or fails it
    uncommitted yes     no      the reply is decided and may be encoded, but not sent before the commit
    completed   yes     yes     the reply is final
    failed      no      yes     `error` says why
    cancelled   no      yes     the caller has gone away; `error` is a CancelledError

The sender of a message hears that it is safe. If hosts were lost while it was under way, and those that are left are
fewer than `in_sync_min`, it is committed by them and stays, but its sender is told to try again: `when_acknowledged`.

Invariant: it becomes done once, and the callback of `when_done` runs once, at that moment or at once if it is done. A
caller that goes away when something was done for it already abandons the reply: the operation may undo it then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar, cast, final

from mypy_extensions import mypyc_attr

from longhall.broker.hall import Hall
from longhall.errors import Code, LonghallError
from longhall.shards.shard import ALL, ONE, Committable, Shard

R = TypeVar("R")


@mypyc_attr(allow_interpreted_subclasses=True)
class Acknowledgeable(Committable):
    """An object that waits for the commit of a message."""

    def refused(self) -> None:
        """The message is committed by fewer replicas than it asks for."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplyWatcher:
    """Hears that a reply is done, without a task and without a closure: every request of a message needs one."""

    def done(self, pending: Pending[Any]) -> None:
        """The reply is final, or it failed."""
        raise NotImplementedError


@final
class Pending(Acknowledgeable, Generic[R]):
    """One reply under way. It may be awaited, or watched with `when_done` where no task is wanted."""

    def __init__(self) -> None:
        self.known = False
        self.done = False
        self.error: BaseException | None = None
        self._reply: Any = None
        self._then: Callable[[Any], None] | None = None
        self._watcher: ReplyWatcher | None = None
        self._counter: ReplyWatcher | None = None
        self._is_watched = False
        self._future: asyncio.Future[None] | None = None
        self._work: asyncio.Task[Any] | None = None
        self._on_cancel: Callable[[], None] | None = None
        self._is_cancellable = True
        self._is_abandoned = False
        self._on_abandoned: Callable[[Any], None] | None = None

    @property
    def reply(self) -> R:
        """The reply, once it is known."""
        assert self.known
        return cast(R, self._reply)

    def result(self) -> R:
        """The reply of what is done; raises its error if it failed."""
        assert self.done
        if self.error is not None:
            raise self.error
        return cast(R, self._reply)

    # What the operation does

    def decide(self, reply: R) -> None:
        """This is the reply, once everything is committed. From here on there is something to lose by cancelling."""
        self._reply = reply
        self.known = True
        self._is_cancellable = False

    def keep(self) -> None:
        """Something was done for the caller: cancelling has no effect from here on."""
        self._is_cancellable = False

    def complete(self, reply: R) -> None:
        """The reply is final. No effect on what is done already."""
        if not self.done:
            self._reply = reply
            self.known = True
            self._finish()

    def fail(self, error: BaseException) -> None:
        """There is no reply. No effect on what is done already."""
        if not self.done:
            self.error = error
            self.known = False
            self._finish()

    def committed(self, value: int) -> None:
        if not self.done:
            self._finish()

    def refused(self) -> None:
        self.fail(too_few())

    def run(self, work: Coroutine[Any, Any, R]) -> None:
        """Let a task produce the reply."""
        self._work = asyncio.get_running_loop().create_task(work)
        self._work.add_done_callback(self._worked)

    def _worked(self, work: asyncio.Task[R]) -> None:
        if work.cancelled():
            self.fail(asyncio.CancelledError())
            return
        error = work.exception()
        if error is None:
            self.complete(work.result())
        else:
            self.fail(error)

    def _finish(self) -> None:
        self.done = True
        self._work = None
        self._on_cancel = None
        then, self._then = self._then, None
        watcher, self._watcher = self._watcher, None
        counter, self._counter = self._counter, None
        if self._is_abandoned and self._on_abandoned is not None and self.error is None:
            self._on_abandoned(self._reply)
            self.known = False
            self.error = asyncio.CancelledError()
        if counter is not None:
            counter.done(self)
        if watcher is not None:
            watcher.done(self)
        elif then is not None:
            then(self)
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    # What the caller does

    def when_done(self, then: Callable[[Pending[R]], None]) -> None:
        """Call this when it is done: now, if it is."""
        if self.done:
            then(self)
        else:
            assert not self._is_watched, "one callback watches a reply"
            self._is_watched = True
            self._then = then

    def watch(self, watcher: ReplyWatcher) -> None:
        """The same for an object that waits for the commit of a reply that is known."""
        if self.done:
            watcher.done(self)
        else:
            assert not self._is_watched, "one callback watches a reply"
            self._is_watched = True
            self._watcher = watcher

    def count(self, counter: ReplyWatcher) -> None:
        """Tell this object too when the reply is done: it counts what is under way."""
        assert self._counter is None, "one object counts a reply"
        self._counter = counter

    def when_abandoned(self, action: Callable[[R], None]) -> None:
        """Call this with the reply if the caller goes away when it is too late to cancel."""
        self._on_abandoned = action

    def when_cancelled(self, action: Callable[[], None]) -> None:
        """Call this when the caller goes away before the reply is known."""
        self._on_cancel = action

    def cancel(self) -> None:
        """The caller has gone away. What was done for it already is abandoned."""
        if self.done:
            return
        if not self._is_cancellable:
            self._is_abandoned = self._on_abandoned is not None
            return
        action, work = self._on_cancel, self._work
        if work is not None:
            work.cancel()
            return
        self.fail(asyncio.CancelledError())
        if action is not None:
            action()

    def __await__(self) -> Generator[Any, None, R]:
        return self.wait().__await__()

    async def wait(self) -> R:
        """The reply when it is final; raises the error."""
        if not self.done:
            assert self._future is None, "one coroutine awaits a reply"
            self._future = asyncio.get_running_loop().create_future()
            try:
                await self._future
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()


def completed(reply: R) -> Pending[R]:
    """A reply that nothing is waited for."""
    pending: Pending[R] = Pending()
    pending.complete(reply)
    return pending


def failed(error: BaseException) -> Pending[Any]:
    """An operation that was refused."""
    pending: Pending[Any] = Pending()
    pending.fail(error)
    return pending


def started(work: Coroutine[Any, Any, R]) -> Pending[R]:
    """A reply that a task produces."""
    pending: Pending[R] = Pending()
    pending.run(work)
    return pending


# Commits


def when_committed(hall: Hall, shard: Shard, target: Committable, whom: int = ALL) -> None:
    """Call `target.committed(0)` when everything that was appended to the shard so far is committed, or kept by whom
    the caller is content with.

    What was appended last may belong to a topic that asked for no sync; now somebody does.
    """
    if shard.committed < shard.sequence:
        hall.journal.touch(shard, True)
        hall.commits.kick()
    shard.wait_for(whom, target, 0)


def when_acknowledged(hall: Hall, shard: Shard, target: Acknowledgeable, whom: int, in_sync_min: int = 0) -> None:
    """The same for a message that was sent: `target.refused()` if it is committed by too few, which is fewer than
    `in_sync_min`, or than the hall asks for if that is 0.
    """
    guarded = hall.leadership is not None and whom != ONE
    when_committed(hall, shard, Guard(hall, target, in_sync_min) if guarded else target, whom)


@final
class Guard(Committable):
    """Looks at the moment of the commit: what it was committed by is not known later."""

    def __init__(self, hall: Hall, target: Acknowledgeable, in_sync_min: int) -> None:
        self._hall = hall
        self._target = target
        self._in_sync_min = in_sync_min

    def committed(self, value: int) -> None:
        if self._hall.is_short_of(self._in_sync_min):
            self._target.refused()
        else:
            self._target.committed(value)


def too_few() -> LonghallError:
    """The error for a message that is committed by fewer replicas than it asks for."""
    return LonghallError(
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        "hosts were lost meanwhile, and it is kept by too few: try again",
    )
