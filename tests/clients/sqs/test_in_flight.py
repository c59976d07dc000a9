"""How much may be in flight: a standard queue says so when it is too much."""

from __future__ import annotations

import shutil
from typing import Any
from urllib.parse import urlsplit

import pytest

from bench.load import sqs as load
from tests.clients.sqs.refusals import OVER_LIMIT, refusal
from tests.clients.sqs.words import send
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
