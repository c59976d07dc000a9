"""Celery over AMQP: a worker with tasks, retries, countdowns and groups, and remote control."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery, group
from kombu import Connection, Exchange, Queue

from tests.clients.conftest import FreshName, eventually

APP = """
import os
from celery import Celery

app = Celery("tasks", broker=os.environ["BROKER"], backend="rpc://")
app.conf.task_default_queue = os.environ["QUEUE"]
app.conf.worker_prefetch_multiplier = 2
app.conf.task_acks_late = True

@app.task
def add(x, y):
    return x + y

@app.task(bind=True, max_retries=3, default_retry_delay=0.1)
def flaky(self, succeeds_at):
    if self.request.retries < succeeds_at:
        raise self.retry()
    return self.request.retries
"""


@pytest.fixture
def app(tmp_path: Path, url: str, fresh_name: FreshName) -> Iterator[Celery]:
    """A worker process, and the application that sends to it."""
    (tmp_path / "tasks.py").write_text(APP)
    queue = fresh_name("celery")
    environment = {**os.environ, "BROKER": url, "QUEUE": queue, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "2", "-P", "threads", "-l", "warning"]
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(
            [*command, "-n", f"{queue}@%h"], env=environment, stdout=log, stderr=log, cwd=tmp_path
        )
    client = Celery("tasks", broker=url, backend="rpc://")
    client.conf.task_default_queue = queue
    try:
        yield client
    finally:
        client.close()
        worker.terminate()
        worker.wait(20)


@pytest.mark.slow
def test_a_worker_does_all_that_workers_do(app: Celery) -> None:
    add = app.signature("tasks.add")
    assert app.send_task("tasks.add", (1, 2)).get(timeout=60) == 3
    assert app.send_task("tasks.flaky", (2,)).get(timeout=60) == 2
    assert app.send_task("tasks.add", (3, 4), countdown=0.5).get(timeout=60) == 7
    results = group(add.clone((number, number)) for number in range(10)).apply_async()
    assert results.get(timeout=60) == [2 * number for number in range(10)]
    replies = app.control.ping(timeout=5)
    assert any({"ok": "pong"} in answer.values() for answer in replies)


def test_kombu_declares_publishes_and_drains(url: str, fresh_name: FreshName) -> None:
    exchange = Exchange(fresh_name("kombu"), "topic", durable=True)
    queue = Queue(fresh_name("kombu"), exchange, routing_key="a.#")
    received: list[object] = []
    with Connection(url) as connection:
        with connection.Producer() as producer:
            body = {"task": "x", "text": "äöü"}
            producer.publish(body, exchange=exchange, routing_key="a.b", declare=[queue], headers={"id": 7})

        def take(body: object, message: object) -> None:
            received.append((body, message.headers["id"]))
            message.ack()

        with connection.Consumer(queue, callbacks=[take]):
            eventually(lambda: bool(received) or bool(connection.drain_events(timeout=10)), "the message came")
    assert received == [({"task": "x", "text": "äöü"}, 7)]
