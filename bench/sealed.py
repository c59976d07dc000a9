"""What sealing costs: the same load to a clear and to a sealed topic of one node, in alternation.

    python -m bench sealed [--messages N] [--rounds N] [--bytes N]

librdkafka produces messages of 1 KB with acks=all, then consumes all of them. The node has its master keys in a file.
The result is the share of the clear rate that is left, for producing and for consuming: the median of the rounds.
"""

from __future__ import annotations

import argparse
import importlib
import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from soak.node import Node

CLEAR: Final = "clear"
SEALED: Final = "sealed"
BATCH_MESSAGES: Final = 500


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench sealed", description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=200_000, help="of one round and topic")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bytes", type=int, default=1024, help="of one message")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="longhall-sealed-") as home:
        keys = _write_keys(Path(home))
        with Node(Path(home) / "data", options=["--keys", str(keys)]) as node:
            rates = _measure(node, options.rounds, options.messages, options.bytes)
    for what in ("produced", "consumed"):
        clear, sealed = (statistics.median(rates[kind, what]) for kind in (CLEAR, SEALED))
        mb = options.bytes / 1e6
        print(f"{what}: clear {clear * mb:.1f} MB/s, sealed {sealed * mb:.1f} MB/s: {sealed / clear:.2f} of clear")


def _measure(node: Node, rounds: int, messages: int, size_bytes: int) -> dict[tuple[str, str], list[float]]:
    """Messages a second, by topic and direction."""
    kafka: Any = importlib.import_module("confluent_kafka.admin")
    admin = kafka.AdminClient({"bootstrap.servers": node.bootstrap})
    rates: dict[tuple[str, str], list[float]] = {(k, w): [] for k in (CLEAR, SEALED) for w in ("produced", "consumed")}
    for number in range(rounds):
        for kind in (CLEAR, SEALED) if number % 2 else (SEALED, CLEAR):
            topic = f"{kind}-{number}"
            config = {"longhall.sealed": "bench"} if kind == SEALED else {}
            admin.create_topics([kafka.NewTopic(topic, 1, config=config)])[topic].result(20)
            began_s = time.monotonic()
            _produce(node, topic, messages, size_bytes)
            rates[kind, "produced"].append(messages / (time.monotonic() - began_s))
            rates[kind, "consumed"].append(_consume(node, topic, messages))
            admin.delete_topics([topic])[topic].result(20)
    return rates


def _produce(node: Node, topic: str, messages: int, size_bytes: int) -> None:
    from confluent_kafka import Producer

    producer: Any = Producer(
        {
            "bootstrap.servers": node.bootstrap,
            "linger.ms": 5,
            "batch.num.messages": BATCH_MESSAGES,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    body = os.urandom(size_bytes)
    for number in range(messages):
        producer.produce(topic, body)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("not everything was acknowledged in two minutes")


def _consume(node: Node, topic: str, messages: int) -> float:
    """Messages a second, from the first message on."""
    from confluent_kafka import Consumer

    consumer: Any = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": secrets.token_hex(4), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    seen, began_s = 0, 0.0
    try:
        while seen < messages:
            found = consumer.consume(10_000, 10.0)
            if not found:
                raise RuntimeError(f"{seen} of {messages} messages came")
            began_s = began_s or time.monotonic()
            seen += len(found)
    finally:
        consumer.close()
    return messages / max(time.monotonic() - began_s, 1e-9)


def _write_keys(home: Path) -> Path:
    masters, keys = home / "masters", home / "keys.toml"
    masters.write_text(f"bench = {secrets.token_hex(32)}\n")
    keys.write_text(f'[providers.disk]\nkind = "file"\npath = "{masters}"\n[keys]\nbench = {{ provider = "disk" }}\n')
    for file in (masters, keys):
        file.chmod(0o600)
    return keys
