"""Calls to the leader of one replication group, whichever process that is at the moment.

    no leader is known           the call waits for one, LEADERLESS_S_MAX at most; `now` calls are refused instead
    the leader is not reached    nothing was sent: the call waits for the next leader
    the answer is NOT_LEADER     nothing was done there: the call waits for the next leader
    the connection breaks        NOT_READY: the leader may have done what was asked
    another node leads meanwhile NOT_READY: the old leader may be suspended, and may have done what was asked
    no answer in time            TIMED_OUT

So an operation that may have been done is never sent twice. After a failed connection the leader is not tried for a
moment (the circuit breaker). Calls and their bytes are bounded; a call needs no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, final

from longhall.broker.leadership import NOBODY, Leadership
from longhall.broker.pending import Pending
from longhall.cluster.rpc.operation import NOBODY_IN_PARTICULAR, Caller, Operation, decode_reply, encode_call
from longhall.cluster.rpc.peers import Peers
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

CALL: Final = "call"
CALLS_MAX: Final = 512  # Calls of this process to one group in progress.
CALLS_BYTES_MAX: Final = 64 * 1024 * 1024
ANSWER_S_MAX: Final = 35.0
WAITED_ANSWER_S_MAX: Final = 75.0  # For an operation that waits: the longest wait of a receiver, and a margin.
LEADERLESS_S_MAX: Final = 8.0
LOOK_S: Final = 0.02  # The interval at which a waiting call checks for a leader.
BREAK_S: Final = 0.25  # How long the circuit breaker stays open.
CHANGED_S: Final = 0.25  # The interval of the check for late calls and replaced leaders.

Local = Callable[[Operation[Any], Caller], Pending[Any]]
OnLate = Callable[[Any], None]


@final
class _Call:
    """One call in progress; the target of its answer."""

    def __init__(
        self, client: LeaderClient, operation: Operation[Any], caller: Caller, body: bytes, now: bool, began_s: float
    ) -> None:
        self.operation = operation
        self.caller = caller
        self.body = body
        self.now = now
        self.leader = NOBODY
        self.leaderless_until_s = began_s + LEADERLESS_S_MAX
        self.late_s = began_s + (WAITED_ANSWER_S_MAX if operation.waits else ANSWER_S_MAX)
        self.sent_s = began_s
        self.pending: Pending[Any] = Pending()
        self.on_late: OnLate | None = None
        self.cancel: Callable[[], None] | None = None  # Tells the leader that the answer is not needed.
        self._client = client

    def answered(self, code: Code | None, body: bytes) -> None:
        self._client.answered(self, code, body)

    def lost(self, error: Exception, *, sent: bool) -> None:
        self._client.lost(self, error, sent)


@final
class LeaderClient:
    """Calls of this process to the leader of one group. Where this process leads itself, `local` carries them out."""

    def __init__(
        self,
        leadership: Leadership,
        peers: Peers,
        local: Local,
        *,
        calls_max: int = CALLS_MAX,
        label: str = "the hall",
    ) -> None:
        self._leadership = leadership
        self._peers = peers
        self._local = local
        self._calls_max = calls_max
        self._label = label
        self._loop = asyncio.get_running_loop()
        self._calls: dict[_Call, None] = {}
        self._bytes = 0
        self._leaderless: list[_Call] = []
        self._looking: asyncio.TimerHandle | None = None
        self._checking: asyncio.TimerHandle | None = None
        self._broken: tuple[int, float] = (NOBODY, 0.0)  # The leader of the circuit breaker, and until when it is open.

    def call(
        self,
        operation: Operation[Any],
        caller: Caller = NOBODY_IN_PARTICULAR,
        *,
        now: bool = False,
        incarnation: bytes = b"",
        on_late: OnLate | None = None,
    ) -> Pending[Any]:
        """Have the leader carry out an operation. With `now` it is refused with NOT_LEADER, and certainly not done, if
        no leader can be asked at once. `on_late` gets a reply that arrives after the caller has gone away.
        """
        body = encode_call(operation, caller, incarnation)
        if len(self._calls) >= self._calls_max or self._bytes + len(body) > CALLS_BYTES_MAX:
            raise LonghallError(Code.OVERLOADED, "too much is on its way to the leader; try again in a moment")
        call = _Call(self, operation, caller, body, now, self._loop.time())
        call.on_late = on_late
        self._calls[call] = None
        self._bytes += len(body)
        call.pending.when_cancelled(lambda: self._cancelled(call))
        self._try(call)
        if self._checking is None and self._calls:
            self._checking = self._loop.call_later(CHANGED_S, self._check)
        return call.pending

    def close(self) -> None:
        """End every call."""
        for timer in (self._looking, self._checking):
            if timer is not None:
                timer.cancel()
        for call in list(self._calls):
            self._fail(call, LonghallError(Code.NOT_READY, "this node stops"))

    # Requests

    def _try(self, call: _Call) -> None:
        leader = self._leadership.leader_node(CATALOGUE_SHARD)
        if not self._is_ready(leader):
            self._wait(call)
            return
        call.leader = leader
        if leader == self._leadership.node:
            self._carry_out(call)
            return
        try:
            call.sent_s = self._loop.time()
            call.cancel = self._peers.send(leader, CALL, call.body, call)
        except LonghallError as error:
            self._fail(call, error)

    def _carry_out(self, call: _Call) -> None:
        """Carry out the call in this process, which leads by now."""
        try:
            pending = self._local(call.operation, call.caller)
        except LonghallError as error:
            self._fail(call, error)
            return
        call.cancel = pending.cancel
        pending.when_done(lambda done: self._carried_out(call, done))

    def _carried_out(self, call: _Call, done: Pending[Any]) -> None:
        if done.error is not None:
            self._fail(call, done.error)
        else:
            self._complete(call, done.result())

    def _is_ready(self, leader: int) -> bool:
        """True if this node is the known leader, and the circuit breaker is not open for it."""
        if leader == NOBODY:
            return False
        if leader == self._leadership.node:
            return self._leadership.leads(CATALOGUE_SHARD)
        broken, until_s = self._broken
        return leader in self._peers.addresses and not (leader == broken and self._loop.time() < until_s)

    def _wait(self, call: _Call) -> None:
        call.leader = NOBODY
        call.cancel = None
        if call.now:
            self._fail(call, LonghallError(Code.NOT_LEADER, f"no leader of {self._label} can be asked now"))
        elif self._loop.time() > call.leaderless_until_s:
            self._fail(call, LonghallError(Code.NOT_READY, f"no node leads {self._label} at the moment; try again"))
        else:
            self._leaderless.append(call)
            if self._looking is None:
                self._looking = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._looking = None
        waiting, self._leaderless = self._leaderless, []
        for call in waiting:
            if not call.pending.done:
                self._try(call)

    def _check(self) -> None:
        """Fail calls that are late, and those whose leader was replaced."""
        self._checking = self._loop.call_later(CHANGED_S, self._check) if self._calls else None
        leader = self._leadership.leader_node(CATALOGUE_SHARD)
        now_s = self._loop.time()
        for call in list(self._calls):
            if call.leader in (NOBODY, self._leadership.node):
                continue
            if call.leader != leader:
                self._give_up(call, _lost())
            elif now_s > call.late_s:
                said = "the leader did not answer; it may have done what was asked"
                self._give_up(call, LonghallError(Code.TIMED_OUT, said))

    # Answers

    def answered(self, call: _Call, code: Code | None, body: bytes) -> None:
        """The leader answered."""
        call.cancel = None
        if code is None:
            try:
                reply = decode_reply(call.operation, body)
            except LonghallError as error:
                self._fail(call, error)
                return
            if call.pending.done and call.on_late is not None:
                call.on_late(reply)
            self._complete(call, reply)
        elif call.pending.done:
            return
        elif code is Code.NOT_LEADER:
            self._break(call.leader)
            self._wait(call)
        else:
            self._fail(call, LonghallError(code, body.decode(errors="replace")))

    def lost(self, call: _Call, error: Exception, sent: bool) -> None:
        """The connection to the leader broke, or could not be made."""
        call.cancel = None
        self._break(call.leader)
        if call.pending.done:
            return
        if sent:
            self._fail(call, _lost())
        else:
            self._wait(call)

    def _break(self, leader: int) -> None:
        self._broken = (leader, self._loop.time() + BREAK_S)

    def _cancelled(self, call: _Call) -> None:
        self._forget(call)
        if call.cancel is not None:
            call.cancel()

    def _give_up(self, call: _Call, error: LonghallError) -> None:
        cancel = call.cancel
        self._fail(call, error)
        if cancel is not None:
            cancel()
        self._peers.note_silence(call.leader, call.sent_s)

    def _complete(self, call: _Call, reply: Any) -> None:
        self._forget(call)
        call.pending.complete(reply)

    def _fail(self, call: _Call, error: BaseException) -> None:
        self._forget(call)
        call.pending.fail(error)

    def _forget(self, call: _Call) -> None:
        if self._calls.pop(call, call) is None:
            self._bytes -= len(call.body)


def _lost() -> LonghallError:
    return LonghallError(Code.NOT_READY, "the leader was lost; it may have done what was asked")
