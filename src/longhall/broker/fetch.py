"""Fetch: read batches from partitions, and wait for more if there are too few bytes.

    look       every partition is read from memory
    cold       data that is not in memory is read in the background, then the partition is read again
    repair     damaged batches are fetched from another replica, then the partition is read again
    wait       with too few bytes and time left, the fetch watches the partitions until one has more

The door cancels a fetch whose client is gone.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition, Watcher
from longhall.errors import Code, LonghallError
from longhall.log.segment_reads import Cold, Read, Supplied
from longhall.world.ports import Buffer

FETCH_BYTES_MAX: Final = 16 * 1024 * 1024  # The bound of one reply.
REPAIR_S_MAX: Final = 5.0  # The longest wait for a repair; then the reply has no data and the client retries.


@final
class RepairRequests:
    """A pending repair of a damaged batch from another replica."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finish(self) -> None:
        """Wake the fetch: the repair has ended."""
        if not self.ended.done():
            self.ended.set_result(None)


@final
class PartitionFetch:
    """One partition of a fetch: the request, then the result."""

    def __init__(self, partition: Partition | None, offset: int, bytes_max: int, leader_epoch: int) -> None:
        self.partition = partition
        self.offset = offset
        self.bytes_max = bytes_max
        self.leader_epoch = leader_epoch
        self.code: Code | None = None
        self.buffers: list[Buffer] = []
        self.size_bytes = 0
        self.aborted: list[tuple[int, int]] | None = None


@final
class Fetch(Watcher):
    """One fetch. `done` is called exactly once with this object, unless the fetch is cancelled."""

    def __init__(
        self,
        hall: Hall,
        wanted: list[PartitionFetch],
        bytes_min: int,
        bytes_max: int,
        wait_ms: int,
        read_committed: bool,
        done: Callable[[Fetch], None],
    ) -> None:
        self.wanted = wanted
        self.size_bytes = 0
        self._hall = hall
        self._bytes_min = bytes_min
        self._bytes_max = min(bytes_max, FETCH_BYTES_MAX)
        self._wait_ms = wait_ms
        self._read_committed = read_committed
        self._done: Callable[[Fetch], None] | None = done
        self._timer: asyncio.TimerHandle | None = None
        self._woken = False
        self._task: asyncio.Task[None] | None = None
        self._repair_until_s = 0.0
        self._gather_bytes = 0  # The topics ask for this much, within `_gather_ms` of the first data.
        self._gather_ms = 0
        self._gathering: asyncio.TimerHandle | None = None
        for one in wanted:
            partition = one.partition
            if partition is not None and partition.options.gather_bytes > self._gather_bytes:
                self._gather_bytes = min(partition.options.gather_bytes, self._bytes_max)
                self._gather_ms = partition.options.gather_ms

    def start(self) -> None:
        """Read once; reply at once if there is enough data, an error, or no time to wait."""
        if self._look(final=self._wait_ms <= 0):
            self._finish()
        elif self._task is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._wait_ms / 1000, self._time_over)
            self._watch()

    def cancel(self) -> None:
        """Stop; `done` is not called."""
        self._done = None
        self._stop_watching()
        if self._task is not None:
            self._task.cancel()

    # Waiting

    def more(self, partition: Partition) -> None:
        """Read again after this turn of the loop: a partition has new committed data."""
        if not self._woken and self._done is not None:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _watch(self) -> None:
        for wanted in self.wanted:
            if wanted.partition is not None:
                wanted.partition.watchers[self] = None

    def _stop_watching(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            for wanted in self.wanted:
                if wanted.partition is not None:
                    wanted.partition.watchers.pop(self, None)

    def _look_again(self) -> None:
        self._woken = False
        if self._done is None or self._timer is None:
            return
        if self._look(final=False):
            self._finish()
        elif self._task is None:
            self._watch()

    def _time_over(self) -> None:
        if self._done is not None and self._task is None and self._look(final=True):
            self._finish()

    def _finish(self) -> None:
        self._stop_watching()
        done, self._done = self._done, None
        if done is not None:
            done(self)

    # Reading

    def _look(self, final: bool) -> bool:
        """Read all partitions from memory. True if the reply is complete; cold partitions are read by a task."""
        self.size_bytes = 0
        cold: list[tuple[PartitionFetch, Cold | RepairRequests]] = []
        repairs: list[tuple[PartitionFetch, Cold | RepairRequests]] = []
        wrong = False
        for wanted in self.wanted:
            missing = self._read(wanted, None)
            if isinstance(missing, RepairRequests):
                repairs.append((wanted, missing))
            elif missing is not None:
                cold.append((wanted, missing))
            elif wanted.code is not None:
                wrong = True
        if self.size_bytes < self._bytes_min:
            cold += repairs  # Else the reply is large enough without them.
        if cold and self.size_bytes < self._bytes_max:
            self._stop_watching()
            self._task = asyncio.get_running_loop().create_task(self._read_cold(cold))
            return False
        if final or wrong:
            return True
        return self.size_bytes >= self._bytes_min and self._has_gathered()

    def _has_gathered(self) -> bool:
        """True if there is as much as the topics ask for, or the time for it is over. It begins with the first data."""
        if self.size_bytes >= self._gather_bytes or self._gather_ms == 0 or self.size_bytes == 0:
            return True
        if self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.call_later(self._gather_ms / 1000, self._time_over)
        return False

    async def _read_cold(self, cold: list[tuple[PartitionFetch, Cold | RepairRequests]]) -> None:
        """Read the cold partitions one after another, then reply with what was found."""
        for wanted, missing in cold:
            if self.size_bytes >= self._bytes_max:
                break
            try:
                while True:
                    if isinstance(missing, RepairRequests):
                        left_s = self._repair_until_s - asyncio.get_running_loop().time()
                        await asyncio.wait([missing.ended], timeout=max(left_s, 0.0))
                        again = self._read(wanted, None)
                    else:
                        again = self._read(wanted, await supply(self._hall, wanted, missing))
                    if again is None:
                        break
                    missing = again
            except (OSError, LonghallError) as error:
                wanted.code = Code.STORAGE_DAMAGED
                # A missing file may have been removed meanwhile; an I/O error is damage.
                if wanted.partition is not None and isinstance(error, OSError) and error.errno == errno.EIO:
                    wanted.partition.report_damage(wanted.offset)
        self._task = None
        self._finish()

    def _read(self, wanted: PartitionFetch, supplied: Supplied | None) -> Cold | RepairRequests | None:
        """Read one partition into `wanted`. Returns what to wait for if the data is cold or under repair."""
        wanted.buffers = []
        wanted.size_bytes = 0
        partition = wanted.partition
        if partition is None or partition.deleted:
            wanted.code = Code.UNKNOWN_TOPIC
            return None
        wanted.code = check_epoch(partition, wanted.leader_epoch)
        if wanted.code is not None:
            return None
        limit = partition.last_stable_offset if self._read_committed else partition.high_watermark
        room = self._bytes_max - self.size_bytes
        if room <= 0:
            return None
        result: Read = partition.log.read(wanted.offset, min(wanted.bytes_max, room), limit, supplied)
        if result.cold is not None:
            return result.cold
        wanted.code = result.code
        if result.code is Code.STORAGE_DAMAGED:
            repair = RepairRequests()
            if partition.report_damage(wanted.offset, repair.finish):
                # The reader neither fails nor skips a batch that is being repaired.
                wanted.code = None
                return repair if self._may_wait_for_repair() else None
        if result.code is not None or (self.size_bytes and result.size_bytes > room):
            return None
        wanted.buffers = result.buffers
        wanted.size_bytes = result.size_bytes
        self.size_bytes += result.size_bytes
        if self._read_committed:
            producers = partition.producers
            wanted.aborted = producers.aborted_between(wanted.offset, limit) if producers is not None else []
        return None

    def _may_wait_for_repair(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        if self._repair_until_s == 0.0:
            self._repair_until_s = now_s + REPAIR_S_MAX
        return now_s < self._repair_until_s


async def supply(hall: Hall, wanted: PartitionFetch, cold: Cold) -> Supplied:
    """Read cold data in the background, or rebuild an index."""
    if cold.rebuild is not None:
        assert wanted.partition is not None
        arguments: dict[str, object] = {
            "partition": wanted.partition.log.partition,
            "base_offset": cold.rebuild.base_offset,
            "size_bytes": cold.rebuild.written_bytes,
        }
        index = (await hall.world.janitor.run("rebuild_index", arguments)).get("index")
        return Supplied(cold.path, 0, index if isinstance(index, bytes) else b"", rebuilt=True, version=cold.version)
    data = await hall.world.janitor.read(hall.files.get(cold.path), cold.position, cold.size)
    return Supplied(cold.path, cold.position, data, version=cold.version)


async def read_log(hall: Hall, partition: Partition, offset: int, bytes_max: int, limit_offset: int) -> Read:
    """Whole batches of a log, from the disk if they are not in memory."""
    supplied: Supplied | None = None
    while True:
        read = partition.log.read(offset, bytes_max, limit_offset, supplied)
        if read.cold is None:
            return read
        supplied = await supply(hall, PartitionFetch(partition, 0, 0, -1), read.cold)


def check_epoch(partition: Partition, leader_epoch: int) -> Code | None:
    """The error if the reader's leader epoch is not this node's; -1 skips the check of the epoch."""
    if partition.elsewhere:
        return Code.NOT_LEADER
    if leader_epoch < 0 or leader_epoch == partition.epoch:
        return None
    return Code.FENCED_LEADER_EPOCH if leader_epoch < partition.epoch else Code.UNKNOWN_LEADER_EPOCH
