"""The Celery application of the soak: its workers run it, and its clients send to it.

Every message has a line in the ledger, a file to which all processes append, for each of: `received` (the worker has
it), `ran` (its task ended) and `acked` (the acknowledgement was written to a connection that the worker held for open).
A retry is another message of the same task, so that lines name both. The environment says where broker and ledger are.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Final

from celery import Celery, Task
from celery.worker.request import Request

from soak.celery_ledger import BROKER, LEDGER, RESULTS

CLASSIC: Final = "soak-classic"
QUORUM: Final = "soak-quorum"
RETRIES: Final = 1
WORK_SECONDS: Final = 0.05

app = Celery("soak", broker=os.environ[BROKER], backend=f"file://{os.environ[RESULTS]}")
app.conf.update(
    task_queues={
        CLASSIC: {"exchange": CLASSIC, "exchange_type": "direct", "routing_key": CLASSIC},
        QUORUM: {
            "exchange": QUORUM,
            "exchange_type": "topic",
            "routing_key": QUORUM,
            "queue_arguments": {"x-queue-type": "quorum"},
        },
    },
    task_default_queue=CLASSIC,
    task_default_exchange=CLASSIC,
    task_default_routing_key=CLASSIC,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_send_sent_event=True,
    worker_send_task_events=True,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_native_delayed_delivery_queue_type="quorum",
)


def note(identity: str, retries: int, what: str) -> None:
    """Append one line to the ledger; a line is one write, so that those of other processes do not mix with it."""
    line = json.dumps({"message": f"{identity}.{retries}", "what": what, "at": time.time()}) + "\n"
    with open(os.environ[LEDGER], "ab", buffering=0) as ledger:
        ledger.write(line.encode())


class NotedRequest(Request):  # type: ignore[misc]  # Celery has no types.
    """A message that a worker received. The worker acknowledges it later, in its loop."""

    def __init__(self, message: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(message, *arguments, **options)
        retries = self.request_dict.get("retries") or 0
        acknowledge = message.ack
        note(self.id, retries, "received")

        def noted(*arguments: Any, **options: Any) -> None:
            acknowledge(*arguments, **options)
            note(self.id, retries, "acked")

        message.ack = noted


class NotedTask(Task):  # type: ignore[misc]  # Celery has no types.
    """A task whose messages are noted."""

    Request = NotedRequest


@app.task(base=NotedTask, bind=True, name="soak.work")  # type: ignore[untyped-decorator]
def work(self: Any, number: int) -> int:
    """An ordinary task."""
    time.sleep(WORK_SECONDS)
    note(self.request.id, self.request.retries, "ran")
    return number


@app.task(base=NotedTask, bind=True, name="soak.again", max_retries=None)  # type: ignore[untyped-decorator]
def again(self: Any, number: int) -> int:
    """A task that asks for another try before it succeeds."""
    if self.request.retries < RETRIES:
        raise self.retry(countdown=0.2)
    note(self.request.id, self.request.retries, "ran")
    return number
