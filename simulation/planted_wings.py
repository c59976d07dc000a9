"""Planted bugs of wings: in the reconciler, and in the queue router that merges the answers of several groups."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from longhall.broker import producer_ids
from longhall.broker.pending import Pending, started
from longhall.broker.queue_catalogue import QueueCatalogue
from longhall.broker.queues.delivery.settle import change_leases
from longhall.broker.queues.service import QueueService
from longhall.broker.queues.upkeep import queue_administration as group_queues
from longhall.cluster.placement.group_topics import GroupTopics
from longhall.errors import Code, LonghallError
from longhall.node import operations
from longhall.service import placed_queues, queue_administration
from longhall.service.placed_queues import PlacedQueues
from longhall.service.placed_receive import PlacedReceive
from longhall.service.queue_administration import QueueAdministration
from longhall.service.queue_operations import ChangeLeases
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _send_to_the_next_wing() -> _Replacements:
    async def send_near(self: Any, queue: Any, op: Any, caller: Any) -> Any:
        for number in self._groups.nearest(queue.settings.wings):
            try:
                return await self._ask(queue, number, op, caller, now=True)
            except LonghallError:
                continue  # Whether or not it was accepted there.
        return await self._ask(queue, queue.settings.wings[0], op, caller)

    return [(PlacedQueues, "_send_near", send_near)]


def _take_turns_with_groups() -> _Replacements:
    def lane_of(settings: Any, message: Any, turn: int) -> int:
        return turn % len(settings.wings)

    return [(placed_queues, "lane_of", lane_of)]


def _keep_what_nobody_waits_for() -> _Replacements:
    def keep(self: Any, number: int, queue: str, deliveries: Any) -> None:
        """They stay leased."""

    return [(PlacedReceive, "_return", keep), (QueueService, "_return_undelivered", lambda *arguments: None)]


def _count_what_nobody_saw() -> _Replacements:
    def count(self: Any, number: int, queue: str, deliveries: Any) -> None:
        changes = [(delivery.receipt, 0) for delivery in deliveries]
        if changes:
            self._groups.call(number, ChangeLeases(queue, changes))

    def count_here(self: Any, queue: Any, account: Any, deliveries: Any) -> None:
        started(change_leases(self._hall, queue, [(delivery.receipt, 0) for delivery in deliveries]))

    return [(PlacedReceive, "_return", count), (QueueService, "_return_undelivered", count_here)]


def _end_in_the_middle() -> _Replacements:
    """A receiver that is cancelled ends at once, also with leases that no reply has told of."""

    def cancel(self: Any) -> None:
        if self.done:
            return
        action, work = self._on_cancel, self._work
        self.fail(asyncio.CancelledError())
        if work is not None:
            work.cancel()
        if action is not None:
            action()

    return [(Pending, "cancel", cancel)]


def _take_the_namesake() -> _Replacements:
    good: Any = GroupTopics.apply

    async def apply(self: Any, spec: Any) -> None:
        topic = self._hall.catalogue.topics.get(spec.name)
        if topic is not None:
            spec = msgspec.structs.replace(spec, topic_id=topic.topic_id)
        await good(self, spec)

    def check_incarnation(self: Any, name: str, topic_id: bytes) -> None:
        return

    return [(GroupTopics, "apply", apply), (GroupTopics, "check_incarnation", check_incarnation)]


def _divide_what_is_one() -> _Replacements:
    def default_placement(
        hosts: int, partitions: int, configuration: Any, settings: Any = None, letters: Any = None, supports: Any = None
    ) -> str:
        return "parts" if hosts > 1 else "hall"

    def lanes_of(placement: str, partitions: int) -> int:
        return 3

    return [
        (queue_administration, "default_placement", default_placement),
        (queue_administration, "lanes_of", lanes_of),
    ]


def _place_anew() -> _Replacements:
    good: Any = QueueAdministration._configure

    async def configure(self: Any, op: Any, caller: Any) -> None:
        view = self._queues.view(op.queue)
        if view is not None and view.settings.placement == "share":
            settings = msgspec.structs.replace(view.settings, wings=tuple(self._groups.spread()[:1]))
            await self._queues.configure(op.queue, settings)
            await self._groups.furnish(op.queue)
            return
        await good(self, op, caller)

    return [(QueueAdministration, "_configure", configure)]


def _begin_at_the_end() -> _Replacements:
    """A group that gets a fork late begins where its log ends by then."""
    good: Any = group_queues.declare_placed

    async def declare_placed(
        hall: Any, name: str, topic_id: bytes, settings: Any, starts: Any, queue_id: bytes = b""
    ) -> Any:
        if hall.options.wing:
            topic = hall.catalogue.by_id[topic_id]
            starts = {one.number: one.high_watermark for one in hall.routes[topic.name]}
        return await good(hall, name, topic_id, settings, starts, queue_id=queue_id)

    return [(group_queues, "declare_placed", declare_placed)]


def _forget_where_forks_begin() -> _Replacements:
    """The hall does not write down where a fork begins: its groups begin at the start of the log."""

    good: Any = QueueCatalogue.decide_declare

    def decide_declare(
        self: Any,
        name: str,
        queue_id: bytes,
        number: int,
        topic_id: bytes,
        owns_topic: bool,
        settings: Any,
        now_ms: int,
        starts: Any = None,
    ) -> Any:
        return good(self, name, queue_id, number, topic_id, owns_topic, settings, now_ms)

    return [(QueueCatalogue, "decide_declare", decide_declare)]


def _take_the_fork_before() -> _Replacements:
    """A fork of the same name that a group still has is taken for the new one."""

    async def apply_over(self: Any, topic_id: bytes, spec: Any) -> None:
        if spec.name not in self._hall.catalogue.queues.by_name:
            starts, queue_id = spec.starts, spec.queue_id
            await group_queues.declare_placed(self._hall, spec.name, topic_id, spec.settings, starts, queue_id=queue_id)

    def check_incarnation(self: Any, name: str, incarnation: bytes) -> None:
        if name not in self._hall.catalogue.queues.by_name:
            raise LonghallError(Code.UNKNOWN_QUEUE, "it is not here")

    return [(GroupTopics, "_apply_over", apply_over), (GroupTopics, "check_incarnation", check_incarnation)]


def _give_uncommitted_blocks() -> _Replacements:
    async def committed(hall: Any, shard: Any, whom: int = 0) -> None:
        """The next leader does not know the block."""

    return [(producer_ids, "committed", committed)]


def _reserve_what_the_leader_gives_out() -> _Replacements:
    async def reserve(hall: Any) -> Any:
        below = hall.catalogue.producer_ids_below
        return producer_ids.ProducerIdBlock(max(below - 1, 0), below or 1)

    return [(operations, "reserve_producer_ids", reserve)]


WING_BUGS: Final[dict[str, Bug]] = {
    "give-uncommitted-blocks": Bug(
        "A block of producer ids is given away before its event is committed.",
        "wing-topics",
        8,
        _give_uncommitted_blocks,
    ),
    "reserve-twice": Bug(
        "Processes get the block of producer ids that the leader of the hall gives out itself.",
        "wing-topics",
        2,
        _reserve_what_the_leader_gives_out,
    ),
    "send-to-the-next-wing": Bug(
        "A message that a wing may have accepted is sent to the next one.", "cluster-wings", 10, _send_to_the_next_wing
    ),
    "take-turns-with-groups": Bug(
        "The messages of a group go to one wing after another.", "cluster-wings", 2, _take_turns_with_groups
    ),
    "keep-what-nobody-waits-for": Bug(
        "Messages that another wing offered a receiver are not given back.",
        "cluster-wings",
        4,
        _keep_what_nobody_waits_for,
    ),
    "count-what-nobody-saw": Bug(
        "A message that another wing offered a receiver uses up an attempt.", "cluster-wings", 4, _count_what_nobody_saw
    ),
    "end-in-the-middle": Bug(
        "A receive that is told to stop waiting forgets what it has leased.", "cluster-wings", 4, _end_in_the_middle
    ),
    "divide-what-is-one": Bug(
        "A queue that delivers one by one is spread over several wings.", "cluster-wings", 2, _divide_what_is_one
    ),
    "place-anew": Bug(
        "A queue without a placement is placed again whenever its settings change.", "cluster-wings", 2, _place_anew
    ),
    "begin-at-the-end": Bug(
        "A group that gets a fork late begins at the end of its log.", "forks", 2, _begin_at_the_end
    ),
    "forget-where-forks-begin": Bug(
        "The catalogue does not keep the offsets at which a fork begins.", "forks", 2, _forget_where_forks_begin
    ),
    "take-the-fork-before": Bug(
        "A deleted fork that a group still has is taken for the new one of its name.",
        "forks",
        4,
        _take_the_fork_before,
    ),
    "take-the-namesake": Bug(
        "A deleted queue is taken for the current one of the same name.",
        "namesakes",
        10,
        _take_the_namesake,
    ),
}
