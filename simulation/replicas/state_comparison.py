"""Comparison of the tables that follow from the log alone: equal on all replicas that have applied the same entries.

Left out is what each node does by itself: segment boundaries, expired messages, row numbers of leases. The end of a
lease is compared only where both replicas have the lease, since leases end without an event.
"""

from __future__ import annotations

from typing import Any

from longhall.broker.hall import Hall
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.state_digest import offset_rows, queue_rows
from longhall.queues.leases import LEASED
from simulation.checkers.violation import demand


def compare_tables(leader: Hall, other: Hall, name: str) -> None:
    """Raise a Violation if a table differs from the leader's."""
    here, there = tables_of(leader), tables_of(other)
    demand(sorted(here) == sorted(there), f"{name} has other tables than the leader: {sorted(there)}")
    for table, content in here.items():
        demand(
            there[table] == content,
            f"{name} has another {table} than the leader: {there[table]!r:.300} and {content!r:.300}",
        )
    theirs = _leases_of(other)
    for place, ends_ms in _leases_of(leader).items():
        found_ms = theirs.get(place, ends_ms)
        demand(found_ms == ends_ms, f"{name} has a lease on {place} until {found_ms}, the leader until {ends_ms}")
    for number, queue in leader.queues.items():
        known, known_there = (_ids_of(one.queues[number]) for one in (leader, other))
        lacking = len(known - known_there)
        demand(not lacking, f"{name} lacks {lacking} deduplication ids of {queue.entry.name}")


def tables_of(hall: Hall) -> dict[str, object]:
    """The comparable tables of a hall, by name."""
    found: dict[str, object] = {"catalogue": hall.catalogue.snapshot()}
    for number, partition in hall.partitions.items():
        log, producers = partition.log, partition.producers
        found[f"log {number}"] = (log.start_offset, log.next_offset)
        if producers is not None:
            state: dict[str, Any] = producers.snapshot()
            found[f"producers {number}"] = (sorted(state["producers"]), state["aborted"])
    for number, queue in hall.queues.items():
        found[f"queue {number}"] = queue_rows(queue)
    for shard in range(len(hall.shards) - 1):
        found[f"moves {shard}"] = hall.redrives[shard].snapshot()
        found[f"uploads {shard}"] = hall.uploads[shard].snapshot()
        found[f"wholes {shard}"] = hall.chunked_messages[shard].snapshot()
        groups = hall.groups[shard].snapshot()["groups"]
        found[f"offsets {shard}"] = sorted(repr((group, offset_rows(offsets))) for group, _, offsets in groups)
        found[f"transactions {shard}"] = sorted(map(repr, hall.transactions[shard].snapshot()["transactions"]))
    return found


def _leases_of(hall: Hall) -> dict[tuple[int, int, int], int]:
    found: dict[tuple[int, int, int], int] = {}
    for number, queue in hall.queues.items():
        leases = queue.queue.state.leases
        for row in range(len(leases.state)):
            if leases.state[row] == LEASED:
                found[number, leases.lane[row], leases.offset[row]] = leases.deadline_ms[row]
    return found


def _ids_of(queue: RunningQueue) -> set[bytes]:
    found: set[bytes] = set()
    for block in queue.sent.snapshot():
        marks = bytes(block[2])
        found |= {marks[at : at + 16] for at in range(0, len(marks), 16)}
    return found
