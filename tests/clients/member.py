"""A consumer in a process of its own, so that a test can kill it.

`python member.py BOOTSTRAP GROUP TOPIC SETTINGS`, with settings in JSON, prints the partitions that it owns as a JSON
list whenever they change.
"""

from __future__ import annotations

import json
import sys

from confluent_kafka import Consumer


def main() -> None:
    bootstrap, group, topic, settings = sys.argv[1:]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **json.loads(settings),
        }
    )
    consumer.subscribe([topic])
    shown: list[int] | None = None
    while True:
        consumer.poll(0.1)
        owned = sorted(partition.partition for partition in consumer.assignment())
        if owned != shown:
            shown = owned
            print(json.dumps(owned), flush=True)


if __name__ == "__main__":
    main()
