"""The limit of messages in flight: a standard queue refuses beyond it."""

from __future__ import annotations

import json
import shutil
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import pytest

from bench.load import sqs as load
from soak.node import Node
from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.refusals import OVER_LIMIT, refusal
from tests.clients.sqs.words import receive, send
from tests.left_out import leave_out

IN_FLIGHT_MAX = 120_000


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_over_the_limit(sqs: Any, queue: str, endpoint: str, tmp_path: Any) -> None:
    """Filled and leased by the load generator, since that many through an SDK would take minutes."""
    if shutil.which("cc") is None:
        leave_out("the limit of messages in flight: no C compiler for the load generator on this machine")
    address = urlsplit(endpoint).netloc
    sent = load.run("send", address, [queue], batch=10, size=10, count=IN_FLIGHT_MAX, seconds=200)
    assert sent.messages == IN_FLIGHT_MAX
    how = {"batch": 10, "count": IN_FLIGHT_MAX, "seconds": 200, "visibility": 43_200}
    leased = load.run("receive", address, [queue], handles=tmp_path / "handles", **how)
    assert leased.messages == IN_FLIGHT_MAX
    send(sqs, queue, "one more")
    assert refusal(sqs.receive_message, QueueUrl=queue) == OVER_LIMIT
    handle = (tmp_path / "handles").read_text().split("\n", 1)[0]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)
    assert sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "one more"


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
def test_the_answer_over_the_limit_depends_on_the_kind_of_queue(
    sqs: Any, make_queue: MakeQueue, hall: Node | None, fifo: bool
) -> None:
    """With a limit that the HTTP API made small: a standard queue refuses, a FIFO queue has nothing to give."""
    if hall is None:
        leave_out("a small limit of messages in flight: LONGHALL_TEST_SQS names a server that is not ours")
    url = make_queue(fifo=fifo)
    body = json.dumps({"settings": {"in_flight_max": 3}}).encode()
    where = f"http://{hall.http}/api/v1/queues/{url.rsplit('/', 1)[1]}"
    changed = urllib.request.Request(where, body, {"Content-Type": "application/json"}, method="PATCH")
    with urllib.request.urlopen(changed, timeout=30) as answer:
        assert answer.status == 200
    for number in range(5):
        how = {"MessageGroupId": str(number), "MessageDeduplicationId": str(number)} if fifo else {}
        send(sqs, url, str(number), **how)
    held = receive(sqs, url, 3, VisibilityTimeout=600)
    if fifo:
        assert "Messages" not in sqs.receive_message(QueueUrl=url)
    else:
        assert refusal(sqs.receive_message, QueueUrl=url) == OVER_LIMIT
    sqs.delete_message(QueueUrl=url, ReceiptHandle=held[0]["ReceiptHandle"])
    assert len(receive(sqs, url, 1, VisibilityTimeout=600)) == 1
