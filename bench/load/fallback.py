"""The load generator in Python, for machines without a compiler: the same arguments and the same report as `load.c`.

It costs more than the C program, so at small messages it measures itself; its reports name it as the client.
"""

from __future__ import annotations

import array
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
from confluent_kafka import Consumer, Message, Producer, TopicPartition

_BATCH = 10_000


class _Deliveries:
    """Counts delivery reports and collects latencies, in the order of arrival."""

    def __init__(self) -> None:
        self.delivered = 0
        self.error: object = None
        self.latencies_ns = array.array("q")

    def timed(self, due_ns: int) -> Callable[[object, Message], None]:
        def report(error: object, message: Message) -> None:
            if error is not None:
                self.error = error
            self.delivered += 1
            self.latencies_ns.append(time.monotonic_ns() - due_ns)

        return report

    def failed_only(self, error: object, message: Message) -> None:
        self.error = error


_EXTRA: dict[str, object] = {}


def _producer(address: str, linger_ms: str, deliveries: _Deliveries | None, batch_bytes: str = "1000000") -> Producer:
    settings: dict[str, object] = {
        "bootstrap.servers": address,
        "acks": "all",
        "linger.ms": linger_ms,
        "batch.size": batch_bytes,
        "queue.buffering.max.kbytes": 65536,
        "queue.buffering.max.messages": 1_000_000,
    }
    if deliveries is not None:
        settings["on_delivery"] = deliveries.failed_only
    return Producer(settings | _EXTRA)


def _report(messages: int, size_bytes: int, seconds: float) -> None:
    used = sum(os.times()[:2])
    print(
        json.dumps(
            {
                "client": f"confluent-kafka {confluent_kafka.__version__} (Python)",
                "messages": messages,
                "bytes": messages * size_bytes,
                "seconds": seconds,
                "failed": 0,
                "cpu_seconds": used,
                "busiest_thread_seconds": used,
            }
        )
    )


def _first_message(producer: Producer, topic: str, payload: bytes) -> None:
    producer.produce(topic, payload, partition=0)
    if producer.flush(30):
        sys.exit("load: the first message was not acknowledged within 30 s")


def _produce(arguments: list[str], *, by_count: bool) -> None:
    address, topic, partitions, size, amount, linger_ms, last = arguments
    # The body is text: the SQS door would have to encode anything else, which is not measured here.
    random, deliveries = os.urandom(int(size)), _Deliveries()
    payload = random.hex()[: int(size)].encode() if by_count else random
    producer = _producer(address, linger_ms, deliveries, *([last] if by_count else []))
    run = 1 if by_count else int(last)
    _first_message(producer, topic, payload)
    count_max = int(amount) if by_count else 1 << 62
    began = time.monotonic()
    deadline = began + (3600 if by_count else float(amount))
    sent, width = 0, int(partitions)
    while sent < count_max and time.monotonic() < deadline:
        try:
            producer.produce(topic, payload, partition=sent // run % width)
            sent += 1
        except BufferError:
            producer.poll(0.001)
    left = producer.flush(120)
    if left or deliveries.error is not None:
        sys.exit(f"load: {left} messages not acknowledged: {deliveries.error}")
    _report(sent, int(size), time.monotonic() - began)


def _consume(arguments: list[str]) -> None:
    address, topic, partitions, count, seconds_max = arguments
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 10_000_000,
            "queued.max.messages.kbytes": 1_000_000,
        }
    )
    consumer.assign([TopicPartition(topic, each, 0) for each in range(int(partitions))])
    seen = before = size = 0
    began = time.monotonic()
    deadline = began + 30
    while seen < int(count) and time.monotonic() < deadline:
        for message in consumer.consume(_BATCH, 0.1):
            if message.error():
                sys.exit(f"load: {message.error()}")
            seen, size = seen + 1, len(message)
        if not before and seen:
            before, began = seen, time.monotonic()
            deadline = began + float(seconds_max)
    if seen <= before:
        sys.exit("load: nothing arrived in time")
    _report(seen - before, size, time.monotonic() - began)
    os._exit(0)


def _ping(arguments: list[str]) -> None:
    address, topic, size, seconds, samples = arguments
    payload, deliveries = os.urandom(int(size)), _Deliveries()
    producer = _producer(address, "0", None)
    _first_message(producer, topic, payload)
    began = time.monotonic()
    sent = 0
    while time.monotonic() - began < float(seconds):
        producer.produce(topic, payload, partition=0, on_delivery=deliveries.timed(time.monotonic_ns()))
        sent += 1
        while deliveries.delivered < sent:
            producer.poll(1.0)
    elapsed = time.monotonic() - began
    Path(samples).write_bytes(deliveries.latencies_ns.tobytes())
    _report(sent, int(size), elapsed)


def _pace(arguments: list[str], *, many: bool = False) -> None:
    address, topic, partitions, size, seconds, linger_ms, rate_text, samples = arguments
    payload, deliveries, rate = os.urandom(int(size)).hex()[: int(size)].encode(), _Deliveries(), float(rate_text)
    producer = _producer(address, linger_ms, None)
    places = [(f"{topic}{at}", 0) if many else (topic, at) for at in range(int(partitions))]
    for name in {name for name, _ in places}:
        _first_message(producer, name, payload)
    began_ns = time.monotonic_ns()
    sent = 0
    while (now_ns := time.monotonic_ns()) - began_ns < float(seconds) * 1e9:
        due = int(rate * (now_ns - began_ns) / 1e9)
        while sent < due:
            report = deliveries.timed(began_ns + int(sent / rate * 1e9))
            try:
                name, partition = places[sent % len(places)]
                producer.produce(name, payload, partition=partition, on_delivery=report)
            except BufferError:
                break
            sent += 1
        producer.poll(0.0005)
    elapsed = (time.monotonic_ns() - began_ns) / 1e9
    producer.flush(120)
    Path(samples).write_bytes(deliveries.latencies_ns.tobytes())
    _report(sent, int(size), elapsed)


def main() -> None:
    mode, *words = sys.argv[1:]
    for each in words:
        key, equals, value = each.partition("=")
        if equals:
            _EXTRA[key] = value
    arguments = [each for each in words if "=" not in each]
    if mode in ("produce", "fill"):
        _produce(arguments, by_count=mode == "fill")
    elif mode in ("pace", "spread"):
        _pace(arguments, many=mode == "spread")
    else:
        {"consume": _consume, "ping": _ping}[mode](arguments)


if __name__ == "__main__":
    main()
