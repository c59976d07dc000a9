"""A partition's log in a simulated world: open, fill, and read as a fetch does."""

from __future__ import annotations

from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.log.files import OpenFiles
from longhall.log.partition import PartitionLog
from longhall.log.segment_reads import Read, Supplied
from longhall.records.batch import Record, build_batch, parse_header
from simulation.world import Host, Simulation

PARTITION = 7
SEGMENT_BYTES = 4_000
SEGMENT_MS = 10_000


def new_host(seed: int = 1) -> Host:
    host = Simulation(seed).host("node")
    host.faults.cold_read_chance = 0.0
    return host


def open_log(host: Host, files_max: int = 3) -> PartitionLog:
    host.kill()
    return PartitionLog(OpenFiles(host.boot().disk, files_max), PARTITION, SEGMENT_BYTES, SEGMENT_MS)


def batch_at(offset: int, size: int, records: int = 1, epoch: int = 0, timestamp_ms: int = 1_000) -> bytes:
    value = b"%d:" % offset + b"x" * size
    rows = [Record(offset + number, timestamp_ms, None, value) for number in range(records)]
    return build_batch(rows, base_offset=offset, leader_epoch=epoch)


def append(log: PartitionLog, batch: bytes, *, direct: bool = False, now_ms: int = 0) -> tuple[int, int]:
    """Append; returns flags and position (-1 for a batch in the tail)."""
    header = parse_header(batch, 0)
    if direct:
        flags, position, _ = log.append_direct(header, batch[:16], batch[16:], now_ms)
        return flags, position
    return log.append(header, batch, now_ms), -1


def read(log: PartitionLog, offset: int, bytes_max: int = 1 << 20, limit: int = 1 << 60) -> Read:
    """Read as a fetch does: fetch cold bytes and read again."""
    supplied: Supplied | None = None
    while True:
        result = log.read(offset, bytes_max, min(limit, log.next_offset), supplied)
        cold = result.cold
        if cold is None:
            return result
        if cold.rebuild is not None:
            said = BACKGROUND_JOBS["rebuild_index"](
                log._files.disk,
                {
                    "partition": PARTITION,
                    "base_offset": cold.rebuild.base_offset,
                    "size_bytes": cold.rebuild.written_bytes,
                },
            )
            index = said.get("index", b"")
            assert isinstance(index, bytes)
            supplied = Supplied(cold.path, 0, index, rebuilt=True, version=cold.version)
        else:
            data = log._files.get(cold.path).read_at(cold.position, cold.size)
            supplied = Supplied(cold.path, cold.position, data, version=cold.version)


def bytes_of(result: Read) -> bytes:
    assert result.code is None, result.code
    data = b"".join(result.buffers)
    assert len(data) == result.size_bytes
    return data


def fill(log: PartitionLog, count: int, size: int = 300) -> list[bytes]:
    batches = []
    for number in range(count):
        batches.append(batch_at(log.next_offset, size))
        append(log, batches[-1], direct=number % 3 == 0)
    return batches


def content(host: Host) -> dict[str, bytes]:
    return {path: bytes(inode.content) for path, inode in host.platter.inodes() if path.endswith(".log")}
