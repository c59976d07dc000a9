"""In-place repair: damaged batches of a segment are replaced with the same batches of another replica.

    find      the whole segment is checked beside the loop, for damaged stretches
    ask       the other replicas, in turn, for the batches of those offsets (`repair_source`)
    write     the batches over the damaged bytes, durably, and rebuild the index

One segment at a time, on the leader and on followers. A batch that is damaged on every replica is refused to readers,
as on a single node; while a replica that may have it does not answer, the repair is tried again. A stretch cannot be
repaired in place if the cleaner has rewritten the segment on one side, or if the disk fails: then a leader becomes
unfit, so that another node leads, and a follower does a full sync from the leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, final

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.cluster.replication.repair_source import REPORT, BatchState, DamageReport, RepairSource, gather
from longhall.cluster.rpc.peers import Audience, Peers
from longhall.cluster.rpc.wire import decode
from longhall.errors import LonghallError
from longhall.log.layout import segment_path
from longhall.log.segment import Segment
from longhall.log.segment_repair import STRETCH_BYTES_MAX, Stretch
from longhall.names import CATALOGUE_SHARD
from longhall.shards.commit_tracker import CommitTracker
from longhall.world.ports import World

WAITING_MAX: Final = 256  # Segments that wait for their repair; damage beyond that is found again by the next read.
CALLBACKS_MAX: Final = 64  # Readers that wait for the repair of one segment.
RETRY_S: Final = 1.0  # Between two attempts while a replica that may have the batches does not answer.
LOST_S: Final = 30.0  # How long a stretch that every replica has damaged is not asked for again.
PATCHED_BYTES: Final = 16 * 1024 * 1024  # Written together.
FAILURES_MAX: Final = 3  # In a row, of the disk or without a finding: then another node should lead.

_log = logging.getLogger("longhall.repair")


class RepairTarget(Protocol):
    """The replica whose segments are repaired."""

    @property
    def leading(self) -> CommitTracker | None:
        """The leader's commit tracker; None at a replica that does not lead."""

    def leader_of(self, shard: int) -> int:
        """The node that leads; 0 for none."""

    def refetch(self, reason: str) -> None:
        """The data here cannot be repaired: a full sync from the leader replaces it."""


@final
class ReplicaRepair:
    """The repairs of one replica: the segments that wait for theirs, and the stretches that cannot be repaired."""

    def __init__(self, hall: Hall, peers: Peers, target: RepairTarget) -> None:
        self.is_unfit = False  # Something is damaged and stays so: another node should lead.
        self._hall = hall
        self._peers = peers
        self._target = target
        self._source = RepairSource(hall, peers)
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[int, int], list[Callable[[], None]]] = {}  # By partition and base offset.
        self._lost: dict[int, list[tuple[float, int, int]]] = {}  # By partition: until when, which offsets.
        self._hopeless: set[tuple[int, int]] = set()  # Damaged here for good, and whole at another replica.
        self._failures: dict[tuple[int, int], tuple[int, float]] = {}  # Failed attempts, and the time of the last.
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        peers.serve(REPORT, self._answer_report, Audience.MEMBERS)

    async def _answer_report(self, node: int, body: bytes) -> bytes:
        """A replica that copies from here has found damage that no reader has met yet."""
        report = decode(body, DamageReport)
        self.request(report.partition, report.offset, _ignore)
        return b""

    def request(self, number: int, offset: int, on_repaired: Callable[[], None]) -> bool:
        """A message cannot be read. False if no replica has it; otherwise `on_repaired` is called when a reader should
        try again.
        """
        partition = self._hall.partitions.get(number)
        segment = segment_of(partition, offset) if partition is not None else None
        if self._ended or partition is None or segment is None or not self._others():
            return False
        if any(first <= offset < behind for first, behind in partition.log.damaged) or self._is_lost(number, offset):
            return False
        key = (number, segment.base_offset)
        if key in self._hopeless:
            return True  # Another node is about to lead.
        if key in self._waiting or len(self._waiting) < WAITING_MAX:
            waiting = self._waiting.setdefault(key, [])
            if len(waiting) < CALLBACKS_MAX:
                waiting.append(on_repaired)
            if self._task is None:
                self._task = self._hall.background.start("mend", self._run)
        return True

    def stop(self) -> None:
        """End the repairs, and have the readers that wait try again."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()
        for key in list(self._waiting):
            self._notify(key)

    def _is_lost(self, number: int, offset: int) -> bool:
        now_s = self._loop.time()
        ranges = [one for one in self._lost.get(number, ()) if one[0] > now_s]
        if ranges:
            self._lost[number] = ranges
        else:
            self._lost.pop(number, None)
        return any(first <= offset < behind for _, first, behind in ranges)

    def _notify(self, key: tuple[int, int]) -> None:
        for on_repaired in self._waiting.pop(key, ()):
            on_repaired()

    async def _run(self) -> None:
        """Repair one segment after another; failed ones are tried again after a pause."""
        while self._waiting:
            again = False
            for key in list(self._waiting):
                if await self._attempt(key):
                    self._notify(key)
                else:
                    again = True
            if again:
                await asyncio.sleep(RETRY_S)
        self._task = None  # Not after a failure: then the supervisor starts it again.

    async def _attempt(self, key: tuple[int, int]) -> bool:
        try:
            return await self._repair(key)
        except LonghallError as error:
            _log.warning("a segment could not be repaired", extra={"partition": key[0], "reason": str(error)})
            return False
        except OSError as error:
            return self._count_failure(key, f"a segment cannot be read or written: {error}")

    def _count_failure(self, key: tuple[int, int], reason: str) -> bool:
        """An attempt failed. True if there were enough of them."""
        partition = self._hall.partitions.get(key[0])
        if partition is None or all(one.base_offset != key[1] for one in partition.log.segments):
            return True  # It is gone.
        now_s = self._loop.time()
        failures, last_s = self._failures.pop(key, (0, now_s))
        failures = failures + 1 if now_s - last_s < LOST_S else 1
        if failures >= FAILURES_MAX:
            self._give_up(key, reason)
            return True
        self._failures[key] = (failures, now_s)
        if len(self._failures) > WAITING_MAX:
            del self._failures[next(iter(self._failures))]
        return False

    def _give_up(self, key: tuple[int, int], reason: str) -> None:
        self.is_unfit = True
        if len(self._hopeless) < WAITING_MAX:
            self._hopeless.add(key)
        if self._target.leading is not None or self._target.leader_of(CATALOGUE_SHARD) in (0, self._peers.node):
            _log.error("a message cannot be read here; another node should lead", extra={"reason": reason})
        else:
            _log.error("a message cannot be repaired here; a full sync begins", extra={"reason": reason})
            self._target.refetch(reason)

    def _others(self) -> list[int]:
        """The other replicas, as far as this node knows."""
        leading, leadership = self._target.leading, self._hall.leadership
        replicas: Iterable[int] = self._peers.addresses
        if leading is not None and leading.replicas is not None:
            replicas = leading.replicas
        elif leading is None and leadership is not None:
            replicas = leadership.replicas(CATALOGUE_SHARD)
        return sorted(set(replicas) - {self._peers.node})

    async def _repair(self, key: tuple[int, int]) -> bool:
        """Check one segment and repair what can be repaired. True if nothing is left to wait for."""
        number, base_offset = key
        partition = self._hall.partitions.get(number)
        segment = segment_of(partition, base_offset) if partition is not None else None
        if partition is None or segment is None or segment.base_offset != base_offset:
            return True  # It is gone.
        path = segment_path(number, base_offset)
        size_bytes = segment.written_bytes
        next_offset = min(segment.next_offset, partition.log.tail_offset)
        one: dict[str, object] = {"path": path, "size_bytes": size_bytes, "next_offset": next_offset}
        found: Any = await self._hall.world.janitor.run("find_damage", {"segments": [one]})
        outcomes: list[BatchState] = []
        patches = Patches(self._hall.world, one)
        for numbers in found["damaged"][0]:
            outcome, data = await self._ask(partition, key, Stretch(*numbers))
            if outcome is BatchState.WHOLE:
                await patches.add(numbers, data)
            else:
                outcomes.append(outcome)
        await patches.finish()
        outcomes += [BatchState.WHOLE] * len(patches.mended) + [BatchState.UNKNOWN] * patches.failed
        self._hall.mended += len(patches.mended)
        for stretch in patches.mended:
            details = {"partition": number, "offset": stretch.first, "behind": stretch.behind}
            _log.warning("damaged messages were repaired", extra=details)
        if BatchState.WHOLE in outcomes or not outcomes:
            if any(each.base_offset == base_offset for each in partition.log.closed_segments):
                await self._hall.world.janitor.run("rebuild_index", {"path": path, "size_bytes": size_bytes})
            partition.log.mended(base_offset)
        if not outcomes:  # It was repaired meanwhile, or only the index was damaged.
            return self._count_failure(key, "messages cannot be read although nothing is damaged") or True
        self._failures.pop(key, None)
        return BatchState.UNKNOWN not in outcomes

    async def _ask(self, partition: Partition, key: tuple[int, int], stretch: Stretch) -> tuple[BatchState, bytes]:
        number = key[0]
        if stretch.behind > partition.high_watermark:
            return BatchState.UNKNOWN, b""  # Not committed yet, so other replicas may not have it.
        if stretch.size_bytes > STRETCH_BYTES_MAX:
            found = BatchState.OTHERWISE, b""
        else:
            found = await gather(self._peers, self._others(), number, stretch, partition.log.epochs)
        details = {"partition": number, "offset": stretch.first, "behind": stretch.behind}
        if found[0] is BatchState.OTHERWISE:
            self._give_up(key, f"other replicas have other bytes in partition {number} from offset {stretch.first} on")
        elif found[0] is BatchState.DAMAGED:
            _log.error("these messages are damaged on every replica", extra=details)
            ranges = self._lost.setdefault(number, [])
            ranges.append((self._loop.time() + LOST_S, stretch.first, stretch.behind))
            del ranges[:-WAITING_MAX]
        return found


@final
class Patches:
    """The batches that belong into the damaged stretches of one segment, written a few at a time."""

    def __init__(self, world: World, segment: dict[str, object]) -> None:
        self.mended: list[Stretch] = []
        self.failed = 0
        self._world = world
        self._segment = segment
        self._waiting: list[tuple[list[int], bytes]] = []
        self._bytes = 0

    async def add(self, numbers: list[int], data: bytes) -> None:
        """Write these batches into this stretch."""
        self._waiting.append((numbers, data))
        self._bytes += len(data)
        if self._bytes >= PATCHED_BYTES:
            await self.finish()

    async def finish(self) -> None:
        """Write everything that was added."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return
        arguments: dict[str, object] = {"segment": self._segment, "patches": waiting}
        done: Any = await self._world.janitor.run("mend_segment", arguments)
        for (numbers, _), mended in zip(waiting, done["mended"], strict=True):
            if mended:
                self.mended.append(Stretch(*numbers))
            else:
                self.failed += 1


def segment_of(partition: Partition, offset: int) -> Segment | None:
    """The segment with this offset, if some of it is in its file."""
    for segment in partition.log.segments:
        if segment.base_offset <= offset < segment.next_offset:
            return segment if segment.written_bytes else None
    return None


def _ignore() -> None:
    """No reader waits for this repair."""
