"""Planted bugs of share groups, whose members take turns with SQS consumers."""

from __future__ import annotations

from typing import Any, Final

from longhall.broker.queues.write import write_queue
from longhall.broker.share import acknowledgement, share_fetch
from longhall.broker.share.holdings import Holding
from longhall.queues.events import Settled
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _accept_in_memory() -> _Replacements:
    def write(hall: Any, queue: Any, events: Any) -> None:
        for event in events:
            if isinstance(event, Settled):
                queue.queue.apply(event)
            else:
                write_queue(hall, queue, [event])

    return [(acknowledgement, "write_queue", write)]


def _acquire_before_commit() -> _Replacements:
    async def not_waiting(hall: Any, shard: Any, whom: int = 0) -> None:
        pass

    return [(share_fetch, "committed", not_waiting)]


def _acknowledge_what_others_hold() -> _Replacements:
    def is_held(queue: Any, lane: int, offset: int, number: int, now_ms: int) -> bool:
        return queue.queue.lease_of(lane, offset) is not None

    return [(acknowledgement, "is_held", is_held)]


def _acknowledge_the_original() -> _Replacements:
    def place_of(holding: Any, offset: int) -> tuple[int, int]:
        return holding.lane, offset

    return [(Holding, "place_of", place_of)]


SHARE_BUGS: Final[dict[str, Bug]] = {
    "share-accept-in-memory": Bug("An accepted record is answered and not logged.", "shares", 4, _accept_in_memory),
    "share-acquire-before-commit": Bug(
        "Records are acquired before their lease is durable.", "shares", 6, _acquire_before_commit
    ),
    "share-accept-at-one-leader": Bug(
        "An accepted record is known to one leader alone.", "cluster-shares", 4, _accept_in_memory
    ),
    "share-acknowledge-the-original": Bug(
        "A message with a priority is acknowledged at its offset in the topic, not in the lane where it is leased.",
        "shares",
        4,
        _acknowledge_the_original,
    ),
    "share-acknowledge-what-others-hold": Bug(
        "A share member acknowledges a message that an SQS consumer has by now.",
        "shares",
        4,
        _acknowledge_what_others_hold,
    ),
}
