"""Operations carried out by the broker in this process, by the type of the operation.

It is used where this process leads the replication group that is asked, and knows nothing of other groups. The three
operations that every message needs are called directly; `queue_actions` has the table of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar, final

from longhall.broker.pending import Pending, completed, started
from longhall.broker.usage.usage_meter import ACCOUNT, Account
from longhall.cluster.rpc.operation import Caller, Operation
from longhall.directory.accounts import DEFAULT_TENANT
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Accepted, Delivery, Outgoing
from longhall.service import queue_operations as ops
from longhall.service.queue_actions import QUEUE_ACTIONS

O = TypeVar("O", bound=Operation[Any])  # noqa: E741


_SEND: Final = 1
_RECEIVE: Final = 2
_SETTLE: Final = 3
_ON_MESSAGES: Final[dict[type[Operation[Any]], int]] = {
    ops.SendMessages: _SEND,
    ops.ReceiveMessages: _RECEIVE,
    ops.SettleMessages: _SETTLE,
}


class MessageQueues(Protocol):
    """The queue service as far as every message needs it: every argument is given, by its position."""

    def send(self, name: str, messages: list[Outgoing], /) -> Pending[list[Accepted]]: ...

    def receive(
        self, name: str, count: int, wait_ms: int, lease_ms: int, attempt: str, filter: str, by: str, in_parts: bool, /
    ) -> Pending[list[Delivery]]: ...

    def settle(self, name: str, receipts: list[str], by: str, accepts: str, /) -> Pending[list[Code | None]]: ...


@final
class LocalBroker:
    """The broker of this process, by operation."""

    def __init__(self, queues: MessageQueues) -> None:
        self._queues = queues
        self._send = queues.send
        self._receive = queues.receive
        self._settle = queues.settle
        self.is_metered = False  # True if usage is counted: operations say whom they are for.
        self._others: dict[type[Operation[Any]], Callable[[Any, Caller], Any]] = {}

    def also(self, kind: type[O], action: Callable[[O, Caller], Any]) -> None:
        """Carry out operations of this type too; before those of the table, if it has the type."""
        self._others[kind] = action

    def carry_out(self, operation: Operation[Any], caller: Caller) -> Pending[Any]:
        """Start an operation. LonghallError if it is refused at once."""
        if not self.is_metered:
            return self._carry_out(operation, caller)
        account = ACCOUNT.set(account_of(caller))
        try:
            return self._carry_out(operation, caller)
        finally:
            ACCOUNT.reset(account)

    def _carry_out(self, operation: Operation[Any], caller: Caller) -> Pending[Any]:
        kind = type(operation)
        other = self._others.get(kind)
        if other is None:
            pending = self._on_messages(kind, operation, caller)
            if pending is not None:
                return pending
            action = QUEUE_ACTIONS.get(kind)
            if action is None:
                raise LonghallError(Code.INVALID_REQUEST, f"{kind.__name__} is not carried out by this process")
            outcome = action(self._queues, operation, caller)
        else:
            outcome = other(operation, caller)
        return outcome if isinstance(outcome, Pending) else _pending(outcome, operation.waits)

    def _on_messages(self, kind: type[Operation[Any]], op: Any, caller: Caller) -> Pending[Any] | None:
        """Start an operation that every message needs; None if it is another one."""
        number = _ON_MESSAGES.get(kind)
        if number == _SEND:
            return self._send(op.queue, op.messages)
        if number == _RECEIVE:
            return self._receive(
                op.queue, op.count_max, op.wait_ms, op.lease_ms, op.attempt_id, op.filter, caller.identity, op.in_parts
            )
        if number == _SETTLE:
            return self._settle(op.queue, op.receipts, caller.identity, op.accepts)
        return None


def account_of(caller: Caller) -> Account | None:
    """Whom an operation is counted for; None for calls of Longhall itself."""
    if not caller.door:
        return None
    # The name of an anonymous client is one that nobody has checked.
    return (caller.tenant or DEFAULT_TENANT, caller.identity if caller.kind else "", caller.door)


def _pending(outcome: Any, waits: bool) -> Pending[Any]:
    """The reply of an operation that returned a value, or a coroutine that returns one."""
    # By its methods: `inspect.iscoroutine` does not know the coroutines of compiled rooms.
    pending: Pending[Any] = started(outcome) if isinstance(outcome, Coroutine) else completed(outcome)
    if not waits:
        pending.keep()
    return pending
