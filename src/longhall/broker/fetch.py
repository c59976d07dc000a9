"""Fetch: read batches from partitions, waiting for more if there is not enough.

    look       every partition is read from memory, if that is where its bytes are
    cold       what would have to wait for the disk is read beside the loop, and looked at again
    mend       what is damaged here is fetched from another node that has it whole, and looked at again
    park       too little, and time left: watch the partitions until one has more, or the time is over

A fetch that nobody waits for any more is cancelled by its door and costs nothing.
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

FETCH_BYTES_MAX: Final = 16 * 1024 * 1024  # One fetch answers no more than this, whatever it asks for.
MENDED_S_MAX: Final = 5.0  # So long a fetch waits for other nodes; then it answers without, and is asked again.


@final
class RepairRequests:
    """Something that is damaged here, and whole with somebody who is being asked."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def told(self) -> None:
        """It is worth another try."""
        if not self.ended.done():
            self.ended.set_result(None)


@final
class PartitionFetch:
    """One partition to read from, and then what was found there."""

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
    """One fetch on its way; `done` is called exactly once, with this object, unless it was cancelled."""

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
        self._mended_until_s = 0.0

    def start(self) -> None:
        """Look once; answer at once if there is enough, something is wrong, or nobody wants to wait."""
        if self._look(final=self._wait_ms <= 0):
            self._finish()
        elif self._task is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._wait_ms / 1000, self._time_over)
            self._watch()

    def cancel(self) -> None:
        """Nobody waits any more."""
        self._done = None
        self._stop_watching()
        if self._task is not None:
            self._task.cancel()

    # Waiting

    def more(self, partition: Partition) -> None:
        """Something was committed to one of the partitions: look again when this turn of the loop is over."""
        if not self._woken and self._done is not None:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _watch(self) -> None:
        for wanted in self.wanted:
            if wanted.partition is not None:
                wanted.partition.watchers[self] = None

    def _stop_watching(self) -> None:
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
        """Read everything that is in memory. True if that is the answer; a task goes on if something is cold."""
        self.size_bytes = 0
        cold: list[tuple[PartitionFetch, Cold | RepairRequests]] = []
        mendings: list[tuple[PartitionFetch, Cold | RepairRequests]] = []
        wrong = False
        for wanted in self.wanted:
            missing = self._read(wanted, None)
            if isinstance(missing, RepairRequests):
                mendings.append((wanted, missing))
            elif missing is not None:
                cold.append((wanted, missing))
            elif wanted.code is not None:
                wrong = True
        if self.size_bytes < self._bytes_min:
            cold += mendings  # Else there is enough without them.
        if cold and self.size_bytes < self._bytes_max:
            self._stop_watching()
            self._task = asyncio.get_running_loop().create_task(self._read_cold(cold))
            return False
        return final or wrong or self.size_bytes >= self._bytes_min

    async def _read_cold(self, cold: list[tuple[PartitionFetch, Cold | RepairRequests]]) -> None:
        """Fetch what is not in memory, one partition after another; what was found is always an answer."""
        for wanted, missing in cold:
            if self.size_bytes >= self._bytes_max:
                break
            try:
                while True:
                    if isinstance(missing, RepairRequests):
                        left_s = self._mended_until_s - asyncio.get_running_loop().time()
                        await asyncio.wait([missing.ended], timeout=max(left_s, 0.0))
                        again = self._read(wanted, None)
                    else:
                        again = self._read(wanted, await supply(self._hall, wanted, missing))
                    if again is None:
                        break
                    missing = again
            except (OSError, LonghallError) as error:
                wanted.code = Code.STORAGE_DAMAGED
                # A file that is gone may have been removed meanwhile; one that cannot be read may not.
                if wanted.partition is not None and isinstance(error, OSError) and error.errno == errno.EIO:
                    wanted.partition.tell_damage(wanted.offset)
        self._task = None
        self._finish()

    def _read(self, wanted: PartitionFetch, supplied: Supplied | None) -> Cold | RepairRequests | None:
        """Read one partition into `wanted`; what is missing if it is not in memory, or damaged and not everywhere."""
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
            mending = RepairRequests()
            if partition.tell_damage(wanted.offset, mending.told):
                # Readers do not stop at what will be there again; nor do they go on without it.
                wanted.code = None
                return mending if self._may_wait_for_mending() else None
        if result.code is not None or (self.size_bytes and result.size_bytes > room):
            return None
        wanted.buffers = result.buffers
        wanted.size_bytes = result.size_bytes
        self.size_bytes += result.size_bytes
        if self._read_committed:
            producers = partition.producers
            wanted.aborted = producers.aborted_between(wanted.offset, limit) if producers is not None else []
        return None

    def _may_wait_for_mending(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        if self._mended_until_s == 0.0:
            self._mended_until_s = now_s + MENDED_S_MAX
        return now_s < self._mended_until_s


async def supply(hall: Hall, wanted: PartitionFetch, cold: Cold) -> Supplied:
    """Read beside the loop what was not in memory, or have an index made again."""
    if cold.rebuild is not None:
        assert wanted.partition is not None
        arguments: dict[str, object] = {
            "partition": wanted.partition.log.partition,
            "base_offset": cold.rebuild.base_offset,
            "size_bytes": cold.rebuild.written_bytes,
        }
        index = (await hall.world.janitor.run("rebuild_index", arguments)).get("index")
        return Supplied(cold.path, 0, index if isinstance(index, bytes) else b"", rebuilt=True)
    data = await hall.world.janitor.read(hall.files.get(cold.path), cold.position, cold.size)
    return Supplied(cold.path, cold.position, data)


def check_epoch(partition: Partition, leader_epoch: int) -> Code | None:
    """Whether the reader and this node agree on who leads; -1 asks for no check of the epoch."""
    if partition.elsewhere:
        return Code.NOT_LEADER
    if leader_epoch < 0 or leader_epoch == partition.shard.epoch:
        return None
    return Code.FENCED_LEADER_EPOCH if leader_epoch < partition.shard.epoch else Code.UNKNOWN_LEADER_EPOCH
