"""What a wing does when it is asked: the verbs of its own desk, and being furnished.

Only whoever leads the wing is asked. What was begun runs to its end, but for receivers that wait: those end with what
they have when they are told that it is enough, so that nothing is given out to somebody who has gone.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Final, final

from longhall.broker.catalogue import Topic
from longhall.broker.declare import add_partitions, configure_topic, create_topic, delete_topic
from longhall.broker.hall import Hall
from longhall.broker.queues.delivery.receive import Claim
from longhall.broker.queues.desk import Desk
from longhall.broker.queues.upkeep import declare
from longhall.cluster.wings.calls import (
    CLEAR,
    ENOUGH,
    FURNISH,
    INVENTORY,
    RECEIVE,
    Furniture,
    Wish,
    decode_call,
    encode_result,
    fingerprint,
)
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Delivery
from longhall.queues.settings import QueueSettings

WAITING_MAX: Final = 10_000  # Receivers with a ticket.


@final
class Answering:
    """See the module."""

    def __init__(self, hall: Hall, desk: Desk) -> None:
        self._hall = hall
        self._desk = desk
        self._waiting: dict[str, tuple[asyncio.Task[list[Delivery]], Claim]] = {}
        self._furnishing = asyncio.Lock()
        self._own: dict[str, Callable[..., Any]] = {
            RECEIVE.name: self._receive,
            ENOUGH.name: self._end,
            FURNISH.name: self._furnish,
            CLEAR.name: self._clear,
            INVENTORY.name: self._inventory,
        }

    async def answer(self, call: bytes) -> bytes:
        """What the verb gives. Raises LonghallError as the verb does."""
        verb, arguments, life = decode_call(call)
        if life:
            self._check_life(arguments[0], life)
        work = self._own.get(verb) or getattr(self._desk, verb)
        result = work(*arguments)
        return encode_result(await result if inspect.isawaitable(result) else result)

    def _check_life(self, name: str, life: bytes) -> None:
        topic = self._hall.catalogue.topics.get(name)
        if topic is None or topic.topic_id != life:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"This wing does not have the queue '{name}' that is meant.")

    # Receivers

    async def _receive(self, wish: Wish) -> list[Delivery]:
        if wish.life:
            self._check_life(wish.name, wish.life)
        claim = Claim()
        work = self._desk.receive(
            wish.name,
            wish.count_max,
            wish.wait_ms,
            wish.lease_ms,
            wish.attempt_id,
            wish.filter,
            wish.consumer,
            wish.in_parts,
            claim,
        )
        if not wish.ticket or len(self._waiting) >= WAITING_MAX:
            return await work
        task = asyncio.ensure_future(work)
        self._waiting[wish.ticket] = (task, claim)
        try:
            await asyncio.wait((task,))
            return [] if task.cancelled() else task.result()
        finally:
            task.cancel()
            del self._waiting[wish.ticket]

    def _end(self, ticket: str) -> None:
        """It is enough: whoever waits under this ticket waits no more. What is leased already is told all the same."""
        task, claim = self._waiting.get(ticket, (None, None))
        if task is not None and claim is not None and not claim.leased:
            task.cancel()

    # Furniture

    def _inventory(self) -> list[tuple[str, bytes, int]]:
        """Names, ids and fingerprints of what was placed here. What the wing has made for itself is its own."""
        return [
            (name, topic.topic_id, fingerprint(self._furniture(name, topic)))
            for name, topic in self._hall.catalogue.topics.items()
            if topic.options.wings
        ]

    def _furniture(self, name: str, topic: Topic) -> Furniture:
        entry = self._hall.catalogue.queues.by_name.get(name)
        return Furniture(
            name=name,
            topic_id=topic.topic_id,
            partitions=len(topic.partitions),
            configuration=topic.configuration,
            queue=entry.settings if entry is not None else None,
        )

    async def _furnish(self, wanted: Furniture) -> None:
        """TOPIC_EXISTS where another one has the name: that one has to be cleared first."""
        async with self._furnishing:
            hall = self._hall
            topic = hall.catalogue.topics.get(wanted.name)
            if topic is None:
                await self._make(wanted)
                return
            if topic.topic_id != wanted.topic_id:
                raise LonghallError(Code.TOPIC_EXISTS, f"another topic is called {wanted.name!r} in this wing")
            if len(topic.partitions) < wanted.partitions:
                await add_partitions(hall, wanted.name, wanted.partitions)
            if wanted.queue is not None:
                await self._furnish_queue(wanted.name, wanted.queue)
            if topic.configuration != wanted.configuration:
                await configure_topic(hall, wanted.name, wanted.configuration)

    async def _make(self, wanted: Furniture) -> None:
        if wanted.queue is None:
            await create_topic(
                self._hall, wanted.name, wanted.partitions, wanted.configuration, topic_id=wanted.topic_id
            )
        else:
            await declare.create(self._hall, wanted.name, wanted.queue, topic_id=wanted.topic_id)

    async def _furnish_queue(self, name: str, settings: QueueSettings) -> None:
        view = self._desk.view(name)
        if view is None:
            await declare.declare(self._hall, name, name, settings)
        elif view.settings != settings:
            await self._desk.configure(name, settings)

    async def _clear(self, name: str, topic_id: bytes) -> None:
        async with self._furnishing:
            topic = self._hall.catalogue.topics.get(name)
            if topic is None or topic.topic_id != topic_id:
                return
            if self._desk.view(name) is not None:
                await self._desk.delete(name)  # What its dead letters want goes there first.
            if name in self._hall.catalogue.topics:
                await delete_topic(self._hall, name)
