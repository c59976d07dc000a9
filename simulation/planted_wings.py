"""Planted bugs of wings: of whoever looks after them, and of those who put together what several logs have."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from longhall.cluster.wings import calls, concourse
from longhall.cluster.wings.answering import Answering
from longhall.cluster.wings.concourse import Concourse
from longhall.cluster.wings.receiving import Receiving
from longhall.errors import LonghallError
from simulation.bug import Bug

_Exchanges = list[tuple[Any, str, Any]]


def _send_to_the_next_wing() -> _Exchanges:
    async def send_near(self: Any, name: str, wings: tuple[int, ...], messages: Any) -> Any:
        for number in self._reach.nearest(wings):
            try:
                return await self._ask(name, number, calls.SEND, name, messages, now=True)
            except LonghallError:
                continue  # Whether or not it was taken there.
        return await self._ask(name, wings[0], calls.SEND, name, messages)

    return [(Concourse, "_send_near", send_near)]


def _take_turns_with_groups() -> _Exchanges:
    def lane_of(settings: Any, message: Any, turn: int) -> int:
        return turn % len(settings.wings)

    return [(concourse, "lane_of", lane_of)]


def _keep_what_nobody_waits_for() -> _Exchanges:
    async def give_back(self: Any, number: int, name: str, task: Any) -> None:
        await task

    return [(Receiving, "_give_back", give_back)]


def _count_what_nobody_saw() -> _Exchanges:
    async def give_back(self: Any, number: int, name: str, task: Any) -> None:
        receipts = [(one.receipt, 0) for one in await task]
        if receipts:
            await self._reach.call(number, calls.CHANGE_LEASE, name, receipts, "")

    return [(Receiving, "_give_back", give_back)]


def _end_in_the_middle() -> _Exchanges:
    """Whoever is told that it is enough ends at once, also with leases that it has not told of."""

    def end(self: Any, ticket: str) -> None:
        if ticket in self._waiting:
            self._waiting[ticket][0].cancel()

    return [(Answering, "_end", end)]


def _take_the_namesake() -> _Exchanges:
    good: Any = Answering._furnish

    async def furnish(self: Any, wanted: Any) -> None:
        topic = self._hall.catalogue.topics.get(wanted.name)
        if topic is not None:
            wanted = msgspec.structs.replace(wanted, topic_id=topic.topic_id)
        await good(self, wanted)

    def check_life(self: Any, name: str, life: bytes) -> None:
        return

    return [(Answering, "_furnish", furnish), (Answering, "_check_life", check_life)]


WING_BUGS: Final[dict[str, Bug]] = {
    "send-to-the-next-wing": Bug(
        "What a wing may have taken is sent to the next one.", "cluster-wings", 10, _send_to_the_next_wing
    ),
    "take-turns-with-groups": Bug(
        "The messages of a group go to one wing after another.", "cluster-wings", 2, _take_turns_with_groups
    ),
    "keep-what-nobody-waits-for": Bug(
        "What another wing had for a receiver is not given back.", "cluster-wings", 4, _keep_what_nobody_waits_for
    ),
    "count-what-nobody-saw": Bug(
        "What another wing had for a receiver has used up an attempt.", "cluster-wings", 4, _count_what_nobody_saw
    ),
    "end-in-the-middle": Bug(
        "A receiver that is told to wait no longer forgets what it has leased.", "cluster-wings", 4, _end_in_the_middle
    ),
    "take-the-namesake": Bug(
        "A queue of the same name, deleted long ago, is taken for the one that is meant.",
        "namesakes",
        10,
        _take_the_namesake,
    ),
}
