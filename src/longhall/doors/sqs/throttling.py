"""Rate limits at the SQS door: a client over a limit gets RequestThrottled, with the time to wait.

    action                                                   counts as
    SendMessage, SendMessageBatch                            send, with the size of the request
    ReceiveMessage                                           receive, with the sizes of the bodies in the response
    DeleteMessage, ChangeMessageVisibility, and batches      settle
    all others                                               manage

A request that is accepted is charged and may put its client in debt; the next one is refused until the debt is paid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, final

from longhall.cluster.rpc.operation import Caller
from longhall.directory.rate_limits import MANAGE, RECEIVE, SEND, SETTLE
from longhall.doors.sqs.door import Later
from longhall.doors.sqs.wire.faults import THROTTLED, SqsError
from longhall.doors.sqs.wire.results import Result
from longhall.front.rate_limits import RateLimited, RateLimits
from longhall.queues.messages import Delivery

DOOR: Final = "sqs"
CLASSES: Final = {
    "SendMessage": SEND,
    "SendMessageBatch": SEND,
    "ReceiveMessage": RECEIVE,
    "DeleteMessage": SETTLE,
    "DeleteMessageBatch": SETTLE,
    "ChangeMessageVisibility": SETTLE,
    "ChangeMessageVisibilityBatch": SETTLE,
}


@final
class SqsThrottling:
    """The rate limits of one process, as its SQS door enforces them."""

    def __init__(self, rates: RateLimits) -> None:
        self.rates = rates

    def admit(self, action: str, queue: str, request: Any, size_bytes: int, caller: Caller) -> None:
        """Charge a request. Raises SqsError if its client has to wait."""
        operation = CLASSES.get(action, MANAGE)
        try:
            self.rates.admit(DOOR, caller, operation, queue)
        except RateLimited as refused:
            raise SqsError(THROTTLED, str(refused), refused.wait_ms) from None
        if operation == RECEIVE:
            self.rates.charge(caller, operation, queue)  # The messages are charged with the response.
            return
        messages = len(getattr(request, "entries", ())) or 1
        self.rates.charge(
            caller, operation, queue, size_bytes=size_bytes, messages=messages if operation != MANAGE else 0
        )

    def count_received(self, later: Later, queue: str, caller: Caller) -> Later:
        """Charge the messages of a receive when they are there."""
        return Later(later.pending, partial(self._received, later.finish, queue, caller))

    def _received(
        self,
        finish: Callable[[Any], Result],
        queue: str,
        caller: Caller,
        deliveries: Sequence[Delivery | tuple[str, Delivery]],
    ) -> Result:
        # A receive from several queues names the queue of each message.
        size_bytes = sum(len((one[1] if isinstance(one, tuple) else one).body) for one in deliveries)
        self.rates.charge(caller, RECEIVE, queue, size_bytes=size_bytes, messages=len(deliveries), requests=0)
        return finish(deliveries)
