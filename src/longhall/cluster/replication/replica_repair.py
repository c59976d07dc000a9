"""Mending: what is damaged in a segment is put right with the same batches of another member that has them whole.

    find      the whole segment is checked beside the loop, and every damaged stretch of it is noted
    ask       the other members that keep the hall, in turn, for the batches of those offsets (`copies`)
    write     over the damaged bytes, durably, and the index is made anew

One segment at a time, on the leader and on followers alike. What nobody has whole is refused to readers, as on a node
that is alone; while somebody who may have it does not answer, it is asked again. What others have and what does not fit
here, because the cleaner has been at work on one side, or what the disk does not take, cannot be mended: a leader says
that another node should lead, and a follower fetches everything from the leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, final

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.cluster.replication.repair_source import TELL, BatchState, DamageReport, RepairSource, gather
from longhall.cluster.rpc.peers import Audience, Peers
from longhall.cluster.rpc.wire import decode
from longhall.errors import LonghallError
from longhall.log.layout import segment_path
from longhall.log.mending import STRETCH_BYTES_MAX, Stretch
from longhall.log.segment import Segment
from longhall.names import CATALOGUE_SHARD
from longhall.shards.leading import Leading
from longhall.world.ports import World

WAITING_MAX: Final = 256  # Segments that wait for their turn; what is more is found again by whoever reads it.
TOLD_MAX: Final = 64  # Who wait for one of them.
AGAIN_S: Final = 1.0  # Between two tries while somebody who may have it does not answer.
LOST_S: Final = 30.0  # So long it is believed that nobody has it.
PATCHED_BYTES: Final = 16 * 1024 * 1024  # Written together.
FAILURES_MAX: Final = 3  # In a row, of the disk or without finding anything: then another node should lead.

_log = logging.getLogger("longhall.mending")


class RepairTarget(Protocol):
    """The member whose hall is mended."""

    @property
    def leading(self) -> Leading | None:
        """What it knows as leader, if it is one."""

    def leader_of(self, shard: int) -> int:
        """The node that leads; 0 for none."""

    def refetch(self, reason: str) -> None:
        """The data here cannot be gone on with: a full sync from the leader replaces it."""


@final
class ReplicaRepair:
    """See the module."""

    def __init__(self, hall: Hall, peers: Peers, keeper: RepairTarget) -> None:
        self.is_unfit = False  # Something is damaged and stays so: another node should lead.
        self._hall = hall
        self._peers = peers
        self._keeper = keeper
        self._copies = RepairSource(hall, peers)
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[int, int], list[Callable[[], None]]] = {}  # By partition and base offset.
        self._lost: dict[int, list[tuple[float, int, int]]] = {}  # By partition: until when, and which offsets.
        self._hopeless: set[tuple[int, int]] = set()  # What stays damaged here, and is whole elsewhere.
        self._failures: dict[tuple[int, int], tuple[int, float]] = {}  # How often in vain, and when the last time.
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        peers.serve(TELL, self._told, Audience.MEMBERS)

    async def _told(self, node: int, body: bytes) -> bytes:
        """Somebody who copies from here has found damage that nobody has read yet."""
        told = decode(body, DamageReport)
        self.request(told.partition, told.offset, _nobody_waits)
        return b""

    def request(self, number: int, offset: int, on_repaired: Callable[[], None]) -> bool:
        """Somebody cannot read this. False if nobody has it; else `told` hears when it is worth another try."""
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
            if len(waiting) < TOLD_MAX:
                waiting.append(on_repaired)
            if self._task is None:
                self._task = self._hall.background.start("mend", self._run)
        return True

    def stop(self) -> None:
        """No more of it."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()
        for key in list(self._waiting):
            self._tell(key)

    def _is_lost(self, number: int, offset: int) -> bool:
        now_s = self._loop.time()
        ranges = [one for one in self._lost.get(number, ()) if one[0] > now_s]
        if ranges:
            self._lost[number] = ranges
        else:
            self._lost.pop(number, None)
        return any(first <= offset < behind for _, first, behind in ranges)

    def _tell(self, key: tuple[int, int]) -> None:
        for told in self._waiting.pop(key, ()):
            told()

    async def _run(self) -> None:
        """One segment after another; those that have to be tried again wait for their turn."""
        while self._waiting:
            again = False
            for key in list(self._waiting):
                if await self._try(key):
                    self._tell(key)
                else:
                    again = True
            if again:
                await asyncio.sleep(AGAIN_S)
        self._task = None  # Not after a failure: then it is begun again.

    async def _try(self, key: tuple[int, int]) -> bool:
        try:
            return await self._mend(key)
        except LonghallError as error:
            _log.warning("nothing could be put right", extra={"partition": key[0], "reason": str(error)})
            return False
        except OSError as error:
            return self._fails(key, f"a segment cannot be read or written: {error}")

    def _fails(self, key: tuple[int, int], reason: str) -> bool:
        """It came to nothing. Whether this has been tried often enough."""
        partition = self._hall.partitions.get(key[0])
        if partition is None or all(one.base_offset != key[1] for one in partition.log.segments):
            return True  # It is gone.
        now_s = self._loop.time()
        failures, last_s = self._failures.pop(key, (0, now_s))
        failures = failures + 1 if now_s - last_s < LOST_S else 1
        if failures >= FAILURES_MAX:
            self._cannot(key, reason)
            return True
        self._failures[key] = (failures, now_s)
        if len(self._failures) > WAITING_MAX:
            del self._failures[next(iter(self._failures))]
        return False

    def _cannot(self, key: tuple[int, int], reason: str) -> None:
        self.is_unfit = True
        if len(self._hopeless) < WAITING_MAX:
            self._hopeless.add(key)
        if self._keeper.leading is not None or self._keeper.leader_of(CATALOGUE_SHARD) in (0, self._peers.node):
            _log.error("a message cannot be read here; another node should lead", extra={"reason": reason})
        else:
            _log.error("a message cannot be mended here; everything is fetched anew", extra={"reason": reason})
            self._keeper.refetch(reason)

    def _others(self) -> list[int]:
        """The other nodes that keep the hall, as far as is known."""
        leading, leadership = self._keeper.leading, self._hall.leadership
        keeping: Iterable[int] = self._peers.addresses
        if leading is not None and leading.replicas is not None:
            keeping = leading.replicas
        elif leading is None and leadership is not None:
            keeping = leadership.replicas(CATALOGUE_SHARD)
        return sorted(set(keeping) - {self._peers.node})

    async def _mend(self, key: tuple[int, int]) -> bool:
        """Look at one segment and put right what can be. Whether there is nothing left to wait for."""
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
        outcomes += [BatchState.WHOLE] * len(patches.mended) + [
            BatchState.UNKNOWN
        ] * patches.failed  # What changed meanwhile.
        self._hall.mended += len(patches.mended)
        for stretch in patches.mended:
            told = {"partition": number, "offset": stretch.first, "behind": stretch.behind}
            _log.warning("damaged messages were put right", extra=told)
        if BatchState.WHOLE in outcomes or not outcomes:
            if any(each.base_offset == base_offset for each in partition.log.segments[:-1]):
                await self._hall.world.janitor.run("rebuild_index", {"path": path, "size_bytes": size_bytes})
            partition.log.mended(base_offset)
        if not outcomes:  # Somebody has put it right meanwhile, or it was the index alone.
            return self._fails(key, "messages cannot be read although nothing is damaged") or True
        self._failures.pop(key, None)
        return BatchState.UNKNOWN not in outcomes

    async def _ask(self, partition: Partition, key: tuple[int, int], stretch: Stretch) -> tuple[BatchState, bytes]:
        number = key[0]
        if stretch.behind > partition.high_watermark:
            return BatchState.UNKNOWN, b""  # Not committed yet, so that others may not have it.
        if stretch.size_bytes > STRETCH_BYTES_MAX:
            found = BatchState.OTHERWISE, b""
        else:
            found = await gather(self._peers, self._others(), number, stretch, partition.log.epochs)
        told = {"partition": number, "offset": stretch.first, "behind": stretch.behind}
        if found[0] is BatchState.OTHERWISE:
            self._cannot(key, f"partition {number} lies otherwise elsewhere from offset {stretch.first} on")
        elif found[0] is BatchState.DAMAGED:
            _log.error("nobody has these messages whole", extra=told)
            ranges = self._lost.setdefault(number, [])
            ranges.append((self._loop.time() + LOST_S, stretch.first, stretch.behind))
            del ranges[:-WAITING_MAX]
        return found


@final
class Patches:
    """What belongs into the damaged stretches of one segment, written a few at a time."""

    def __init__(self, world: World, segment: dict[str, object]) -> None:
        self.mended: list[Stretch] = []
        self.failed = 0
        self._world = world
        self._segment = segment
        self._waiting: list[tuple[list[int], bytes]] = []
        self._bytes = 0

    async def add(self, numbers: list[int], data: bytes) -> None:
        """This belongs there."""
        self._waiting.append((numbers, data))
        self._bytes += len(data)
        if self._bytes >= PATCHED_BYTES:
            await self.finish()

    async def finish(self) -> None:
        """Write what waits."""
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


def _nobody_waits() -> None:
    """Nobody wants to read it now."""
