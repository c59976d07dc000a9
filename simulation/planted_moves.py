"""Planted bugs of moves: in the mover, and in the fence."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from longhall.broker import partition
from longhall.broker.events import PartitionRenewed
from longhall.broker.queues import service, write
from longhall.broker.queues.delivery import receive
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.waiting import Commit
from longhall.cluster.placement.copy_calls import HALL
from longhall.cluster.placement.partition_mover import PartitionMover
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _switch_before_caught_up() -> _Replacements:
    async def copy_rest(self: Any, work: Any, place: Any) -> None:
        """What came since the last piece is forgotten."""

    return [(PartitionMover, "_copy_rest", copy_rest)]


def _forget_the_fence() -> _Replacements:
    def is_elsewhere(wings: list[int], moves: Any, number: int, wing: int) -> bool:
        return bool(wings) and wings[number % len(wings)] != wing

    return [(partition, "is_elsewhere", is_elsewhere)]


def _discard_before_proven() -> _Replacements:
    good: Any = PartitionMover._copy_rest

    async def copy_rest(self: Any, work: Any, place: Any) -> None:
        await good(self, work, place)
        if place.move.source == HALL:
            hall = self._hall
            commit = Commit()
            renewed = PartitionRenewed(
                topic_id=place.topic_id, number=place.move.partition, partition=hall.catalogue.next_partition
            )
            hall.append_catalogue(renewed, commit)
            await commit.future
            await asyncio.sleep(1.0)  # The switch takes its time.

    return [(PartitionMover, "_copy_rest", copy_rest)]


def _change_state(change: Any) -> _Replacements:
    good: Any = RunningQueue.state_for_copy

    def state_for_copy(self: Any) -> bytes:
        state = msgspec.msgpack.decode(good(self))
        change(state)
        return msgspec.msgpack.encode(state)

    return [(RunningQueue, "state_for_copy", state_for_copy)]


def _forget_leases() -> _Replacements:
    def change(state: Any) -> None:
        state[0]["leases"] = {"byte_order": state[0]["leases"]["byte_order"]}
        for lane in state[0]["lanes"]:
            lane[3] = []

    return _change_state(change)


def _forget_deduplication() -> _Replacements:
    def change(state: Any) -> None:
        state[2] = []

    return _change_state(change)


def _deliver_behind_the_fence() -> _Replacements:
    def check_here(queue: Any, *, leaving_only: bool = False) -> None:
        """The source goes on as if nothing were."""

    return [(module, "check_here", check_here) for module in (write, receive, service)]


MOVE_BUGS: Final[dict[str, Bug]] = {
    "switch-before-caught-up": Bug(
        "The target becomes the owner without the messages that came during the copy.",
        "moves",
        3,
        _switch_before_caught_up,
    ),
    "forget-the-fence": Bug(
        "The source accepts messages while the last piece of its log is copied.", "moves", 5, _forget_the_fence
    ),
    "forget-leases": Bug("The leases of a queue are not copied at the fence.", "queue-moves", 5, _forget_leases),
    "forget-deduplication": Bug(
        "The deduplication window of a queue stays behind at the fence.", "queue-moves", 10, _forget_deduplication
    ),
    "deliver-behind-the-fence": Bug(
        "The source delivers and settles while its state is copied.", "queue-moves", 5, _deliver_behind_the_fence
    ),
    "discard-before-proven": Bug(
        "The source discards its log before the target owns the partition.", "moves", 5, _discard_before_proven
    ),
}
