"""The messages that readers of a hall can see, read from its logs."""

from __future__ import annotations

from typing import Final

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.errors import Code
from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.log.segment_reads import Supplied
from longhall.records.batch import parse_header, read_records
from simulation.checkers.violation import demand

READ_BYTES: Final = 300_000


def contents_of(hall: Hall, *, damage_allowed: bool = False) -> dict[tuple[str, int], dict[int, str]]:
    """The messages of every visible partition, by offset; damaged ones are left out if `damage_allowed`."""
    return {
        (topic, partition.number): _messages(partition, damage_allowed)
        for topic, route in hall.routes.items()
        for partition in route
    }


def _messages(partition: Partition, damage_allowed: bool) -> dict[int, str]:
    found: dict[int, str] = {}
    log = partition.log
    offset = log.start_offset
    supplied: Supplied | None = None
    while offset < partition.high_watermark:
        result = log.read(offset, READ_BYTES, partition.high_watermark, supplied)
        supplied = None
        if result.cold is not None:
            cold = result.cold
            if cold.rebuild is not None:
                BACKGROUND_JOBS["rebuild_index"](
                    log._files.disk, {"partition": log.partition, "base_offset": cold.rebuild.base_offset}
                )
                supplied = Supplied(cold.path, cold.position, b"", True)
            else:
                supplied = Supplied(
                    cold.path, cold.position, log._files.get(cold.path).read_at(cold.position, cold.size)
                )
            continue
        if damage_allowed and result.code is Code.STORAGE_DAMAGED:
            offset += 1
            continue
        demand(result.code is None, f"{partition.topic}-{partition.number} cannot be read at {offset}: {result.code}")
        data = b"".join(result.buffers)
        demand(bool(data), f"{partition.topic}-{partition.number} has no message at {offset}")
        at = 0
        while at < len(data):
            header = parse_header(data, at)
            for record in read_records(data, at):
                found[record.offset] = (record.value or b"").decode("latin-1")
            offset = header.next_offset
            at += header.size_bytes
    return found
