"""The oracle of usage: the sums in the usage topic, with what is not written yet, are what the logs have.

It asks no client: a message whose acknowledgement was lost is in the log or not, and was counted or not.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

from longhall.broker.fetch import read_log
from longhall.broker.hall import Hall
from longhall.broker.usage.usage_totals import METERS
from longhall.names import USAGE_TOPIC
from longhall.records.batch import read_records, scan_headers
from simulation.checkers.violation import demand

READ_BYTES: Final = 1024 * 1024


async def usage_sums(hall: Hall, resource: str) -> Counter[str]:
    """The usage of a resource by meter: in the topic, in the log, and not noted yet."""
    sums: Counter[str] = Counter()
    seen: set[str] = set()
    partition = hall.partition(USAGE_TOPIC, 0)
    offset = 0
    while partition is not None and offset < partition.log.next_offset:
        read = await read_log(hall, partition, offset, READ_BYTES, partition.log.next_offset)
        batches = b"".join(read.buffers)
        demand(bool(batches), f"the usage topic cannot be read at {offset}")
        at = 0
        for header in scan_headers(batches, 0, len(batches)):
            for record in read_records(batches, at):
                told = json.loads(record.value or b"")
                demand(told["id"] not in seen, f"the record {told['id']} is twice in the usage topic")
                seen.add(told["id"])
                if told.get("resource") == resource:
                    sums.update(told["usage"])
            at += header.size_bytes
            offset = header.next_offset
    totals = hall.usage.totals
    rows = [(key[3], row) for key, row in totals.rows.items()]
    rows += [(row[3], row[4]) for row in totals.report.rows] if totals.report is not None else []
    for name, counts in rows:
        if name == resource:
            sums.update(dict(zip(METERS, counts, strict=True)))
    return sums


async def check_usage(hall: Hall, topic: str) -> int:
    """Compare the messages that a topic without markers has with those that were counted; returns their number."""
    hall.commits.write()  # What was counted in this turn is noted.
    stored = sum(partition.log.next_offset for partition in hall.routes[topic])
    counted = (await usage_sums(hall, topic))["messages_sent"]
    demand(counted == stored, f"{stored} messages are in {topic}, and {counted} were counted")
    return counted
