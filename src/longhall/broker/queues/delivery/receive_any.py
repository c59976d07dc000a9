"""Weighted receive from several queues.

Receivers with the same weights share one round robin. Its state is not durable: a restart begins a new round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

from longhall.broker.hall import Hall
from longhall.broker.queues.consumers.session import SESSION_LEASE_MS
from longhall.broker.queues.delivery.receive import receive, until_change_s
from longhall.broker.queues.running_queue import RunningQueue
from longhall.queues.messages import Delivery
from longhall.queues.weighted_round_robin import WeightedRoundRobin

ROUNDS_MAX: Final = 1024  # Cached round robins.


class WeightedWish(NamedTuple):
    """What a receiver of several queues asked for."""

    count_max: int
    wait_ms: int
    lease_ms: int
    filter: str = ""
    consumer: str = ""
    in_parts: bool = True


@final
class WeightedReceive:
    """The round robins of all sets of weights, least recently used first."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._rounds: dict[tuple[tuple[str, int], ...], WeightedRoundRobin] = {}

    async def receive(self, weights: Mapping[str, int], wish: WeightedWish) -> list[tuple[str, Delivery]]:
        """At most `count_max` messages, each with the name of its queue. A negative lease is each queue's own."""
        round_ = self._round(weights)
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + max(wish.wait_ms, 0) / 1000
        while True:
            found = await self._take(round_, weights, wish)
            left_s = ends_s - loop.time()
            if found or left_s <= 0:
                return found
            await wait_for_any(self._hall, [self._hall.known_queue(name) for name in weights], left_s)

    async def _take(
        self, round_: WeightedRoundRobin, weights: Mapping[str, int], wish: WeightedWish
    ) -> list[tuple[str, Delivery]]:
        """Receive from the queues in the order of turns; a queue that delivers too few is skipped from then on."""
        waiting = {name: self._waiting(self._hall.known_queue(name)) for name in weights}
        found: list[tuple[str, Delivery]] = []
        while len(found) < wish.count_max:
            shares = round_.share(waiting, wish.count_max - len(found))
            if not shares:
                break
            for name, count in shares:
                if not waiting[name]:
                    continue
                queue = self._hall.known_queue(name)
                lease = wish.lease_ms if wish.lease_ms >= 0 else min(queue.settings.lease_ms, SESSION_LEASE_MS - 1)
                given = await receive(self._hall, queue, count, 0, lease, wish.filter, wish.consumer, wish.in_parts)
                found.extend([(name, delivery) for delivery in given])
                waiting[name] = self._waiting(queue) if len(given) == count else 0
        return found

    def _waiting(self, queue: RunningQueue) -> int:
        queue.queue.tick(self._hall.time.now_ms())
        return queue.queue.waiting([(lane, partition.high_watermark) for lane, partition in queue.lanes.items()])

    def _round(self, weights: Mapping[str, int]) -> WeightedRoundRobin:
        key = tuple(sorted(weights.items()))
        found = self._rounds.pop(key, None)
        if found is None:
            found = WeightedRoundRobin(weights)
            if len(self._rounds) >= ROUNDS_MAX:
                self._rounds.pop(next(iter(self._rounds)))
        self._rounds[key] = found
        return found


async def wait_for_any(hall: Hall, queues: Sequence[RunningQueue], seconds: float) -> None:
    """Wait until one of the queues may have messages, without a turn in their lists of receivers."""
    waits = []
    for queue in queues:
        longest_s = min(seconds, until_change_s(hall, queue))
        waits.append(asyncio.ensure_future(queue.waiters.wait(list(queue.lanes.values()), longest_s, seeks=True)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
