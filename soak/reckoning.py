"""Reads all topics and compares them with what was acknowledged."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from soak import history, load
from soak.history import Place, Seen, Told
from soak.load import PARTITIONS, TOPICS

READ_SECONDS_MAX: Final = 60.0


def reckon(bootstrap: str, told: Told, *, at_rest: bool = False) -> tuple[Seen, list[str]]:
    """The records found, and all violations. At rest no client writes any more, so no transaction may be half
    visible.
    """
    seen = read_until_all_is_there(bootstrap, told)
    offsets = committed_offsets(bootstrap, [load.READERS, load.CARRIERS])
    complaints = (
        history.missing(told, seen)
        + history.repeated_or_out_of_order(seen)
        + history.half_visible(told, seen, at_rest=at_rest)
        + history.behind(told, offsets)
    )
    if at_rest:
        carried = {place: offset for (group, place), offset in offsets.items() if group == load.CARRIERS}
        complaints += history.carried_wrong(seen, load.PLAIN, load.TARGET, carried)
        complaints += [f"an idempotent producer was refused: {line}" for line in told.refused]
    return seen, complaints


def read_until_all_is_there(bootstrap: str, told: Told) -> Seen:
    """Read everything, and read on while an acknowledged record is missing.

    An acknowledged commit may become visible a moment later, and a transaction that was open at the kill blocks readers
    until it ends.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reckoning",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    places = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
    records: dict[Place, dict[int, bytes]] = {place: {} for place in places}
    ended: set[Place] = set()
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in places])
        while time.monotonic() < deadline:
            for message in consumer.consume(5000, 0.1):
                error = message.error()
                if error is None:
                    place, offset, value = load.received(message)
                    records[place][offset] = value
                elif error.name() == "_PARTITION_EOF":
                    ended.add((str(message.topic()), int(message.partition() or 0)))
            if len(ended) == len(places) and not history.missing(told, Seen(records)):
                break
    finally:
        consumer.close()
    return Seen(records)


def committed_offsets(bootstrap: str, groups: list[str]) -> dict[tuple[str, Place], int]:
    found: dict[tuple[str, Place], int] = {}
    for group in groups:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        asked = [TopicPartition(load.PLAIN, partition) for partition in range(PARTITIONS)]
        for place in consumer.committed(asked, timeout=30):
            found[group, (place.topic, place.partition)] = max(place.offset, 0)
        consumer.close()
    return found
