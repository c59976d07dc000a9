"""Planted bugs of transactions over several replication groups: in the markers, in the verification of batches, and in
the settles of queues.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from longhall.broker import send, transaction_participant, transaction_verification
from longhall.broker.queues.sending import topic_sends
from longhall.broker.queues.write import write_queue
from longhall.broker.settle_requests import SettleRequests
from longhall.broker.transaction_markers import MarkerWriter
from longhall.cluster.placement.transaction_operations import WriteMarkers
from longhall.errors import LonghallError
from longhall.queues.events import Held
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _mark_one_group() -> _Replacements:
    good: Any = MarkerWriter._write_round

    async def write_round(self: Any, markers: Any, places: Any) -> Any:
        groups = {_group_of(self._hall, place): place for place in places}
        first = min(groups, default=0)
        return await good(self, markers, [place for place in places if _group_of(self._hall, place) == first])

    return [(MarkerWriter, "_write_round", write_round)]


def _group_of(hall: Any, place: tuple[str, int]) -> int:
    partition = hall.partition(*place)
    wings = partition.options.wings if partition is not None else []
    return int(wings[place[1] % len(wings)]) if wings else 0


def _skip_leaderless_groups() -> _Replacements:
    async def write_to(self: Any, group: int, request: Any) -> Any:
        try:
            await self._hall.wings.call(group, WriteMarkers(request), now=True)
        except LonghallError:
            pass  # As if it had the marker.
        return []

    return [(MarkerWriter, "_write_to", write_to)]


def _append_without_asking() -> _Replacements:
    return [
        (transaction_verification, "_must_ask", lambda batch: False),
        (send, "check_transaction", lambda hall, partition, header, transactional_id, joins: None),
    ]


def _commit_in_other_groups() -> _Replacements:
    good: Any = MarkerWriter._request

    def request(self: Any, markers: Any, partitions: Any) -> Any:
        return msgspec.structs.replace(good(self, markers, partitions), committed=True)

    return [(MarkerWriter, "_request", request)]


def _hold_in_memory() -> _Replacements:
    def write(hall: Any, queue: Any, events: Any) -> None:
        for event in events:
            if isinstance(event, Held):
                queue.apply(event)
            else:
                write_queue(hall, queue, [event])

    return [(transaction_participant, "write_queue", write)]


def _tell_groups_once() -> _Replacements:
    async def end(self: Any, markers: Any, parts: Any) -> bool:
        step = transaction_participant.COMMIT if markers.committed else transaction_participant.ABORT
        for part in parts:
            await self._ask(step, part, markers.producer_id, self._epoch)
        return True

    return [(SettleRequests, "end", end)]


def _commit_without_promises() -> _Replacements:
    good: Any = SettleRequests.prepare

    async def prepare(self: Any, producer_id: int, parts: Any, is_open: Any) -> None:
        await good(self, producer_id, parts, is_open)

    return [(SettleRequests, "prepare", prepare)]


def _settle_what_was_aborted() -> _Replacements:
    good: Any = SettleRequests.end

    async def end(self: Any, markers: Any, parts: Any) -> Any:
        return await good(self, msgspec.structs.replace(markers, committed=True), parts)

    return [(SettleRequests, "end", end)]


def _send_facts_before_the_outcome() -> _Replacements:
    good: Any = vars(topic_sends)["build_batch"]

    def build_batch(records: Any, *more: Any, **fields: Any) -> bytes:
        batch: bytes = good(records)
        return batch

    return [(topic_sends, "build_batch", build_batch)]


TRANSACTION_BUGS: Final[dict[str, Bug]] = {
    "mark-one-group": Bug(
        "The outcome of a transaction is written to one of its replication groups only.",
        "wing-transactions",
        2,
        _mark_one_group,
    ),
    "skip-leaderless-groups": Bug(
        "A group that has no leader gets no markers.",
        "wing-transactions",
        4,
        _skip_leaderless_groups,
    ),
    "append-without-asking": Bug(
        "A group appends batches of transactions that its coordinator was not asked about.",
        "wing-transactions",
        2,
        _append_without_asking,
    ),
    "commit-in-other-groups": Bug(
        "An aborted transaction is committed in the groups that are not the coordinator's.",
        "wing-transactions",
        2,
        _commit_in_other_groups,
    ),
    "hold-in-memory": Bug(
        "A group forgets at a crash which messages it holds for a transaction.",
        "group-settles",
        2,
        _hold_in_memory,
    ),
    "tell-groups-once": Bug(
        "A group that does not answer is not told the outcome of a transaction again.",
        "group-settles",
        2,
        _tell_groups_once,
    ),
    "commit-without-promises": Bug(
        "A transaction is committed although a group does not hold its messages.",
        "group-settles",
        2,
        _commit_without_promises,
    ),
    "settle-what-was-aborted": Bug(
        "Groups settle the messages of aborted transactions.",
        "group-settles",
        2,
        _settle_what_was_aborted,
    ),
    "send-facts-before-the-outcome": Bug(
        "What a step sends to a topic of another group is no part of its transaction.",
        "group-settles",
        2,
        _send_facts_before_the_outcome,
    ),
}
