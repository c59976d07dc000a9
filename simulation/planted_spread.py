"""Planted bugs of queues that grow in wings, and of AMQP queues there."""

from __future__ import annotations

from typing import Any, Final

from longhall.broker.queues.upkeep import resizer
from longhall.cluster.placement.placed_resizer import PlacedResizer
from longhall.service.exchanges import ExchangeService
from longhall.service.placed_session import GroupSession
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _grow_without_marks() -> _Replacements:
    return [(resizer, "mark_all", lambda queues: [])]


def _grow_in_the_hall_alone() -> _Replacements:
    async def tell(self: Any, topic: Any, groups: Any, counts: Any) -> Any:
        return []

    return [(PlacedResizer, "_tell", tell)]


def _forget_consumers() -> _Replacements:
    async def add_again(self: Any, consumers: Any) -> None:
        """The next leader of the group has no consumers."""

    return [(GroupSession, "_add_again", add_again)]


def _confirm_what_may_be_lost() -> _Replacements:
    async def publish(self: Any, publishing: Any, here: Any, under_way: Any) -> Any:
        return await here

    return [(ExchangeService, "_publish_elsewhere", publish)]


SPREAD_BUGS: Final[dict[str, Bug]] = {
    "grow-in-wings-without-marks": Bug(
        "A FIFO group in a wing moves to a new part at once.", "wing-growth", 4, _grow_without_marks
    ),
    "grow-in-the-hall-alone": Bug(
        "Clients see new parts that no group has.", "wing-growth", 2, _grow_in_the_hall_alone
    ),
    "forget-consumers-of-wings": Bug(
        "Consumers are not added again at the next leader of a group.", "wing-amqp", 2, _forget_consumers
    ),
    "confirm-before-the-wing": Bug(
        "A publication is confirmed before the group of its queue has it.", "wing-amqp", 4, _confirm_what_may_be_lost
    ),
}
