"""Weighted receive from several queues of which some are stored by other replication groups.

The depths of other groups are not known here, so every queue counts as full until a receive from it comes back short.
A receiver that waits asks again in growing intervals. The round robins are those of this process and are not durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, final

from longhall.queues.messages import Delivery
from longhall.queues.weighted_round_robin import WeightedRoundRobin
from longhall.service.queue_operations import ReceiveFromAny, ReceiveMessages

ROUNDS_MAX: Final = 1024  # Cached round robins.
PAUSE_S_MIN: Final = 0.02  # Between two rounds of a receiver that waits.
PAUSE_S_MAX: Final = 0.32

Receive = Callable[[ReceiveMessages], Awaitable[list[Delivery]]]


@final
class PlacedWeightedReceive:
    """The round robins of all sets of weights with a placed queue, least recently used first."""

    def __init__(self) -> None:
        self._rounds: dict[tuple[tuple[str, int], ...], WeightedRoundRobin] = {}

    async def receive(self, op: ReceiveFromAny, receive: Receive) -> list[tuple[str, Delivery]]:
        """At most `count_max` messages, each with the name of its queue. `receive` asks one queue without waiting."""
        round_ = self._round(op)
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + max(op.wait_ms, 0) / 1000
        pause_s = PAUSE_S_MIN
        while True:
            found = await self._take(round_, op, receive)
            left_s = ends_s - loop.time()
            if found or left_s <= 0:
                return found
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    async def _take(
        self, round_: WeightedRoundRobin, op: ReceiveFromAny, receive: Receive
    ) -> list[tuple[str, Delivery]]:
        waiting = dict.fromkeys(op.weights, op.count_max)
        found: list[tuple[str, Delivery]] = []
        while len(found) < op.count_max:
            shares = round_.share(waiting, op.count_max - len(found))
            if not shares:
                break
            for name, count in shares:
                if waiting[name]:
                    given = await receive(ReceiveMessages(name, count, 0, op.lease_ms, "", op.filter, op.in_parts))
                    found.extend([(name, delivery) for delivery in given])
                    if len(given) < count:
                        waiting[name] = 0
        return found

    def _round(self, op: ReceiveFromAny) -> WeightedRoundRobin:
        key = tuple(sorted(op.weights.items()))
        found = self._rounds.pop(key, None)
        if found is None:
            found = WeightedRoundRobin(op.weights)
            if len(self._rounds) >= ROUNDS_MAX:
                self._rounds.pop(next(iter(self._rounds)))
        self._rounds[key] = found
        return found
