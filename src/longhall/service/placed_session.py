"""The part of a client's session that is in other replication groups: a stream from the leader of each.

    a group's leader changes     its stream is opened again, and the consumers are added there with what credit is left
    a delivery                   its receipt begins with the number of the group, and goes back there
    the queue moves              its consumer is added at the new group, with what credit is left; what was pushed from
                                 elsewhere is credit there when the client ends it
    the queue is deleted         the client is told once, whichever group says it first
    the connection ends          every stream is closed, and the groups return what the client held

Credit is divided among the groups of a queue (`placed_credit`). Every ROTATE_S idle credit moves to groups that have
used theirs.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, final

import msgspec

from longhall.broker.queues.consumers.session import PushedMessages
from longhall.cluster.rpc.operation import Caller
from longhall.errors import Code, LonghallError
from longhall.service.exchange_operations import (
    AddConsumer,
    CancelConsumer,
    GiveCredit,
    LimitChannel,
    WithdrawCredit,
)
from longhall.service.placed_credit import ChannelShares, PlacedConsumer
from longhall.service.placed_queue import AskGroup, PlacedQueue
from longhall.service.sessions import CREDIT, PAUSE_S, SESSION, SessionLink, SessionStream, start_of_session

if TYPE_CHECKING:
    from longhall.service.placed_queues import Groups

READY_S_MAX: Final = 8.0  # For the leader of a group to open the session.
ROTATE_S: Final = 0.25
OWED_MAX: Final = 1_000  # Consumers with credit that no group has yet.
BETWEEN: Final = "."  # Separates the number of a group from its receipt.

_log = logging.getLogger("longhall.service")


@final
class GroupSession:
    """The session at the leader of one group. Fulfils `PushReceiver`."""

    def __init__(self, session: PlacedSession, groups: Groups, number: int) -> None:
        self.number = number
        self.life = 0  # Counts the streams: what was added in an earlier one is gone.
        self.held: dict[str, tuple[int, int]] = {}  # By receipt: the consumer, 0 if none, and its channel.
        self._session = session
        self._ready = asyncio.Event()
        self._adding: asyncio.Task[None] | None = None
        body = session.link.session_id.encode()
        self._stream = SessionStream(
            lambda: groups.open_stream(number, SESSION, body, CREDIT), lambda: groups.leader(number), self
        )
        self._task = start_of_session(self._run(), "session of a group")

    async def _run(self) -> None:
        while True:
            await self._stream.follow()
            await asyncio.sleep(PAUSE_S)

    @property
    def is_ready(self) -> bool:
        """True if a leader of the group knows the session."""
        return self._stream.is_ready

    def close(self) -> None:
        """The connection is gone."""
        self._task.cancel()
        if self._adding is not None:
            self._adding.cancel()

    def readable(self) -> None:
        """The client reads again."""
        self._stream.readable()

    async def opened(self) -> int:
        """Wait until the session is open; returns its life. NOT_READY if no leader opens it in time."""
        try:
            async with asyncio.timeout(READY_S_MAX):
                await self._ready.wait()
        except TimeoutError:
            raise LonghallError(Code.NOT_READY, f"the group {self.number} has no leader; try again") from None
        return self.life

    def count(self, key: int) -> int:
        """The number of messages of this group that a consumer holds."""
        return sum(1 for one, _ in self.held.values() if one == key)

    def count_channel(self, channel: int) -> int:
        """How many messages of this group all consumers of a channel hold."""
        return sum(1 for key, one in self.held.values() if one == channel and key)

    # As a receiver

    @property
    def is_writable(self) -> bool:
        return self._session.link.owner.is_writable

    def push(self, push: PushedMessages) -> None:
        if not push.deliveries:
            self._session.cancelled(push.consumer, push.queue)
            return
        consumer = self._session.consumers.get(push.consumer)
        channel = consumer.asked.channel if consumer is not None else 0
        if consumer is not None and consumer.asked.stream is not None:
            consumer.asked.stream.offset = push.deliveries[-1].offset + 1  # The next leader goes on there.
        for delivery in push.deliveries:
            if delivery.receipt:
                self.held[delivery.receipt] = (push.consumer, channel)
                delivery.receipt = f"{self.number}{BETWEEN}{delivery.receipt}"
        self._session.link.owner.push(push)

    def session_opened(self) -> None:
        self.life += 1
        self._ready.set()
        consumers = [one for one in self._session.consumers.values() if self.number in one.added]
        if consumers:
            self._adding = start_of_session(self._add_again(consumers), "add consumers")

    def session_lost(self) -> None:
        self._ready.clear()
        if self._adding is not None:
            self._adding.cancel()
        # The next leader has returned these to their queues. The client still holds them, and ends them in vain.

    async def _add_again(self, consumers: list[PlacedConsumer]) -> None:
        """Add consumers at a leader that does not know them, until it has them or they are gone."""
        for consumer in consumers:
            while self._session.consumers.get(consumer.asked.key) is consumer:
                try:
                    await self._session.add_at(self, consumer)
                    break
                except LonghallError as error:
                    if error.code is Code.QUEUE_MOVED:
                        self._session.moved(consumer.asked.key)
                        break
                    if error.code in (Code.QUEUE_IN_USE, Code.UNKNOWN_QUEUE):
                        self._session.cancelled(consumer.asked.key, consumer.queue.name)
                        break
                    _log.info("a consumer waits for a group", extra={"group": self.number, "reason": str(error)})
                await asyncio.sleep(PAUSE_S)


@final
class PlacedSession:
    """The groups that know one session, and its consumers there. Fulfils `SessionExtension`."""

    def __init__(self, link: SessionLink, groups: Groups, ask: AskGroup) -> None:
        self.link = link
        self.consumers: dict[int, PlacedConsumer] = {}
        self._groups = groups
        self._ask = ask
        self._sessions: dict[int, GroupSession] = {}
        self._limits: dict[int, int] = {}  # By channel: what all its consumers in groups may hold together.
        self._limited = ChannelShares()
        self._owed: dict[int, int] = {}  # Credit for consumers that are on their way to a group, by key.
        self._rotation: asyncio.Task[None] | None = None
        link.parts.append(self)

    def close(self) -> None:
        for one in self._sessions.values():
            one.close()
        if self._rotation is not None:
            self._rotation.cancel()

    def readable(self) -> None:
        for one in self._sessions.values():
            one.readable()

    def at(self, number: int) -> GroupSession:
        """The session at one group, opened if needed."""
        found = self._sessions.get(number)
        if found is None:
            found = self._sessions[number] = GroupSession(self, self._groups, number)
        return found

    # Consumers

    async def add(self, queue: PlacedQueue, asked: AddConsumer, caller: Caller) -> None:
        """Add a consumer in every group of its queue. No effect if it is there: only the hall has another leader."""
        if asked.key in self.consumers:
            return
        near = self._groups.nearest(queue.settings.wings)
        if asked.key in self._owed:
            asked = msgspec.structs.replace(asked, credit=asked.credit + self._owed.pop(asked.key))
        places = self._places(asked.channel)
        consumer = self.consumers[asked.key] = PlacedConsumer(queue, asked, caller, near)
        await self._extend(asked.channel, places)
        try:
            # In the order of the lanes: of two consumers that want to be alone the same one is first everywhere.
            for number in queue.settings.wings:
                await self._add_first(self.at(number), consumer)
        except BaseException:
            await self.cancel(asked.key, caller)
            raise
        if consumer.is_limited and len(near) > 1 and self._rotation is None:
            self._rotation = start_of_session(self._rotate(), "rotate credit")

    async def _add_first(self, group: GroupSession, consumer: PlacedConsumer) -> None:
        while True:
            life = await group.opened()
            try:
                await self.add_at(group, consumer)
            except LonghallError as error:
                if error.code is not Code.NOT_READY or group.life == life:
                    raise
            if group.life == life:
                consumer.added.add(group.number)
                return

    async def add_at(self, group: GroupSession, consumer: PlacedConsumer) -> None:
        """Add a consumer at the leader of a group, with the credit that it has left there."""
        asked = consumer.asked
        if asked.channel in self._limits:
            await self._groups.call(group.number, self._limit(group, asked.channel), consumer.caller)
        credit = consumer.share(group.number) - group.count(asked.key)
        operation = msgspec.structs.replace(asked, credit=credit)
        await self._ask(consumer.queue, group.number, operation, consumer.caller)

    async def cancel(self, key: int, caller: Caller) -> bool:
        """Remove a consumer; False if it is none of a queue in groups."""
        self._owed.pop(key, None)
        consumer = self.consumers.pop(key, None)
        if consumer is None:
            return False
        operation = CancelConsumer(self.link.session_id, key)
        calls = [self._groups.call(number, operation, caller) for number in consumer.queue.settings.wings]
        for call in calls:
            try:
                await call
            except LonghallError as error:  # Without a leader there the consumer is gone.
                _log.debug("a consumer is not cancelled in a group", extra={"reason": str(error)})
        return True

    def moved(self, key: int) -> None:
        """Another group serves the queue of a consumer now: the connection adds the consumer there."""
        self._forget(key)
        self.link.owner.session_opened()

    def _forget(self, key: int) -> None:
        """Forget a consumer whose queue has moved, and that its client holds messages of a group."""
        self.consumers.pop(key, None)
        for one in self._sessions.values():
            one.held = {receipt: place for receipt, place in one.held.items() if place[0] != key}

    def cancelled(self, key: int, queue: str) -> None:
        """A group has cancelled a consumer: tell the client, and the other groups."""
        consumer = self.consumers.pop(key, None)
        if consumer is None:
            return
        operation = CancelConsumer(self.link.session_id, key)
        for number in consumer.queue.settings.wings:
            self._groups.call(number, operation, consumer.caller)
        self.link.owner.push(PushedMessages(key, queue, []))

    # Credit

    async def limit(self, channel: int, left: int | None) -> None:
        """Let the consumers of a channel together have so many more messages; None: no limit."""
        if left is None:
            self._limits.pop(channel, None)
        else:
            self._limits[channel] = left + sum(one.count_channel(channel) for one in self._sessions.values())
        await self._divide(channel)

    async def _divide(self, channel: int) -> None:
        """Divide the limit of a channel anew among the groups in which it has consumers."""
        groups = [self._sessions[number] for number in sorted(self._places(channel)) if number in self._sessions]
        held = {one.number: one.count_channel(channel) for one in groups}
        self._limited.divide(channel, self._limits.get(channel), held)
        calls = [self._groups.call(one.number, self._limit(one, channel)) for one in groups]
        for call in calls:
            try:
                await call
            except LonghallError as error:  # The limit is set again before the consumers are added there.
                _log.debug("a limit is not set in a group", extra={"reason": str(error)})

    async def _extend(self, channel: int, before: set[int]) -> None:
        """A channel gets its first consumer in further groups, and those before give up what they have not used."""
        limit, places = self._limits.get(channel), self._places(channel)
        if limit is None or places == before:
            return
        for number, count in self._limited.decide_extension(channel, limit, before, places).items():
            try:
                taken = await self._groups.call(number, WithdrawCredit(self.link.session_id, ~channel, count), now=True)
            except LonghallError:
                taken = 0
            self._limited.gave_up(channel, number, taken)
        self._limited.extend(channel, limit, places)

    def _limit(self, group: GroupSession, channel: int) -> LimitChannel:
        granted = self._limited.granted(channel, group.number) if channel in self._limits else None
        left = granted - group.count_channel(channel) if granted is not None else None
        return LimitChannel(self.link.session_id, channel, left)

    def _places(self, channel: int) -> set[int]:
        mine = [one for one in self.consumers.values() if one.asked.channel == channel]
        return {number for one in mine for number in one.queue.settings.wings}

    def ended(
        self, number: int, receipts: list[str], credits: dict[int, int]
    ) -> tuple[list[tuple[int, int]], dict[int, int]]:
        """The client has ended messages of a group; returns the credit for its consumers there, and the credit for
        messages that this group has not pushed.
        """
        group = self._sessions.get(number)
        given: dict[int, int] = {}
        others = dict(credits)
        for receipt in receipts:
            key, channel = group.held.pop(receipt, (0, 0)) if group is not None else (0, 0)
            for one in (key, ~channel) if key else ():
                if one in others:
                    others[one] -= 1
            consumer = self.consumers.get(key)
            if consumer is not None and key in credits:
                lent = consumer.returned(number)
                if lent == number:
                    given[key] = given.get(key, 0) + 1
                else:
                    self._groups.call(lent, GiveCredit(self.link.session_id, [(key, 1)]))
            if key and ~channel in credits:
                lent = self._limited.returned(channel, number)
                if lent == number:
                    given[~channel] = given.get(~channel, 0) + 1
                else:
                    self._groups.call(lent, GiveCredit(self.link.session_id, [(~channel, 1)]))
        return list(given.items()), {key: count for key, count in others.items() if count > 0}

    def moved_credit(self, number: int, credits: dict[int, int]) -> None:
        """The client has ended messages that were pushed before their queue moved to this group."""
        for key, count in credits.items():
            consumer = self.consumers.get(key)
            if key < 0:
                if ~key in self._limits:
                    self._limits[~key] += count
                    self._limited.grant(~key, number, count)
            elif consumer is None:
                if len(self._owed) < OWED_MAX:
                    self._owed[key] = self._owed.get(key, 0) + count
                continue
            elif consumer.is_limited and number in consumer.queue.settings.wings:
                consumer.grant(number, count)
            self._groups.call(number, GiveCredit(self.link.session_id, [(key, count)]))

    async def _rotate(self) -> None:
        """Move idle credit to where it is wanted."""
        while True:
            await asyncio.sleep(ROTATE_S)
            for key, consumer in list(self.consumers.items()):
                if consumer.is_limited and len(consumer.added) == len(consumer.queue.settings.wings):
                    held = {number: self._sessions[number].count(key) for number in consumer.added}
                    for source, target, count in consumer.decide_moves(held):
                        await self._move(consumer, source, target, count)

    async def _move(self, consumer: PlacedConsumer, source: int, target: int, count: int) -> None:
        key, session_id = consumer.asked.key, self.link.session_id
        try:
            taken = await self._groups.call(source, WithdrawCredit(session_id, key, count), now=True)
        except LonghallError:
            # Without a leader the credit there is gone; where it may have been used, the next leader returns what was.
            taken = count if not self._sessions[source].is_ready else 0
        if taken:
            consumer.move(source, target, taken)
            self._groups.call(target, GiveCredit(session_id, [(key, taken)]))
