"""Planted bugs of queues. In most of them an answer precedes its commit, or a state is in memory only.

See `planted` for how they are put in.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from longhall.broker.hall_time import HallTime
from longhall.broker.queues import service
from longhall.broker.queues.dead_letters import dead_lettering, redrive
from longhall.broker.queues.delays import delay_promotion
from longhall.broker.queues.delivery import receive, settle
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.upkeep import resizer
from longhall.broker.queues.write import write_queue, write_staging
from longhall.queues.auxiliary_events import StagedSettled
from longhall.queues.events import Died, Extended, Leased, Purged, Settled
from longhall.queues.lanes import Lane
from longhall.queues.leases import Leases
from longhall.queues.marks import Marks
from longhall.queues.parts import Senders
from longhall.queues.queue import Queue
from longhall.queues.staging import DUE_NOW, Staging
from longhall.queues.state import State
from longhall.shards.shard import QUEUES, Committable
from simulation.bug import Bug

_FOR_EVER_MS: Final = 1 << 62


def _in_memory_only(kind: type) -> Any:
    """A function that writes the events of queues, except those of this kind."""

    def write(hall: Any, queue: Any, events: Any) -> None:
        for event in events:
            if isinstance(event, kind):
                queue.queue.apply(event)
            else:
                write_queue(hall, queue, [event])

    return write


def _deliver_before_commit() -> list[tuple[Any, str, Any]]:
    async def not_waiting(hall: Any, shard: Any, whom: int = 0) -> None:
        pass

    def at_once(hall: Any, shard: Any, target: Any, whom: int = 0) -> None:
        target.committed(0)

    return [(receive, "committed", not_waiting), (receive, "when_committed", at_once)]


class _Applying(Committable):
    """Applies an event to the queue when it is durable, and not at once."""

    def __init__(self, queue: Any, event: Any) -> None:
        self._queue = queue
        self._event = event

    def committed(self, value: int) -> None:
        self._queue.queue.apply(self._event)


def _lease_twice_while_syncing() -> list[tuple[Any, str, Any]]:
    def write(hall: Any, queue: Any, events: Any) -> None:
        for event in events:
            hall.append_event(queue.shard, QUEUES, event)
            queue.shard.wait(_Applying(queue, event), 0)

    return [(receive, "write_queue", write)]


def _settle_in_memory() -> list[tuple[Any, str, Any]]:
    return [(settle, "write_queue", _in_memory_only(Settled))]


def _extend_in_memory() -> list[tuple[Any, str, Any]]:
    return [(settle, "write_queue", _in_memory_only(Extended))]


def _purge_in_memory() -> list[tuple[Any, str, Any]]:
    return [(service, "write_queue", _in_memory_only(Purged))]


def _bury_without_settling() -> list[tuple[Any, str, Any]]:
    return [(dead_lettering, "write_queue", _in_memory_only(Died))]


def _redrive_without_settling() -> list[tuple[Any, str, Any]]:
    return [(redrive, "write_queue", _in_memory_only(Settled))]


def _drop_dead_letters() -> list[tuple[Any, str, Any]]:
    return [(dead_lettering, "_move", lambda *_: "")]


def _move_without_settling_the_staged() -> list[tuple[Any, str, Any]]:
    def write(hall: Any, queue: Any, events: Any) -> None:
        for event in events:
            if isinstance(event, StagedSettled):
                queue.staging.apply(event)
            else:
                write_staging(hall, queue, [event])

    return [(delay_promotion, "write_staging", write)]


def _open_a_whole_slice() -> list[tuple[Any, str, Any]]:
    return [(Staging, "route", lambda self, key, due_ms, now_ms: DUE_NOW)]


def _forget_leases() -> list[tuple[Any, str, Any]]:
    good: Any = RunningQueue.restore

    def restore(self: Any, state: list[Any]) -> None:
        good(self, state)
        self.queue.tick(_FOR_EVER_MS)

    return [(RunningQueue, "restore", restore)]


def _forget_deduplication() -> list[tuple[Any, str, Any]]:
    good: Any = RunningQueue.restore

    def restore(self: Any, state: list[Any]) -> None:
        good(self, [*state[:2], [], *state[3:]])

    return [(RunningQueue, "restore", restore)]


def _forget_blocked_groups() -> list[tuple[Any, str, Any]]:
    """The messages of a snapshot lose their groups: what is leased blocks nothing."""
    good: Any = State.restore
    enrol_well: Any = Lane.enrol

    def enrol(self: Any, row: int, name: str) -> None:
        enrol_well(self, row, "")

    def restore(self: Any, state: dict[str, Any]) -> None:
        Lane.enrol = enrol  # type: ignore[method-assign]
        try:
            good(self, state)
        finally:
            Lane.enrol = enrol_well  # type: ignore[method-assign]

    return [(State, "restore", restore)]


def _forget_lapses() -> list[tuple[Any, str, Any]]:
    good: Any = Leases.snapshot

    def snapshot(self: Any) -> dict[str, Any]:
        columns: dict[str, Any] = good(self)
        if "state" in columns:
            columns["state"] = self.state.tobytes()  # Returned at the end of the lease, without the delay.
        return columns

    return [(Leases, "snapshot", snapshot)]


def _deliver_late_twice() -> list[tuple[Any, str, Any]]:
    good: Any = RunningQueue.takes

    def takes(self: Any, partition: Any, header: Any, record: Any) -> bool:
        return bool(self.settings.late_stamped == "head" or good(self, partition, header, record))

    return [(RunningQueue, "takes", takes)]


def _forget_attempts() -> list[tuple[Any, str, Any]]:
    good: Any = Leases.snapshot

    def snapshot(self: Any) -> dict[str, Any]:
        columns: dict[str, Any] = good(self)
        if "attempts" in columns:
            columns["attempts"] = bytes(len(columns["attempts"]))
        return columns

    return [(Leases, "snapshot", snapshot)]


def _forget_pauses() -> list[tuple[Any, str, Any]]:
    good: Any = State.restore

    def restore(self: Any, state: dict[str, Any]) -> None:
        good(self, {**state, "paused": False})

    return [(State, "restore", restore)]


def _grow_without_marks() -> list[tuple[Any, str, Any]]:
    return [(resizer, "mark_all", lambda queues: [])]


def _mark_nobody_who_chooses() -> list[tuple[Any, str, Any]]:
    return [(Senders, "notices_growth", lambda self, sender, part: False)]


def _forget_marks() -> list[tuple[Any, str, Any]]:
    return [(Marks, "restore", lambda self, state, lanes: None)]


def _take_old_receipts() -> list[tuple[Any, str, Any]]:
    def row_of(self: Any, lane_id: int, offset: int, number: int, *, earlier: bool = False) -> Any:
        return self.state.lanes[lane_id].cursor.find(offset)

    return [(Queue, "_row_of", row_of)]


def _settle_once_in_memory() -> list[tuple[Any, str, Any]]:
    def write(hall: Any, queue: Any, events: Any) -> None:
        for event in events:
            hall.append_event(
                queue.shard,
                QUEUES,
                msgspec.structs.replace(event, settled=False) if isinstance(event, Leased) else event,
            )
            queue.queue.apply(event)

    return [(receive, "write_queue", write)]


def _believe_the_wall_clock() -> list[tuple[Any, str, Any]]:
    return [(HallTime, "now_ms", lambda self: self._clock.wall_ms())]


QUEUE_BUGS: Final[dict[str, Bug]] = {
    "deliver-before-commit": Bug(
        "Messages are delivered before their lease is durable.", "leases", 8, _deliver_before_commit
    ),
    "lease-twice-while-syncing": Bug(
        "A lease holds only from its sync on, so two consumers get the message.",
        "leases",
        2,
        _lease_twice_while_syncing,
    ),
    "settle-in-memory": Bug("A settle is answered and not logged.", "leases", 4, _settle_in_memory),
    "extend-in-memory": Bug("An extension is answered and not logged.", "leases", 10, _extend_in_memory),
    "purge-in-memory": Bug("A purge does not survive a crash.", "leases", 10, _purge_in_memory),
    "settle-once-in-memory": Bug(
        "An at-most-once delivery is forgotten in a crash.", "leases", 4, _settle_once_in_memory
    ),
    "forget-leases": Bug("Deadlines of leases do not survive a restart.", "leases", 4, _forget_leases),
    "forget-pauses": Bug("A paused queue is not paused after a restart.", "leases", 10, _forget_pauses),
    "take-old-receipts": Bug("A superseded receipt still works.", "leases", 4, _take_old_receipts),
    "forget-deduplication": Bug(
        "The deduplication window does not survive a restart.", "lines", 10, _forget_deduplication
    ),
    "forget-blocked-groups": Bug("A blocked group is not blocked after a restart.", "lines", 4, _forget_blocked_groups),
    "grow-without-marks": Bug("A group moves to a new part at once.", "resizes", 4, _grow_without_marks),
    "mark-nobody-who-chooses": Bug(
        "A Kafka producer learns of new partitions, and messages of its keys overtake.",
        "resizes",
        4,
        _mark_nobody_who_chooses,
    ),
    "forget-marks": Bug("A restart forgets the messages of a group in other parts.", "resizes", 4, _forget_marks),
    "forget-attempts": Bug("Snapshots lack the attempts.", "letters", 4, _forget_attempts),
    "forget-lapses": Bug("The retry delay after an expired lease ends in a crash.", "letters", 20, _forget_lapses),
    "deliver-late-twice": Bug(
        "A late message is delivered from the head and from its place.", "parcels", 4, _deliver_late_twice
    ),
    "bury-without-settling": Bug("A dead letter stays in its queue as well.", "letters", 4, _bury_without_settling),
    "drop-dead-letters": Bug("A dead message is not moved to the dead-letter queue.", "letters", 2, _drop_dead_letters),
    "redrive-without-settling": Bug("A redriven message stays a dead letter.", "letters", 4, _redrive_without_settling),
    "move-without-settling-the-staged": Bug(
        "A delayed message stays in the staging lane after its promotion.",
        "leases",
        4,
        _move_without_settling_the_staged,
    ),
    "believe-the-wall-clock": Bug(
        "A change of the wall clock ends leases and delays.", "clocks", 2, _believe_the_wall_clock
    ),
    "open-a-whole-slice": Bug("A slice of delays ends when it begins.", "delays", 2, _open_a_whole_slice),
}
