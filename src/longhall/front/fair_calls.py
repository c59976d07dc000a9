"""Fair shares of calls: the operations of SQS, AMQP, STOMP and HTTP clients of several tenants take turns.

A call counts while it is under way, with its bytes and with what its work is worth beside the commit of bytes. While
the calls and the Kafka producers of several tenants have more than a window under way, the next call of a tenant above
its share waits in its process until earlier ones are done (`front.fairness`). It is not refused: HTTP clients get their
answer later, and AMQP and STOMP connections are not read meanwhile. Calls of one tenant begin in the order in which
they came. A call that waits for messages does not count while it waits, and no call counts for longer than COUNTED_S:
it waits for something that hangs then, and must not cost its tenant the calls that need nothing of that.

Clients that have not logged in have no tenant, and their calls pass uncounted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

from longhall.broker.pending import Pending, ReplyWatcher
from longhall.cluster.rpc.operation import Caller, Operation
from longhall.front.fairness import Fairness, Lane
from longhall.service.exchange_operations import CommitTransaction, PublishMessages
from longhall.service.queue_operations import AddUploadPart, SendMessages

CALL_BYTES: Final = 256 * 1024  # What a call costs beside its messages: so many are under way when tenants take turns.
MESSAGE_BYTES: Final = 2 * 1024  # The work for a message takes as long as the commit of so many bytes.
COUNTED_S: Final = 0.5
LOOK_S: Final = 0.1  # While calls wait, those that are under way for too long are looked for so often.

CarryOut = Callable[[Operation[Any], Caller], Pending[Any]]


@final
class _UnderWay(ReplyWatcher):
    """A call that counts until it is done, or under way for too long."""

    __slots__ = ("_fairness", "_lane", "_size_bytes", "until_s")

    def __init__(self, fairness: Fairness, lane: Lane, size_bytes: int, until_s: float) -> None:
        self.until_s = until_s
        self._fairness = fairness
        self._lane = lane
        self._size_bytes = size_bytes

    def done(self, pending: Pending[Any]) -> None:
        self.release()

    def release(self) -> None:
        """Count it no more."""
        size_bytes, self._size_bytes = self._size_bytes, 0
        if size_bytes:
            self._fairness.release(self._lane, size_bytes)


@final
class _Turn:
    """A call that waits, with the reply that its caller has."""

    __slots__ = ("_caller", "_calls", "_carry_out", "_operation", "reply")

    def __init__(self, calls: FairCalls, operation: Operation[Any], caller: Caller, carry_out: CarryOut) -> None:
        self._calls = calls
        self._operation = operation
        self._caller = caller
        self._carry_out = carry_out
        self.reply: Pending[Any] = Pending()
        if not operation.waits:
            self.reply.keep()  # It was accepted, and is carried out even if the client goes away.

    def begin(self) -> None:
        """The tenant is within its share."""
        if self.reply.done:  # The client has gone away.
            return
        try:
            pending = self._calls.begin(self._operation, self._caller, self._carry_out)
        except Exception as error:  # Its door tells the client, or logs it.
            self.reply.fail(error)
            return
        self.reply.when_cancelled(pending.cancel)
        pending.when_done(self._finish)

    def _finish(self, pending: Pending[Any]) -> None:
        if pending.error is not None:
            self.reply.fail(pending.error)
        else:
            self.reply.complete(pending.reply)


@final
class FairCalls:
    """The calls of a process that are under way or wait for their turn."""

    def __init__(
        self,
        fairness: Fairness,
        now_s: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """`now_s` and `call_later` are those of the event loop."""
        self._fairness = fairness
        self._now_s = now_s
        self._call_later = call_later
        self._last = 0
        self._counted: deque[_UnderWay] = deque()  # The oldest first; those that are done leave when they are found.
        self._is_looking = False

    def pass_on(self, operation: Operation[Any], caller: Caller, carry_out: CarryOut) -> Pending[Any]:
        """Carry out a call now, or when its tenant is within its share."""
        if not self.is_behind(caller):
            return self.begin(operation, caller, carry_out)
        name = _lane_of(caller)
        lane = self._fairness.lane(name)
        assert lane is not None
        turn = _Turn(self, operation, caller, carry_out)
        self._last -= 1  # Negative: connections have their ids.
        self._fairness.wait(name, lane, self._last, turn.begin)
        if not self._is_looking:
            self._is_looking = True
            self._call_later(LOOK_S, self._look)
        return turn.reply

    def is_behind(self, caller: Caller) -> bool:
        """True if the next call of this tenant waits."""
        if not self._fairness.is_contended:
            return False
        lane = self._fairness.lane(_lane_of(caller))
        return lane is not None and (bool(lane.waiting) or self._fairness.is_over_share(lane))

    def begin(self, operation: Operation[Any], caller: Caller, carry_out: CarryOut) -> Pending[Any]:
        """Carry out a call, and count it until it is done."""
        pending = carry_out(operation, caller)
        if not pending.done and (pending.known or not operation.waits):
            size_bytes = _size_of(operation)
            now_s = self._now_s()
            lane = self._fairness.hold(_lane_of(caller), size_bytes, now_s, caller.tenant, True)
            counted = _UnderWay(self._fairness, lane, size_bytes, now_s + COUNTED_S)
            pending.count(counted)
            self._counted.append(counted)
            self._drop_old(now_s)
        return pending

    def _drop_old(self, now_s: float) -> None:
        counted = self._counted
        while counted and counted[0].until_s <= now_s:
            counted.popleft().release()

    def _look(self) -> None:
        """Release what hangs, while calls wait for it."""
        self._is_looking = False
        self._drop_old(self._now_s())
        if self._fairness.is_contended:
            self._is_looking = True
            self._call_later(LOOK_S, self._look)


def _lane_of(caller: Caller) -> str:
    return f"{caller.tenant}/"  # No topic has an empty name.


def _size_of(operation: Operation[Any]) -> int:
    """The bytes under way that a call stands for."""
    size_bytes = CALL_BYTES
    if isinstance(operation, PublishMessages | CommitTransaction):
        for publication in operation.publications:
            size_bytes += MESSAGE_BYTES + len(publication.message.body)
    elif isinstance(operation, SendMessages):
        for message in operation.messages:
            size_bytes += MESSAGE_BYTES + len(message.body)
    elif isinstance(operation, AddUploadPart):
        size_bytes += len(operation.part)
    return size_bytes
