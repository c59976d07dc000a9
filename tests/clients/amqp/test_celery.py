"""Celery over AMQP: a worker with every kind of task, late acknowledgement, events, remote control and native delay."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chord, group
from celery.exceptions import TaskRevokedError
from kombu import Connection, Exchange, Queue

from tests.clients.amqp.conftest import Connect
from tests.clients.conftest import FreshName, eventually

pytestmark = pytest.mark.slow

SECONDS_MAX = 90

# The configuration is shared by worker and client: both have to know of what type a queue is.
APP = """
import os
from celery import Celery
from kombu import Exchange, Queue

app = Celery("tasks", broker=os.environ["BROKER"], backend=os.environ["BACKEND"])
queue, kind = os.environ["QUEUE"], os.environ["KIND"]
exchange = Exchange(queue, type="topic")
app.conf.task_queues = [Queue(queue, exchange, queue, queue_arguments={"x-queue-type": kind})]
app.conf.task_default_queue = app.conf.task_default_exchange = app.conf.task_default_routing_key = queue
app.conf.worker_prefetch_multiplier = 2
app.conf.task_acks_late = True
app.conf.task_reject_on_worker_lost = True
app.conf.worker_send_task_events = True

@app.task(shared=False)
def add(x, y):
    return x + y

@app.task(shared=False)
def total(numbers):
    return sum(numbers)

@app.task(shared=False, bind=True, max_retries=3, default_retry_delay=0.1)
def flaky(self, succeeds_at):
    if self.request.retries < succeeds_at:
        raise self.retry()
    return self.request.retries

@app.task(shared=False, bind=True)
def dies_once(self, marker):
    if not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), 9)
    return self.request.delivery_info["redelivered"]
"""

Worker = Callable[..., Celery]


@pytest.fixture
def start_worker(tmp_path: Path, url: str, fresh_name: FreshName, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """Starts a worker process; returns the application that sends to it."""
    workers: list[subprocess.Popen[bytes]] = []
    clients: list[Celery] = []

    def start(kind: str = "classic", pool: str = "threads", backend: str = "rpc://") -> Celery:
        (tmp_path / "tasks.py").write_text(APP)
        queue = fresh_name("celery")
        named = {"BROKER": url, "QUEUE": queue, "KIND": kind, "BACKEND": backend}
        for name, value in named.items():
            monkeypatch.setenv(name, value)
        command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "2", "-P", pool, "-l", "warning"]
        with (tmp_path / f"{queue}.log").open("wb") as log:
            workers.append(
                subprocess.Popen(
                    [*command, "-n", f"{queue}@localhost"],
                    env={**os.environ, "PYTHONPATH": str(tmp_path)},
                    stdout=log,
                    stderr=log,
                    cwd=tmp_path,
                )
            )
        parts: dict[str, Any] = {"__name__": "tasks"}
        exec(compile(APP, "tasks.py", "exec"), parts)  # The test's own text, as the worker imports it.
        clients.append(parts["app"])
        return clients[-1]

    yield start
    for client in clients:
        client.close()
    for worker in workers:
        worker.terminate()
        worker.wait(30)


def result(client: Celery, name: str, *arguments: object, **options: Any) -> object:
    return client.send_task(name, arguments, **options).get(timeout=SECONDS_MAX)


def test_a_worker_does_all_that_workers_do(start_worker: Worker) -> None:
    app = start_worker()
    add = app.signature("tasks.add")
    assert result(app, "tasks.add", 1, 2) == 3
    assert result(app, "tasks.flaky", 2) == 2
    assert result(app, "tasks.add", 3, 4, countdown=0.5) == 7
    assert result(app, "tasks.add", 4, 4, eta=datetime.now(UTC) + timedelta(seconds=0.5)) == 8
    results = group(add.clone((number, number)) for number in range(10)).apply_async()
    assert results.get(timeout=SECONDS_MAX) == [2 * number for number in range(10)]


def test_a_chord_collects_the_results_of_its_header(start_worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    app = start_worker(backend=f"file://{tmp_path / 'results'}")
    header = [app.signature("tasks.add", (number, 1)) for number in range(5)]
    assert chord(header)(app.signature("tasks.total")).get(timeout=SECONDS_MAX) == 15


def test_a_worker_is_controlled_over_the_broker(start_worker: Worker) -> None:
    app = start_worker()
    assert result(app, "tasks.add", 1, 1) == 2
    assert any({"ok": "pong"} in answer.values() for answer in app.control.ping(timeout=5))
    (answer,) = app.control.rate_limit("tasks.add", "20/s", reply=True, timeout=5)
    assert list(answer.values()) == [{"ok": "new rate limit set successfully"}]
    limited = [app.send_task("tasks.add", (number, 0)) for number in range(5)]
    assert [one.get(timeout=SECONDS_MAX) for one in limited] == [0, 1, 2, 3, 4]
    later = app.send_task("tasks.add", (1, 1), countdown=3)
    eventually(lambda: any(app.control.inspect(timeout=2).scheduled().values()), "the worker holds the task")
    app.control.revoke(later.id)
    with pytest.raises(TaskRevokedError):
        later.get(timeout=SECONDS_MAX)


def test_events_tell_what_a_worker_does(start_worker: Worker) -> None:
    app = start_worker()
    assert result(app, "tasks.add", 1, 1) == 2
    seen: list[tuple[str, object]] = []
    with app.connection_for_read() as connection:
        ended = threading.Event()

        def note(event: dict[str, object]) -> None:
            seen.append((str(event["type"]), event.get("uuid")))
            if event["type"] == "task-succeeded":
                receiver.should_stop = True

        receiver = app.events.Receiver(connection, handlers={"*": note})

        def send() -> None:
            while not ended.wait(0.5):  # The receiver's queue may not be bound yet.
                app.send_task("tasks.add", (1, 2))

        sender = threading.Thread(target=send)
        sender.start()
        try:
            receiver.capture(limit=None, timeout=SECONDS_MAX, wakeup=False)
        finally:
            ended.set()
            sender.join()
    done = next(uuid for kind, uuid in seen if kind == "task-succeeded")
    assert ("task-started", done) in seen or ("task-received", done) in seen


def test_a_task_whose_process_dies_is_delivered_again(start_worker: Worker, tmp_path: Path) -> None:
    app = start_worker(pool="prefork")
    assert result(app, "tasks.dies_once", str(tmp_path / "marker")) is True


def test_a_countdown_in_a_quorum_queue_waits_in_the_broker(start_worker: Worker, connect: Connect) -> None:
    app = start_worker(kind="quorum")
    assert result(app, "tasks.add", 1, 1) == 2
    began = time.monotonic()
    waiting = app.send_task("tasks.add", (2, 3), countdown=3)
    assert not any(app.control.inspect(timeout=1).scheduled().values()), "the worker does not hold the task"
    assert waiting.get(timeout=SECONDS_MAX) == 5
    assert time.monotonic() - began >= 2.0, "the task was not early"
    connect().channel().exchange_declare("celery_delayed_delivery", "topic", passive=True)


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
