"""Operations on queues that other replication groups store: which group is asked, and how replies are merged.

A queue in several groups looks like one:

    send        any-host: the nearest group that has a leader; parts: the group of the FIFO group, or each in turn
    receive     the nearest first, then the others; a receiver that waits, waits for all of them at once
    receipts    begin with the number of their group, and go back there
    consumers   are added in all groups: see `placed_session`
    reads       see `placed_reads`

The order inside a FIFO group is that of its replication group; across groups there is none. A group that does not have
the queue yet gets it from the hall's leader before it is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar, final

import msgspec

from longhall.broker.configuration import ANY_HOST
from longhall.broker.pending import Pending
from longhall.cluster.placement.merged_replies import one_move, parts_of_move
from longhall.cluster.placement.placement_rules import lane_of, lane_of_moved
from longhall.cluster.rpc.leader_client import OnLate
from longhall.cluster.rpc.operation import Caller, Operation
from longhall.cluster.rpc.stream import IncomingStream
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Accepted, Delivery, MoveTask, Outgoing
from longhall.queues.outbox_events import OutboxEntry
from longhall.queues.receipts import BETWEEN, bare, split_group
from longhall.service import exchange_operations as exchange_ops
from longhall.service import queue_operations as ops
from longhall.service.placed_consumers import PlacedConsumers
from longhall.service.placed_queue import PlacedQueue, ask_all
from longhall.service.placed_reads import PlacedReads
from longhall.service.placed_receive import PlacedReceive
from longhall.service.sessions import Sessions

AGAIN_S: Final = 0.2  # Before messages are sent again to a group whose leader changes,
AGAIN_MAX: Final = 25  # and how often.

A = TypeVar("A")
Q = TypeVar("Q")
R = TypeVar("R")

Codes = list[Code | None]


class Groups(Protocol):
    """The other groups, as the router uses them; fulfilled by `cluster.placement.group_reconciler`."""

    @property
    def leads(self) -> bool:
        """True if this node leads the hall, and may apply topics to groups."""

    def is_placed(self, topic: str) -> bool:
        """True if the topic is known and other groups store it."""

    def groups_of(self, topic: str) -> list[int]:
        """The groups that store the partitions of a topic; empty for a topic of the main hall, or an unknown one."""

    def nearest(self, numbers: tuple[int, ...]) -> list[int]:
        """These groups in the order in which this node should ask them."""

    def call(
        self,
        number: int,
        operation: Operation[R],
        caller: Caller = ...,
        *,
        now: bool = False,
        incarnation: bytes = b"",
        on_late: OnLate | None = None,
    ) -> Pending[R]:
        """Have the leader of a group carry out an operation; see `LeaderClient.call`."""

    async def furnish(self, name: str) -> None:
        """Have the groups of a topic store what the hall's catalogue says of it."""

    def leader(self, number: int) -> int:
        """The node that leads a group; NOBODY if none is known."""

    async def open_stream(self, number: int, verb: str, body: bytes, credit: int) -> IncomingStream:
        """A stream from the leader of a group. NOT_LEADER if none can be asked."""


@final
class PlacedQueues:
    """Carries out operations on the messages of placed queues, from any node."""

    def __init__(self, groups: Groups, find: Callable[[str], PlacedQueue | None], sessions: Sessions) -> None:
        self._groups = groups
        self._find = find
        self._receive = PlacedReceive(groups)
        self.consumers = PlacedConsumers(groups, sessions, self._ask)
        self._turn = 0
        reads = PlacedReads(self._ask)
        self._actions: dict[type[Operation[Any]], Callable[[PlacedQueue, Any, Caller], Coroutine[Any, Any, Any]]] = {
            ops.SendMessages: self._send,
            ops.DeliverOutbox: self._deliver,
            ops.CheckRoom: self._check_room,
            ops.ReceiveMessages: self._receive_messages,
            ops.SettleMessages: self._settle,
            ops.SettleWithSends: self._settle_with_sends,
            ops.ChangeLeases: self._change_leases,
            ops.ReturnUndelivered: self._return_undelivered,
            ops.AnswerMessage: self._by_receipt,
            ops.ReadPart: self._by_receipt,
            ops.BeginUpload: self._begin_upload,
            ops.AddUploadPart: self._by_upload,
            ops.FinishUpload: self._by_upload,
            ops.AbortUpload: self._by_upload,
            ops.RewindQueue: self._rewind,
            ops.PeekMessages: reads.page,
            ops.ListLeases: reads.page,
            ops.SearchMessages: reads.page,
            ops.ListLetters: reads.letters,
            ops.ReadLetter: reads.letter,
            ops.EditLetter: reads.letter,
            ops.StartMove: self._start_move,
            ops.ListMoves: reads.moves,
            ops.MeasureQueue: reads.depth,
            ops.CountQueue: reads.counts,
            exchange_ops.AddConsumer: self.consumers.add,
            exchange_ops.TakeMessage: self.consumers.take,
            exchange_ops.EndHeld: self.consumers.end,
            exchange_ops.UseQueue: self._use,
            exchange_ops.ClearQueue: self._clear,
        }

    def known(self, name: str) -> PlacedQueue | None:
        """The queue of this name, whichever group stores it."""
        return self._find(name)

    def find(self, name: str) -> PlacedQueue | None:
        """The queue of this name, if other groups store it."""
        queue = self._find(name)
        return queue if queue is not None and queue.settings.wings else None

    async def carry_out(self, queue: PlacedQueue, operation: Operation[R], caller: Caller) -> R:
        """The merged reply of the groups that have the queue."""
        action = self._actions.get(type(operation))
        if action is None:
            raise LonghallError(
                Code.INVALID_REQUEST, f"{type(operation).__name__} is not possible for '{queue.name}', which is placed."
            )
        result: R = await action(queue, operation, caller)
        return result

    async def everywhere(self, queue: PlacedQueue, operation: Operation[R], caller: Caller) -> list[R]:
        """Ask all groups of a queue, in the order of its lanes."""
        return await ask_all(self._ask, queue, operation, caller)

    async def cancel_move(self, operation: ops.CancelMove, caller: Caller) -> MoveTask | None:
        """Stop a move that runs in several groups; None for a move of the main hall."""
        parts = parts_of_move(operation.task_id)
        if not parts:
            return None
        stopped = [
            await self._groups.call(number, ops.CancelMove(part, operation.queue), caller) for number, part in parts
        ]
        return one_move([number for number, _ in parts], stopped)

    # One group

    async def _ask(
        self, queue: PlacedQueue, number: int, operation: Operation[R], caller: Caller, *, now: bool = False
    ) -> R:
        """Ask one group. The incarnation excludes an earlier queue of the same name that is not removed there yet."""
        try:
            return await self._groups.call(number, operation, caller, now=now, incarnation=queue.incarnation)
        except LonghallError as error:
            await self._put_there(queue, error)
        return await self._groups.call(number, operation, caller, now=now, incarnation=queue.incarnation)

    async def _put_there(self, queue: PlacedQueue, error: LonghallError) -> None:
        """Create the queue in a group that should have it and does not know it. Raises every other error.

        Another node than the hall's leader may know an earlier queue of this name, which the group has deleted: the
        operation has changed nothing, and QUEUE_MOVED makes the router look again.
        """
        if error.code is not Code.UNKNOWN_QUEUE:
            raise error
        is_known = self.find(queue.name) is not None
        if not self._groups.leads:
            if is_known and len(queue.settings.wings) > 1:
                raise LonghallError(Code.NOT_READY, f"The queue '{queue.name}' is not everywhere yet; try again.")
            raise LonghallError(Code.QUEUE_MOVED, f"This node does not know the newest queue '{queue.name}' yet.")
        if not is_known:
            raise error
        await self._groups.furnish(queue.topic)

    def _group_of(self, queue: PlacedQueue, text: str, wrong: Code) -> tuple[int, str]:
        """The group that a receipt or upload id came from, and its value in that group."""
        if wrong is Code.INVALID_RECEIPT and len(queue.settings.wings) == 1:
            return queue.settings.wings[0], bare(text)  # Another group may have issued it, before the queue moved.
        number, _, rest = text.partition(BETWEEN)
        if not (number.isascii() and number.isdigit()) or int(number) not in queue.settings.wings:
            raise LonghallError(wrong, "It did not come from this queue.")
        return int(number), rest

    # Messages

    async def _send(self, queue: PlacedQueue, op: ops.SendMessages, caller: Caller) -> list[Accepted]:
        groups = queue.settings.wings
        if queue.settings.placement == ANY_HOST:
            return await self._send_near(queue, op, caller)
        if len(groups) == 1:
            return await self._send_to(queue, groups[0], op, caller)
        targets: list[int] = []
        for message in op.messages:
            self._turn += 1
            targets.append(groups[lane_of(queue.settings, message, self._turn)])
        return await _sort_out(targets, op.messages, lambda number, some: self._send_some(queue, number, some, caller))

    async def _send_to(self, queue: PlacedQueue, number: int, op: ops.SendMessages, caller: Caller) -> list[Accepted]:
        """Send messages to one group. A leader that does not serve yet, or no longer, refuses every message before it
        appends one: they are sent again to the next leader.
        """
        for _ in range(AGAIN_MAX):
            replies = await self._ask(queue, number, op, caller)
            if any(one.code is not Code.NOT_LEADER for one in replies):
                break
            await asyncio.sleep(AGAIN_S)
        return replies

    async def _send_some(
        self, queue: PlacedQueue, number: int, messages: list[Outgoing], caller: Caller
    ) -> list[Accepted]:
        """Send messages to one group. A refusal counts only for these, not for those that other groups accepted."""
        try:
            return await self._send_to(queue, number, ops.SendMessages(queue.name, messages), caller)
        except LonghallError as error:
            return [Accepted(code=error.code, message=str(error)) for _ in messages]

    async def _send_near(self, queue: PlacedQueue, op: ops.SendMessages, caller: Caller) -> list[Accepted]:
        """Send to the nearest group that accepts. The next group is tried only if the one before did nothing."""
        near = self._groups.nearest(queue.settings.wings)
        for number in near:
            try:
                return await self._ask(queue, number, op, caller, now=True)
            except LonghallError as error:
                if error.code is not Code.NOT_LEADER:
                    raise
        return await self._ask(queue, near[0], op, caller)

    async def _deliver(self, queue: PlacedQueue, op: ops.DeliverOutbox, caller: Caller) -> int:
        """Messages of an outbox: each to its lane, which is the same for a repeat."""
        if queue.topic_id != op.topic_id:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"The queue '{queue.name}' that is meant is gone.")
        lanes: dict[int, list[tuple[int, OutboxEntry]]] = {}
        for offset, entry in op.batch.rows:
            lanes.setdefault(lane_of_moved(queue.settings, entry, offset), []).append((offset, entry))

        async def deliver(lane: int, rows: list[tuple[int, OutboxEntry]]) -> int:
            batch = msgspec.structs.replace(op.batch, rows=rows)
            asked = ops.DeliverOutbox(queue.name, op.topic_id, batch)
            reached: int = await self._ask(queue, queue.settings.wings[lane], asked, caller)
            return reached if reached <= rows[-1][0] else op.batch.rows[-1][0] + 1

        return min(await asyncio.gather(*(deliver(lane, rows) for lane, rows in lanes.items())))

    async def _check_room(self, queue: PlacedQueue, op: ops.CheckRoom, caller: Caller) -> None:
        """Each group of the queue has its share of the room; it is full if none has any."""
        groups = queue.settings.wings
        asked = [self._ask(queue, number, op, caller) for number in groups]
        refused = [one for one in await asyncio.gather(*asked, return_exceptions=True) if one is not None]
        if len(refused) == len(groups):
            raise refused[0]

    async def _receive_messages(self, queue: PlacedQueue, op: ops.ReceiveMessages, caller: Caller) -> list[Delivery]:
        wait_ms = op.wait_ms if op.wait_ms >= 0 else queue.settings.wait_ms
        op = msgspec.structs.replace(op, wait_ms=wait_ms)
        groups, incarnation = queue.settings.wings, queue.incarnation
        try:
            number, deliveries = await self._receive.receive(groups, op, caller, incarnation)
        except LonghallError as error:
            await self._put_there(queue, error)
            number, deliveries = await self._receive.receive(groups, op, caller, incarnation)
        for delivery in deliveries:
            if delivery.receipt:
                delivery.receipt = f"{number}{BETWEEN}{delivery.receipt}"
        return deliveries

    async def _settle(self, queue: PlacedQueue, op: ops.SettleMessages, caller: Caller) -> Codes:
        async def settle(number: int, receipts: list[tuple[str, int]]) -> Codes:
            some = ops.SettleMessages(queue.name, [receipt for receipt, _ in receipts], op.accepts)
            return await self._ask(queue, number, some, caller)

        return await self._by_receipts(queue, [(receipt, 0) for receipt in op.receipts], settle)

    async def _return_undelivered(self, queue: PlacedQueue, op: ops.ReturnUndelivered, caller: Caller) -> Codes:
        async def give_back(number: int, receipts: list[tuple[str, int]]) -> Codes:
            some = ops.ReturnUndelivered(queue.name, [receipt for receipt, _ in receipts])
            return await self._ask(queue, number, some, caller)

        return await self._by_receipts(queue, [(receipt, 0) for receipt in op.receipts], give_back)

    async def _change_leases(self, queue: PlacedQueue, op: ops.ChangeLeases, caller: Caller) -> Codes:
        async def change(number: int, changes: list[tuple[str, int]]) -> Codes:
            some = ops.ChangeLeases(queue.name, changes, op.accepts, op.lease_ms_max)
            return await self._ask(queue, number, some, caller)

        return await self._by_receipts(queue, op.changes, change)

    async def _by_receipts(
        self,
        queue: PlacedQueue,
        changes: Sequence[tuple[str, int]],
        work: Callable[[int, list[tuple[str, int]]], Awaitable[Codes]],
    ) -> Codes:
        """Send each receipt to the group that issued it; returns codes in the order of the receipts."""
        found: list[tuple[int, tuple[str, int]]] = []
        codes: Codes = [Code.INVALID_RECEIPT] * len(changes)
        positions: list[int] = []
        for position, (receipt, lease_ms) in enumerate(changes):
            try:
                number, rest = self._group_of(queue, receipt, Code.INVALID_RECEIPT)
            except LonghallError:
                continue
            found.append((number, (rest, lease_ms)))
            positions.append(position)
        replies = await _sort_out([number for number, _ in found], [change for _, change in found], work)
        for position, code in zip(positions, replies, strict=True):
            codes[position] = code
        return codes

    def needs_hall(self, queue: PlacedQueue, op: ops.SettleWithSends) -> bool:
        """True if the hall has to coordinate a settle with sends: messages of several groups take part, or a topic that
        is not in the group of the messages.
        """
        numbers = {split_group(receipt)[0] for receipt in op.receipts}
        topics = [send.topic for send in op.sends if send.topic]
        return len(numbers) > 1 or any({*self._groups.groups_of(topic)} != numbers for topic in topics)

    async def _settle_with_sends(self, queue: PlacedQueue, op: ops.SettleWithSends, caller: Caller) -> Any:
        found = [self._group_of(queue, receipt, Code.INVALID_RECEIPT) for receipt in op.receipts]
        if not found:
            raise LonghallError(Code.INVALID_REQUEST, "no message is settled")
        asked = msgspec.structs.replace(op, receipts=[rest for _, rest in found])
        return await self._ask(queue, found[0][0], asked, caller)

    async def _by_receipt(self, queue: PlacedQueue, op: ops.AnswerMessage | ops.ReadPart, caller: Caller) -> Any:
        number, rest = self._group_of(queue, op.receipt, Code.INVALID_RECEIPT)
        asked: Operation[Any] = msgspec.structs.replace(op, receipt=rest)
        return await self._ask(queue, number, asked, caller)

    # Messages in parts

    async def _begin_upload(self, queue: PlacedQueue, op: ops.BeginUpload, caller: Caller) -> str:
        number = self._groups.nearest(queue.settings.wings)[0]
        upload_id: str = await self._ask(queue, number, op, caller)
        return f"{number}{BETWEEN}{upload_id}"

    async def _by_upload(
        self, queue: PlacedQueue, op: ops.AddUploadPart | ops.FinishUpload | ops.AbortUpload, caller: Caller
    ) -> Any:
        number, rest = self._group_of(queue, op.upload_id, Code.INVALID_REQUEST)
        asked: Operation[Any] = msgspec.structs.replace(op, upload_id=rest)
        return await self._ask(queue, number, asked, caller)

    # Rewinds and forks

    async def _rewind(self, queue: PlacedQueue, op: ops.RewindQueue, caller: Caller) -> None:
        groups = queue.settings.wings
        if not isinstance(op.to, dict):
            await self.everywhere(queue, op, caller)
            return
        for lane, number in enumerate(groups):
            part = {place: offset for place, offset in op.to.items() if place % len(groups) == lane}
            if part:
                await self._ask(queue, number, ops.RewindQueue(queue.name, part), caller)

    async def fork_starts(self, queue: PlacedQueue, start: ops.Destination, caller: Caller) -> dict[int, int]:
        """The offsets at which a fork of a queue begins, by partition, from all its groups."""
        groups = queue.settings.wings
        starts: dict[int, int] = {}
        for lane, number in enumerate(groups):
            own: ops.Destination
            if isinstance(start, Mapping):
                own = {place: offset for place, offset in start.items() if place % len(groups) == lane}
            else:
                own = start
            starts.update(await self._ask(queue, number, ops.LocateFork(queue.name, own), caller))
        return starts

    # Moves and consumers

    async def _start_move(self, queue: PlacedQueue, op: ops.StartMove, caller: Caller) -> MoveTask:
        groups = queue.settings.wings
        if op.target and self._find(op.target) is None:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{op.target}'.")
        asked = msgspec.structs.replace(op, rate_max=-(-op.rate_max // len(groups)))
        return one_move(groups, await self.everywhere(queue, asked, caller))

    async def _use(self, queue: PlacedQueue, op: exchange_ops.UseQueue, caller: Caller) -> exchange_ops.QueueUse:
        uses = await self.everywhere(queue, op, caller)
        # Every group has all consumers of the queue, and the same one is first everywhere.
        return exchange_ops.QueueUse(
            sum(one.ready for one in uses),
            max(one.consumers for one in uses),
            min(one.idle_ms for one in uses),
            uses[0].active_session,
            uses[0].active_consumer,
        )

    async def _clear(self, queue: PlacedQueue, op: exchange_ops.ClearQueue, caller: Caller) -> int:
        return sum(await self.everywhere(queue, op, caller))


async def _sort_out(
    targets: Sequence[int], questions: Sequence[Q], work: Callable[[int, list[Q]], Awaitable[list[A]]]
) -> list[A]:
    """Ask all targets concurrently; returns answers in the order of the questions."""
    positions: dict[int, list[int]] = {}
    for position, target in enumerate(targets):
        positions.setdefault(target, []).append(position)
    answers: dict[int, A] = {}
    replies = await asyncio.gather(
        *(work(target, [questions[position] for position in some]) for target, some in positions.items())
    )
    for some, found in zip(positions.values(), replies, strict=True):
        answers.update(zip(some, found, strict=True))
    return [answers[position] for position in range(len(questions))]
