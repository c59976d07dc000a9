"""Kafka readers: those that report all records to the oracle as the log grows, and the full read at the end."""

from __future__ import annotations

import asyncio
from typing import Final

from longhall.client.fetched_records import decode_fetched
from longhall.client.hall import Hall
from longhall.client.records import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, Fetched
from longhall.client.refusals import Refused, Unreachable
from longhall.records.record import Record
from simulation.checkers.log import Entries
from simulation.checkers.sends import Place
from simulation.checkers.violation import Violation, demand
from simulation.scenarios.run_context import RunContext

OUT_OF_RANGE: Final = 1
DAMAGED: Final = (2, 56)  # CORRUPT_MESSAGE and KAFKA_STORAGE_ERROR: the record is not served.


async def follow(context: RunContext, name: str, places: list[Place], *, stable: bool) -> None:
    """Read partitions as they grow. An offset that was served once must never be out of range again."""
    chance = context.stream(name)
    hall = await context.connect(name)
    positions = dict.fromkeys(places, 0)
    watermarks = dict.fromkeys(places, 0)
    isolation = READ_COMMITTED if stable else READ_UNCOMMITTED
    while not context.closing:
        place = chance.choice(places)
        try:
            fetched = await hall.records.fetch(
                place.topic,
                place.partition,
                positions[place],
                max_bytes=chance.choice((200, 5_000, 100_000, 1 << 20)),
                max_wait_ms=chance.choice((0, 100, 1_000)),
                isolation_level=isolation,
            )
        except Unreachable:
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            continue
        except Refused as refusal:
            if refusal.error_code == OUT_OF_RANGE:
                positions[place] = await _start_again(hall, place, positions[place])
            elif refusal.error_code in DAMAGED:
                positions[place] += 1
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            continue
        where = f"{place} from {positions[place]}"
        demand(
            fetched.high_watermark >= watermarks[place],
            f"{where}: the high watermark fell from {watermarks[place]} to {fetched.high_watermark}",
        )
        watermarks[place] = fetched.high_watermark
        positions[place] = _take(context, place, fetched, positions[place], stable=stable)
        if chance.random() < 0.01:
            positions[place] = 0
        await asyncio.sleep(chance.uniform(0.0, 0.3))


async def _start_again(hall: Hall, place: Place, position: int) -> int:
    """Handle an out-of-range error: right if retention deleted the offset, wrong if the log ends before it."""
    try:
        ends = await hall.records.list_offsets(place.topic, {place.partition: LATEST})
        starts = await hall.records.list_offsets(place.topic, {place.partition: EARLIEST})
    except (Refused, Unreachable):
        return position
    start, end = starts[place.partition].offset, ends[place.partition].offset
    demand(position <= end, f"{place}: {position} was the next to read, now the log ends at {end}")
    return max(position, start)


def _take(context: RunContext, place: Place, fetched: Fetched, position: int, *, stable: bool) -> int:
    opened = decode_fetched(fetched, position)
    limit = fetched.last_stable_offset if stable else fetched.high_watermark
    demand(opened.next_offset <= max(limit, position), f"{place}: read to {opened.next_offset}, allowed was {limit}")
    for record in opened.records:
        assert record.value is not None
        context.log.seen(place, record.offset, record.value, stable=stable)
    return opened.next_offset


async def read_all(hall: Hall, place: Place, *, stable: bool, seconds: float) -> tuple[int, list[Record], list[int]]:
    """The start of the log, all its records, and the offsets at which reading was refused as damaged."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    isolation = READ_COMMITTED if stable else READ_UNCOMMITTED
    while True:
        try:
            start = (await hall.records.list_offsets(place.topic, {place.partition: EARLIEST}))[place.partition].offset
            end = (await hall.records.list_offsets(place.topic, {place.partition: LATEST}))[place.partition].offset
            return await _read_between(hall, place, isolation, start, end, deadline)
        except (Refused, Unreachable) as failure:
            if loop.time() > deadline:
                raise Violation(
                    f"{place} could not be read within {seconds} s after everything was healed: {failure}"
                ) from failure
            await asyncio.sleep(0.2)


async def _read_between(
    hall: Hall, place: Place, isolation: int, start: int, end: int, deadline: float
) -> tuple[int, list[Record], list[int]]:
    records: list[Record] = []
    damaged: list[int] = []
    position = start
    while position < end:
        if asyncio.get_running_loop().time() > deadline:
            raise Violation(f"{place}: reading does not advance at {position} of {end}")
        try:
            fetched = await hall.records.fetch(
                place.topic, place.partition, position, max_wait_ms=500, isolation_level=isolation
            )
        except Refused as refusal:
            if refusal.error_code not in DAMAGED:
                raise
            damaged.append(position)
            position += 1
            continue
        opened = decode_fetched(fetched, position)
        records += opened.records
        position = opened.next_offset
    return start, records, damaged


def entries_of(records: list[Record]) -> Entries:
    return [(record.offset, record.value or b"") for record in records]
