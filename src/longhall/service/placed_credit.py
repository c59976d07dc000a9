"""The credit of a consumer whose queue is in several replication groups, and the limit of a channel whose consumers are
in several: how much of it each group has.

    no limit                           every group has it
    credit of at least one a group     divided; what is ended in a group is credit there again
    less                               lent to some groups, the nearest first; what is ended goes to the next group
    a group has used its share         half of what lies idle in others moves to it, so that a client that ends nothing
                                       before it has all it asked for gets that

The limit of a channel is divided evenly, at least one a group. A group that has pushed more than its share when another
one joins keeps that, and as much is withheld from the others until the client ends it.

Pure: `placed_session` sends what is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
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


@final
class ChannelShares:
    """How many messages of each channel the consumers in each group may hold."""

    def __init__(self) -> None:
        self._shares: dict[int, dict[int, int]] = {}  # By channel and group; with what is held.
        self._size: dict[int, int] = {}  # By channel: the even share of a group.

    def granted(self, channel: int, number: int) -> int:
        """How many messages the consumers of a channel may hold in a group."""
        return self._shares.get(channel, {}).get(number, 0)

    def divide(self, channel: int, limit: int | None, held: Mapping[int, int]) -> None:
        """Divide a limit among groups that have pushed so many messages, which the client holds."""
        self._shares.pop(channel, None)
        if limit is not None and held:
            size = self._size[channel] = -(-limit // len(held))
            self._shares[channel] = {number: max(count, 0) for number, count in held.items()}
            self._fill(channel, size * len(held))

    def decide_extension(self, channel: int, limit: int, before: Set[int], places: Set[int]) -> dict[int, int]:
        """What each group should give up for those that join."""
        size = -(-limit // len(places))
        found = {number: self.granted(channel, number) - size for number in before}
        return {number: count for number, count in found.items() if count > 0}

    def gave_up(self, channel: int, number: int, count: int) -> None:
        """A group has given up so much that it had not used."""
        self._shares[channel][number] -= count

    def extend(self, channel: int, limit: int, places: Set[int]) -> None:
        """Give groups that have joined what the others have left."""
        size = self._size[channel] = -(-limit // len(places))
        known = self._shares.get(channel, {})
        self._shares[channel] = {number: known.get(number, 0) for number in sorted(places)}
        self._fill(channel, size * len(places))

    def grant(self, channel: int, number: int, count: int) -> None:
        """A group may push so many more, which another one had pushed before a queue moved."""
        shares = self._shares.get(channel, {})
        if number in shares:
            shares[number] += count

    def _fill(self, channel: int, total: int) -> None:
        """Raise each share to the even one, as far as the total allows."""
        shares, size = self._shares[channel], self._size[channel]
        left = max(total - sum(shares.values()), 0)
        for number, share in shares.items():
            more = min(max(size - share, 0), left)
            shares[number] += more
            left -= more

    def returned(self, channel: int, number: int) -> int:
        """The client has ended a message of a group: the group that may push one more now."""
        shares, size = self._shares.get(channel, {}), self._size.get(channel, 0)
        if shares.get(number, 0) > size:
            for other, share in shares.items():
                if share < size:
                    shares[number] -= 1
                    shares[other] += 1
                    return other
        return number
