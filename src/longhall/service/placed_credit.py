"""The credit of a consumer whose queue is in several replication groups: how much of it each group has.

    credit of at least one a group     divided; what is ended in a group is credit there again
    less                               lent to some groups, the nearest first; what is ended, or idle, goes to the next
    no limit                           every group has it

Pure: `placed_session` sends what is decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from longhall.cluster.rpc.operation import Caller
from longhall.service.exchange_operations import AddConsumer

if TYPE_CHECKING:
    from longhall.service.placed_queues import PlacedQueue

UNLIMITED_FROM: Final = 1 << 32


@final
class PlacedConsumer:
    """A consumer of a queue in groups, as its client asked for it. `near` are the groups, the nearest first."""

    def __init__(self, queue: PlacedQueue, asked: AddConsumer, caller: Caller, near: list[int]) -> None:
        self.queue = queue
        self.asked = asked
        self.caller = caller
        self.added: set[int] = set()  # Groups that have the consumer, or had it until their leader was lost.
        self._near = near
        credit, count = asked.credit, len(near)
        self.rotates = credit < count
        if credit >= UNLIMITED_FROM:
            self._shares = dict.fromkeys(near, credit)
        else:
            self._shares = {number: credit // count + (at < credit % count) for at, number in enumerate(near)}

    def share(self, number: int) -> int:
        """How many messages of a group it may hold."""
        return self._shares[number]

    def returned(self, number: int) -> int:
        """A group has one credit too many: the group that gets it, with its share raised."""
        if not self.rotates:
            return number
        following = self._near[(self._near.index(number) + 1) % len(self._near)]
        self._shares[number] -= 1
        self._shares[following] += 1
        return following
