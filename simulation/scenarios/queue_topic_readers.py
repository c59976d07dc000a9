"""Kafka readers of the topic under a queue: records stay, whatever the queue's consumers do."""

from __future__ import annotations

import asyncio
import zlib

from longhall.client.fetched_records import decode_fetched
from longhall.client.records import EARLIEST, LATEST, READ_COMMITTED
from longhall.client.refusals import Refused, Unreachable
from simulation.checkers.sends import Place
from simulation.checkers.violation import demand
from simulation.scenarios.readers import OUT_OF_RANGE
from simulation.scenarios.run_context import RunContext


async def look_on(context: RunContext, name: str, place: Place) -> None:
    """Read the whole topic repeatedly: an offset never has another record, and the log never ends earlier."""
    chance = context.stream(name)
    hall = await context.connect(name)
    seen: dict[int, int] = {}
    position = highest = 0
    while not context.closing:
        await asyncio.sleep(chance.uniform(0.05, 0.5))
        try:
            fetched = await hall.records.fetch(
                place.topic, place.partition, position, max_wait_ms=200, isolation_level=READ_COMMITTED
            )
        except Unreachable:
            continue
        except Refused as refusal:
            if refusal.error_code == OUT_OF_RANGE:
                try:
                    starts = await hall.records.list_offsets(place.topic, {place.partition: EARLIEST})
                    ends = await hall.records.list_offsets(place.topic, {place.partition: LATEST})
                except (Refused, Unreachable):
                    continue
                end = ends[place.partition].offset
                demand(end >= highest, f"{place}: read up to {highest}, now the log ends at {end}")
                position = max(starts[place.partition].offset, min(position, end))
            continue
        opened = decode_fetched(fetched, position)
        for record in opened.records:
            mark = zlib.crc32(record.value or b"")
            demand(seen.setdefault(record.offset, mark) == mark, f"{place}: offset {record.offset} has another record")
        position = opened.next_offset
        highest = max(highest, position)
        if chance.random() < 0.02:
            position = 0
