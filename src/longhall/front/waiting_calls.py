"""Operations that wait for messages, of clients who may lose their permission meanwhile.

A receive waits up to 20 seconds, and what it gets then must not be for a user who was disabled, or has lost the
permission, in that time. Each operation that waits is asked for again when users or rules have changed; one that is not
permitted any more fails with the refusal and gives up its place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, final

from longhall.broker.pending import Pending
from longhall.cluster.rpc.operation import Caller, Operation
from longhall.errors import LonghallError

R = TypeVar("R")

Permit = Callable[[Operation[Any], Caller], object]


@final
class WaitingCalls:
    """The operations of one process that wait. `permit` raises for one that is not permitted any more."""

    def __init__(self, permit: Permit) -> None:
        self._permit = permit
        self._waiting: dict[Pending[Any], tuple[Operation[Any], Caller, Pending[Any]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, operation: Operation[R], caller: Caller, under_way: Pending[R]) -> Pending[R]:
        """The reply of an operation, or its refusal if it is not permitted any more before there is a reply."""
        if under_way.known or under_way.done:
            return under_way
        reply: Pending[R] = Pending()
        self._waiting[reply] = operation, caller, under_way
        reply.when_cancelled(partial(self._cancel, reply))
        under_way.when_done(partial(self._done, reply))
        return reply

    def check(self) -> None:
        """Refuse what is not permitted any more."""
        for reply, (operation, caller, under_way) in list(self._waiting.items()):
            try:
                self._permit(operation, caller)
            except LonghallError as error:
                del self._waiting[reply]
                reply.fail(error)  # First: what is cancelled would answer with that.
                under_way.cancel()

    def _cancel(self, reply: Pending[R]) -> None:
        found = self._waiting.pop(reply, None)
        if found is not None:
            found[2].cancel()

    def _done(self, reply: Pending[R], under_way: Pending[R]) -> None:
        self._waiting.pop(reply, None)
        if under_way.error is not None:
            reply.fail(under_way.error)
        else:
            reply.complete(under_way.reply)
