"""What the door asks of the broker: one object, one method a verb.

The door never reaches past this. Times are milliseconds, queues are called by name, refusals are `LonghallError` with a
`Code`; where one call carries many (send, settle, change_lease) each has its own answer in the order of the questions.
"""

from __future__ import annotations

from typing import Protocol

from longhall.broker.waiting import Acknowledgeable
from longhall.errors import Code
from longhall.queues.messages import Accepted, Delivery, Depth, MoveTask, Outgoing, QueueView
from longhall.queues.settings import QueueSettings

# The verb `list` hides the type of that name inside the class.
Outgoings = list[Outgoing]
Accepteds = list[Accepted]
Deliveries = list[Delivery]
Receipts = list[str]
Changes = list[tuple[str, int]]
Answers = list[Code | None]
Names = list[str]
Views = list[QueueView]
Tasks = list[MoveTask]


class Queues(Protocol):
    """The verbs. Those without `async` answer from memory."""

    async def create(self, name: str, settings: QueueSettings) -> QueueView:
        """Make the queue. QUEUE_EXISTS when the name is taken."""

    async def delete(self, name: str) -> None: ...

    def view(self, name: str) -> QueueView | None: ...

    async def certain(self) -> None:
        """Returns when every queue that is there now is there for good."""

    def list(self, prefix: str) -> Views: ...

    async def configure(self, name: str, settings: QueueSettings) -> None: ...

    async def send(self, name: str, messages: Outgoings) -> Accepteds: ...

    async def receive(
        self,
        name: str,
        count_max: int,
        wait_ms: int,
        lease_ms: int,
        attempt_id: str,
        filter: str = "",
        consumer: str = "",
        in_parts: bool = True,
    ) -> Deliveries:
        """The consumer is whoever asks, for queues that keep account of it. `in_parts`: can it read large ones so?"""

    def send_nowait(self, name: str, messages: Outgoings) -> Accepteds | None:
        """As `send`, but to be told after `release`; None if it has to wait. So are the next two."""

    def receive_nowait(
        self, name: str, count_max: int, wait_ms: int, lease_ms: int, consumer: str = ""
    ) -> Deliveries | None: ...

    def settle_nowait(self, name: str, receipts: Receipts, consumer: str = "") -> Answers | None: ...

    def release(self, name: str, target: Acknowledgeable, sends: bool = False) -> None:
        """Tell `target` when all that was done to this queue so far is committed; of a send, acknowledged."""

    async def settle(self, name: str, receipts: Receipts, consumer: str = "") -> Answers: ...

    async def answer(self, name: str, receipt: str, message: Outgoing, consumer: str = "") -> Accepted:
        """Send to the reply queue that the message of this receipt names, and settle it, in one step."""

    async def change_lease(self, name: str, changes: Changes, consumer: str = "") -> Answers:
        """Each change is a receipt and how long from now the lease shall hold; 0 gives the message back."""

    async def purge(self, name: str) -> None: ...

    async def weigh(self, name: str) -> Depth: ...

    def sources(self, name: str) -> Names:
        """Queues whose dead letters go here."""

    async def start_move(self, source: str, target: str, rate_max: int) -> MoveTask:
        """An empty target sends each message back to where it came from; a rate of 0 is as fast as it goes."""

    async def cancel_move(self, task_id: str) -> MoveTask: ...

    async def list_moves(self, source: str) -> Tasks:
        """The newest first."""
