"""A node for the tests of the SQS door, or any other server that speaks SQS.

`LONGHALL_TEST_SQS=http://host:port` points the tests at a server that runs already; `LONGHALL_TEST_SQS_PEER=moto` or
`elasticmq` says whose deviations from AWS are to be expected there (`deviations.py`), which is how the tests themselves
are held to account. Tests that need both doors then need `LONGHALL_TEST_BOOTSTRAP` as well, or are left out by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from soak.node import Node
from tests.clients.conftest import FreshName
from tests.clients.sqs.deviations import DEVIATIONS
from tests.left_out import leave_out

REGION = "us-east-1"
CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}

MakeQueue = Callable[..., str]


def pytest_report_header() -> str:
    given = os.environ.get("LONGHALL_TEST_SQS")
    return f"sqs: {f'the server that runs at {given}' if given else 'a node started for these tests'}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a foreign server is known to do differently is expected to fail there, and only there."""
    known = DEVIATIONS.get(os.environ.get("LONGHALL_TEST_SQS_PEER", ""), {})
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        reason = known.get(item.name.split("[")[0]) or known.get(item.path.name)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=False))


@pytest.fixture(scope="session")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node | None]:
    """The node under test; None where the tests were pointed at a server that runs already."""
    if os.environ.get("LONGHALL_TEST_SQS"):
        yield None
        return
    with Node(tmp_path_factory.mktemp("sqs") / "data", options=["--sqs", "127.0.0.1:0"]) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows the end of the node's log beside what the test saw."""
    report = yield
    hall = getattr(item, "funcargs", {}).get("hall")
    if report.failed and isinstance(hall, Node):
        report.sections.append(("log of the node", hall.log_tail()))
    return report


@pytest.fixture(scope="session")
def endpoint(hall: Node | None) -> str:
    """Where SQS is spoken, as `http://host:port`."""
    if hall is None:
        return os.environ["LONGHALL_TEST_SQS"]
    return f"http://{json.loads(hall.ready_file.read_text())['sqs']}"


@pytest.fixture(scope="session")
def kafka(hall: Node | None) -> str:
    """The Kafka door of the same hall."""
    if hall is not None:
        return hall.bootstrap
    given = os.environ.get("LONGHALL_TEST_BOOTSTRAP")
    if not given:
        leave_out("LONGHALL_TEST_SQS names a server, and LONGHALL_TEST_BOOTSTRAP no Kafka door of it")
    return given


@pytest.fixture(scope="session")
def sqs(endpoint: str) -> Any:
    """The client that people use; it tries nothing twice, so that tests see every refusal."""
    return boto3.client(
        "sqs",
        endpoint_url=endpoint,
        region_name=REGION,
        config=Config(retries={"total_max_attempts": 1}, read_timeout=40),
        **CREDENTIALS,
    )


@pytest.fixture(scope="session")
def careless(endpoint: str) -> Any:
    """The same client without its own checks, to send what it would not."""
    config = Config(retries={"total_max_attempts": 1}, parameter_validation=False)
    return boto3.client("sqs", endpoint_url=endpoint, region_name=REGION, config=config, **CREDENTIALS)


@pytest.fixture
def make_queue(sqs: Any, fresh_name: FreshName) -> MakeQueue:
    """A new queue; attributes as keywords."""

    def make(*, fifo: bool = False, **attributes: Any) -> str:
        name = fresh_name("queue") + (".fifo" if fifo else "")
        wanted = {key: str(value) for key, value in attributes.items()}
        if fifo:
            wanted["FifoQueue"] = "true"
        return str(sqs.create_queue(QueueName=name, Attributes=wanted)["QueueUrl"])

    return make


@pytest.fixture
def queue(make_queue: MakeQueue) -> str:
    return make_queue()


@pytest.fixture
def fifo(make_queue: MakeQueue) -> str:
    return make_queue(fifo=True, ContentBasedDeduplication="true")
