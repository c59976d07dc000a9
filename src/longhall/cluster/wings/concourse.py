"""The concourse: all verbs of queues as doors ask for them, wherever the queues are.

What the hall keeps itself goes to its own desk. What is placed in wings is asked of their leaders, and what they answer
is put together, so that a queue in several logs looks like one:

    send        any-host: the nearest wing that somebody leads; parts: the wing of the group, or each in turn
    receive     the nearest first, then the others; who waits, waits for all of them at once
    receipts    have the number of their wing before them, and go back there
    counts      are added up

What more than one wing has given to a receiver that wanted less is given back at once. The order inside a group is that
of its wing; across wings there is none.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, final

import msgspec

from longhall.broker.configuration import IN_THE_HALL
from longhall.broker.gates import check_placement
from longhall.broker.hall import Hall
from longhall.broker.queues.desk import Desk
from longhall.cluster.placement.placement_rules import ANY_HOST, SHARE, check_letters, check_queue, lane_of
from longhall.cluster.wings import calls
from longhall.cluster.wings.asking import BETWEEN, sort_out
from longhall.cluster.wings.browsing import Browsing
from longhall.cluster.wings.reach import Reach
from longhall.cluster.wings.receiving import Receiving
from longhall.cluster.wings.sums import all_counts, all_depths
from longhall.errors import Code, LonghallError
from longhall.queues.messages import (
    Accepted,
    Counts,
    Delivery,
    Depth,
    Outgoing,
    QueueView,
)
from longhall.queues.settings import QueueSettings

# The verb `list` hides the type of that name inside the class.
Views = list[QueueView]
Names = list[str]
Outgoings = list[Outgoing]
Accepteds = list[Accepted]
Deliveries = list[Delivery]
AnyDeliveries = list[tuple[str, Delivery]]
Codes = list[Code | None]
Changes = list[tuple[str, int]]


@final
class Concourse(Browsing):
    """See the module."""

    def __init__(self, hall: Hall, desk: Desk, reach: Reach) -> None:
        super().__init__(hall, desk, reach)
        self._receiving = Receiving(reach, hall.world.entropy)
        self._turn = 0
        # What needs no look at wings.
        self.view = desk.view
        self.certain = desk.certain
        self.list = desk.list
        self.names = desk.names
        self.sources = desk.sources
        self.release = desk.release

    def is_placed(self, name: str) -> bool:
        """Whether wings have it."""
        return bool(self._wings(name))

    # The queue as a thing

    async def create(self, name: str, settings: QueueSettings) -> QueueView:
        """Make a queue; QUEUE_EXISTS when the name is taken. Placed in wings, it is there when this returns."""
        if settings.placement == IN_THE_HALL:
            self._check_letters(name, settings)
            return await self._desk.create(name, settings)
        check_placement(self._hall, settings.placement)
        check_queue(settings)
        if self._desk.view(name) is not None:
            raise LonghallError(Code.QUEUE_EXISTS, f"The name '{name}' is taken.")
        wings = self._wings_of_letters(settings) or await self._reach.choose(settings.placement, name)
        partitions = max(settings.partitions, len(wings))
        settings = msgspec.structs.replace(settings, wings=tuple(wings), partitions=partitions)
        self._check_letters(name, settings)
        view = await self._desk.create(name, settings)
        await self._reach.furnish(name)
        return view

    async def declare(self, name: str, topic: str, settings: QueueSettings) -> QueueView:
        """Let a topic be consumed as a queue under this name."""
        if self._reach.is_placed(topic):
            raise LonghallError(
                Code.INVALID_CONFIGURATION, f"'{topic}' is kept in wings: it cannot have queues of its own."
            )
        return await self._desk.declare(name, topic, settings)

    async def delete(self, name: str) -> None:
        """The queue and everything in it; what its dead letters want goes there first."""
        wings = self._wings(name)
        queue = self._hall.running_queue(name)
        await self._desk.delete(name)
        if wings and queue is not None:
            await self._reach.clear(name, queue.entry.topic_id, list(wings))

    async def configure(self, name: str, settings: QueueSettings) -> None:
        """Other settings from now on; where it is placed stays."""
        queue = self._hall.running_queue(name)
        if queue is not None and settings.placement != queue.settings.placement:
            raise LonghallError(Code.INVALID_CONFIGURATION, "Where a queue is placed is decided when it is made.")
        if queue is not None and queue.settings.wings:
            before = queue.settings
            settings = msgspec.structs.replace(settings, wings=before.wings, partitions=before.partitions)
            check_queue(settings)
        self._check_letters(name, settings)
        await self._desk.configure(name, settings)
        if settings.wings:
            await self._reach.furnish(name)

    def _wings_of_letters(self, settings: QueueSettings) -> list[int]:
        """A share goes where its dead letters are, if those are one too."""
        letters = self._desk.view(settings.dead_letters.queue) if settings.dead_letters is not None else None
        shares = letters is not None and settings.placement == letters.settings.placement == SHARE
        return list(letters.settings.wings) if letters is not None and shares else []

    def _check_letters(self, name: str, settings: QueueSettings) -> None:
        if settings.dead_letters is not None:
            letters = self._desk.view(settings.dead_letters.queue)
            check_letters(name, settings, letters.settings if letters is not None else None)

    async def switch(self, name: str, paused: bool) -> None:
        """Pause a queue, or resume it; sending goes on meanwhile."""
        await self._desk.switch(name, paused)
        await self._everywhere(name, calls.SWITCH, paused)

    async def purge(self, name: str) -> None:
        """Everything that is in the queue now is gone."""
        await self._desk.purge(name)
        await self._everywhere(name, calls.PURGE)

    async def weigh(self, name: str) -> Depth:
        """How full it is."""
        if not self._wings(name):
            return self._desk.depth(name)
        return all_depths(await self._everywhere(name, calls.DEPTH))

    async def tally(self, name: str) -> Counts:
        """What it has counted."""
        if not self._wings(name):
            return self._desk.counts(name)
        return all_counts(await self._everywhere(name, calls.COUNTS))

    # Messages

    def send_nowait(self, name: str, messages: Outgoings) -> Accepteds | None:
        """The same as `send`, to be told after `release`; None if it has to wait."""
        return None if self._wings(name) else self._desk.send_nowait(name, messages)

    def receive_nowait(
        self, name: str, count_max: int, wait_ms: int, lease_ms: int, consumer: str = ""
    ) -> Deliveries | None:
        """Messages that are at hand, to be shown after `release`; None if it has to wait."""
        if self._wings(name):
            return None
        return self._desk.receive_nowait(name, count_max, wait_ms, lease_ms, consumer)

    def settle_nowait(self, name: str, receipts: Names, consumer: str = "") -> Codes | None:
        """Messages are done with; to be told after `release`. None if it has to wait."""
        return None if self._wings(name) else self._desk.settle_nowait(name, receipts, consumer)

    async def send(self, name: str, messages: Outgoings) -> Accepteds:
        """Take messages, each by itself."""
        wings = self._wings(name)
        if not wings:
            return await self._desk.send(name, messages)
        queue = self._hall.running_queue(name)
        assert queue is not None
        settings = queue.settings
        if settings.placement == ANY_HOST:
            return await self._send_near(name, wings, messages)
        if len(wings) == 1:
            return await self._ask(name, wings[0], calls.SEND, name, messages)
        targets: list[int] = []
        for message in messages:
            self._turn += 1
            targets.append(wings[lane_of(settings, message, self._turn)])
        return await sort_out(
            targets,
            messages,
            lambda number, some: _refusing(self._ask(name, number, calls.SEND, name, some), some),
        )

    async def _send_near(self, name: str, wings: tuple[int, ...], messages: Outgoings) -> Accepteds:
        """By the nearest that takes it. Only what was certainly not taken goes on to the next."""
        near = self._reach.nearest(wings)
        for number in near:
            try:
                return await self._ask(name, number, calls.SEND, name, messages, now=True)
            except LonghallError as error:
                if error.code is not Code.NOT_LEADER:
                    raise
        return await self._ask(name, near[0], calls.SEND, name, messages)

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
        """Give out messages; see `Desk.receive`."""
        wings = self._wings(name)
        if not wings:
            return await self._desk.receive(name, count_max, wait_ms, lease_ms, attempt_id, filter, consumer, in_parts)
        queue = self._hall.running_queue(name)
        assert queue is not None
        wish = calls.Wish(
            name=name,
            count_max=count_max,
            wait_ms=wait_ms if wait_ms >= 0 else queue.settings.wait_ms,
            lease_ms=lease_ms,
            attempt_id=attempt_id,
            filter=filter,
            consumer=consumer,
            in_parts=in_parts,
            life=queue.entry.topic_id,
        )
        try:
            number, deliveries = await self._receiving.receive(wings, wish)
        except LonghallError as error:
            await self._put_there(name, error)
            number, deliveries = await self._receiving.receive(wings, wish)
        for delivery in deliveries:
            if delivery.receipt:
                delivery.receipt = f"{number}{BETWEEN}{delivery.receipt}"
        return deliveries

    async def receive_any(
        self, weights: Mapping[str, int], count_max: int, wait_ms: int, lease_ms: int, filter: str = ""
    ) -> AnyDeliveries:
        """Messages of several queues, each with its queue's name; service follows the weights."""
        for name in weights:
            self._only_here(name, "be received from together with others")
        return await self._desk.receive_any(weights, count_max, wait_ms, lease_ms, filter)

    async def settle(self, name: str, receipts: Names, consumer: str = "") -> Codes:
        """Messages are done with."""
        if not self._wings(name):
            return await self._desk.settle(name, receipts, consumer)

        async def settle(number: int, some: Changes) -> Codes:
            return await self._ask(name, number, calls.SETTLE, name, [receipt for receipt, _ in some], consumer)

        return await self._by_receipt(name, [(receipt, 0) for receipt in receipts], settle)

    async def change_lease(self, name: str, changes: Changes, consumer: str = "") -> Codes:
        """Leases end at another time; 0 gives back."""
        if not self._wings(name):
            return await self._desk.change_lease(name, changes, consumer)

        async def change(number: int, some: Changes) -> Codes:
            return await self._ask(name, number, calls.CHANGE_LEASE, name, some, consumer)

        return await self._by_receipt(name, changes, change)

    async def answer(self, name: str, receipt: str, message: Outgoing, consumer: str = "") -> Accepted:
        """Send an answer to the reply queue that the message of this receipt names, and settle it, in one step."""
        if not self._wings(name):
            return await self._desk.answer(name, receipt, message, consumer)
        number, rest = self._wing_of(name, receipt, Code.INVALID_RECEIPT)
        return await self._ask(name, number, calls.ANSWER, name, rest, message, consumer)

    # Messages in parts

    async def begin(self, name: str) -> str:
        """Open an upload for a message that comes in parts; its id."""
        wings = self._wings(name)
        if not wings:
            return await self._desk.begin(name)
        number = self._reach.nearest(wings)[0]
        upload_id = await self._ask(name, number, calls.BEGIN, name)
        return f"{number}{BETWEEN}{upload_id}"

    async def add(self, name: str, upload_id: str, number: int, part: bytes) -> None:
        """Keep a part, durably."""
        if not self._wings(name):
            await self._desk.add(name, upload_id, number, part)
            return
        wing, rest = self._wing_of(name, upload_id, Code.INVALID_REQUEST)
        await self._ask(name, wing, calls.ADD, name, rest, number, part)

    async def finish(self, name: str, upload_id: str, parts: int, message: Outgoing) -> Accepted:
        """All parts are here: they are a message now, with everything but the body as `message` says."""
        if not self._wings(name):
            return await self._desk.finish(name, upload_id, parts, message)
        wing, rest = self._wing_of(name, upload_id, Code.INVALID_REQUEST)
        return await self._ask(name, wing, calls.FINISH, name, rest, parts, message)

    async def abort(self, name: str, upload_id: str) -> None:
        """Give up an upload."""
        if not self._wings(name):
            await self._desk.abort(name, upload_id)
            return
        wing, rest = self._wing_of(name, upload_id, Code.INVALID_REQUEST)
        await self._ask(name, wing, calls.ABORT, name, rest)

    async def read_part(self, name: str, receipt: str, number: int) -> bytes:
        """A part of a message that was given out with `parts`, for whoever holds its receipt."""
        if not self._wings(name):
            return await self._desk.read_part(name, receipt, number)
        wing, rest = self._wing_of(name, receipt, Code.INVALID_RECEIPT)
        return await self._ask(name, wing, calls.READ_PART, name, rest, number)


async def _refusing(work: Coroutine[Any, Any, Accepteds], messages: Outgoings) -> Accepteds:
    """What one wing refuses is no reason to hide what others have taken."""
    try:
        return await work
    except LonghallError as error:
        return [Accepted(code=error.code, message=str(error)) for _ in messages]
