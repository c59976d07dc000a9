"""A sync that fails: the node stops with a clear message, never retries, and what it acknowledged is readable
afterwards.
"""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from tests.clients.librdkafka import read_all
from tests.crash.conftest import NewNode, injected

DISK_FAILED = 5


@pytest.mark.timeout(120)
@pytest.mark.parametrize("when", [12, 40])
def test_an_error_on_sync_stops_the_node(new_node: NewNode, when: int) -> None:
    # From that sync on, every one fails.
    node = new_node(prefix=injected(f"fdatasync,fsync:error=EIO:when={when}+"))
    node.start()
    # Retries would hide what was acknowledged before the fault.
    settings = {"bootstrap.servers": node.bootstrap, "enable.idempotence": False, "retries": 0, "linger.ms": 0}
    producer = Producer({**settings, "log_level": 0, "message.timeout.ms": 5000})
    taken: dict[int, bytes] = {}
    failed: list[str] = []

    def done(error: Any, message: Any) -> None:
        if error is None:
            taken[message.offset()] = message.value()
        else:
            failed.append(str(error))

    for number in range(400):
        producer.produce("survivors", f"record {number}".encode(), on_delivery=done)
        producer.flush(10)
        if failed:
            break
    assert failed, "the injected fault was never met"

    code = node.wait_end()
    assert code == DISK_FAILED, node.log_tail()
    said = [line for line in node.log_text().splitlines() if "the disk failed" in line]
    assert said, node.log_tail()

    node.prefix = []
    node.start()
    found = {m.offset(): m.value() for m in read_all(node.bootstrap, "survivors")} if taken else {}
    assert taken.items() <= found.items()
    assert node.stop() == 0
