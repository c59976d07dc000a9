"""What the API asks of the broker: one object, one method a verb.

The API never reaches past this. Times are milliseconds, queues are called by name, refusals are `LonghallError` with a
`Code`; where one call carries many (send, settle, change_lease) each has its own answer in the order of the questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from longhall.errors import Code
from longhall.queues.messages import (
    Accepted,
    Attribute,
    Counts,
    Delivery,
    Depth,
    Letter,
    LetterPage,
    MoveTask,
    Outgoing,
    Page,
    QueueView,
)
from longhall.queues.settings import QueueSettings

Outgoings = list[Outgoing]
Accepteds = list[Accepted]
Deliveries = list[Delivery]
AnyDeliveries = list[tuple[str, Delivery]]
Receipts = list[str]
Changes = list[tuple[str, int]]
Answers = list[Code | None]
Names = list[str]
Tasks = list[MoveTask]
Destination = str | int | Mapping[int, int]


class Queues(Protocol):
    """The verbs. Those without `async` answer from memory."""

    async def create(self, name: str, settings: QueueSettings) -> QueueView: ...

    async def declare(self, name: str, topic: str, settings: QueueSettings) -> QueueView:
        """Let a topic be consumed as a queue under this name."""

    async def delete(self, name: str) -> None: ...

    def view(self, name: str) -> QueueView | None: ...

    def names(self, prefix: str) -> Names:
        """What the queues are called whose names begin so, in order."""

    async def configure(self, name: str, settings: QueueSettings) -> None: ...

    async def switch(self, name: str, paused: bool) -> None: ...

    async def purge(self, name: str) -> None: ...

    async def weigh(self, name: str) -> Depth: ...

    async def tally(self, name: str) -> Counts: ...

    def sources(self, name: str) -> Names:
        """Queues whose dead letters go here."""

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
    ) -> Deliveries:
        """`consumer` is who asks, for the audit; so it is below."""

    async def receive_any(
        self, weights: Mapping[str, int], count_max: int, wait_ms: int, lease_ms: int, filter: str = ""
    ) -> AnyDeliveries:
        """Messages of several queues, each with its queue's name; service follows the weights."""

    async def settle(self, name: str, receipts: Receipts, consumer: str = "") -> Answers: ...

    async def answer(self, name: str, receipt: str, message: Outgoing, consumer: str = "") -> Accepted:
        """Send an answer to the reply queue that the message of this receipt names, and settle it, in one step."""

    async def change_lease(self, name: str, changes: Changes, consumer: str = "") -> Answers:
        """Each change is a receipt and how long from now the lease shall hold; 0 gives the message back."""

    async def begin(self, name: str) -> str:
        """Open an upload for a message that comes in parts; its id."""

    async def add(self, name: str, upload_id: str, number: int, part: bytes) -> None: ...

    async def finish(self, name: str, upload_id: str, parts: int, message: Outgoing) -> Accepted: ...

    async def abort(self, name: str, upload_id: str) -> None: ...

    async def read_part(self, name: str, receipt: str, number: int) -> bytes: ...

    async def rewind(self, name: str, to: Destination) -> None:
        """Give out again from "start", from a time in milliseconds, or from an offset for each lane."""

    async def fork(
        self, name: str, new_name: str, start: Destination = "start", settings: QueueSettings | None = None
    ) -> QueueView: ...

    async def peek(self, name: str, count_max: int, from_offset: int | str = "", settled: bool = False) -> Page: ...

    async def leased(self, name: str, count_max: int, from_offset: int | str = "") -> Page:
        """The same of those that somebody has now."""

    async def search(
        self,
        name: str,
        filter: str = "",
        text: str = "",
        from_ms: int = 0,
        until_ms: int = 0,
        count_max: int = 100,
        from_offset: int | str = "",
        settled: bool = False,
    ) -> Page: ...

    async def letters(self, name: str, count_max: int = 100, from_: str = "") -> LetterPage: ...

    async def letter(self, name: str, message_id: str) -> Letter: ...

    async def edit_letter(
        self,
        name: str,
        message_id: str,
        body: bytes | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Letter: ...

    async def start_move(
        self, source: str, target: str, rate_max: int, ids: Names | None = None, filter: str = ""
    ) -> MoveTask:
        """An empty target sends each message back to where it came from; a rate of 0 is as fast as it goes."""

    async def cancel_move(self, task_id: str) -> MoveTask: ...

    async def list_moves(self, source: str) -> Tasks:
        """The newest first."""
