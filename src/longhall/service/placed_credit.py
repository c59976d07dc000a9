"""The credit of a consumer whose queue is in several replication groups: how much of it each group has.

    no limit                           every group has it
    credit of at least one a group     divided; what is ended in a group is credit there again
    less                               lent to some groups, the nearest first; what is ended goes to the next group
    a group has used its share         half of what lies idle in others moves to it, so that a client that ends nothing
                                       before it has all it asked for gets that

Pure: `placed_session` sends what is decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from longhall.cluster.rpc.operation import Caller
from longhall.service.exchange_operations import AddConsumer

if TYPE_CHECKING:
    from longhall.service.placed_queue import PlacedQueue

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
        self.is_limited = credit < UNLIMITED_FROM
        self.rotates = credit < count
        if credit >= UNLIMITED_FROM:
            self._shares = dict.fromkeys(near, credit)
        else:
            self._shares = {number: credit // count + (at < credit % count) for at, number in enumerate(near)}

    def share(self, number: int) -> int:
        """The number of messages of a group that it may hold."""
        return self._shares[number]

    def returned(self, number: int) -> int:
        """A group has one credit too many: the group that gets it, with its share raised."""
        if not self.rotates:
            return number
        following = self._after(number)[0]
        self.move(number, following, 1)
        return following

    def grant(self, number: int, count: int) -> None:
        """The client has ended so many messages that no group has pushed since the consumer was added."""
        self._shares[number] += count

    def decide_moves(self, held: dict[int, int]) -> list[tuple[int, int, int]]:
        """What lies idle and is wanted: from which group, to which group, and how much. `held` is by group."""
        idle = {number: self._shares[number] - held.get(number, 0) for number in self._near}
        hungry = [number for number in self._near if idle[number] <= 0]
        moves: list[tuple[int, int, int]] = []
        for number in self._near:
            target = next((one for one in self._after(number) if one in hungry), None)
            if idle[number] > 0 and target is not None:
                hungry.remove(target)
                moves.append((number, target, -(-idle[number] // 2)))
        return moves

    def move(self, source: int, target: int, count: int) -> None:
        """A group has given up so much of its share for another one."""
        self._shares[source] -= count
        self._shares[target] += count

    def _after(self, number: int) -> list[int]:
        at = self._near.index(number) + 1
        return [*self._near[at:], *self._near[:at]]
