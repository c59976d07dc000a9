"""The Celery program of test_celery.py: an ordinary application whose broker is SQS at another endpoint."""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery

endpoint = os.environ["CELERY_TEST_ENDPOINT"]
queue = os.environ["CELERY_TEST_QUEUE"]
results = Path(os.environ["CELERY_TEST_RESULTS"])

app = Celery("celery_tasks", broker=endpoint.replace("http://", "sqs://test:test@"))
app.conf.update(
    broker_transport_options={
        "region": "us-east-1",
        "is_secure": False,
        "visibility_timeout": 60,
        "polling_interval": 0.1,
        "wait_time_seconds": 2,
    },
    task_default_queue=queue,
    task_acks_late=True,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)


@app.task  # type: ignore[untyped-decorator]
def add(name: str, left: int, right: int) -> None:
    (results / name).write_text(str(left + right))


@app.task(bind=True, max_retries=3)  # type: ignore[untyped-decorator]
def flaky(self: object, name: str) -> None:
    """Fails twice, and is retried by sending itself again with a delay."""
    attempts = results / f"{name}.attempts"
    count = int(attempts.read_text()) + 1 if attempts.exists() else 1
    attempts.write_text(str(count))
    if count < 3:
        raise self.retry(countdown=1)
    (results / name).write_text("done")
