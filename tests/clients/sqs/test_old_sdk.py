"""An SDK that speaks Query and XML, as all did before late 2023, in an environment of its own."""

from __future__ import annotations

import shlex
import sys
import uuid
from pathlib import Path

import pytest

from house.environment import VENV
from tests.clients.programs import Saw, fetched, run_cases

HERE = Path(__file__).parent / "old"


@pytest.fixture(scope="module")
def saw(either_endpoint: str) -> Saw:
    """The program's cases. It is run once, at the first test that asks."""
    uv = VENV / "bin" / "uv"
    made = f"{uv} venv -q --python {shlex.quote(sys.executable)} .venv"
    filled = f"{uv} pip install -q --python .venv/bin/python -r requirements.txt"
    files = [HERE / "requirements.txt", HERE / "program.py"]
    directory = fetched("old-boto3", files, ["sh", "-c", f"{made} && {filled}"])
    run = uuid.uuid4().hex[:8]
    return run_cases([str(directory / ".venv/bin/python"), str(directory / "program.py"), either_endpoint, run])


def test_it_speaks_query(saw: Saw) -> None:
    assert saw("protocol") == "query"


def test_a_message_is_sent_and_received(saw: Saw) -> None:
    assert saw("round_trip") == {"same": True, "id": True, "count": "1", "left": 0}


def test_batches_with_a_failure_in_them(saw: Saw) -> None:
    assert saw("batches") == {
        "sent": 9,
        "failed": [["bad", "InvalidMessageContents", True]],
        "bodies": [str(number) for number in range(9)],
        "changed": 9,
        "deleted": 9,
    }


def test_attributes_and_tags_of_an_old_client(saw: Saw) -> None:
    assert saw("attributes_and_tags") == {
        "attributes": {"DelaySeconds": "5", "VisibilityTimeout": "50"},
        "tags": {"b": "2"},
        "url": True,
        "listed": True,
    }


def test_order_for_an_old_client(saw: Saw) -> None:
    assert saw("fifo") == ["1", "2", "3"]


def test_codes_and_classes_are_the_same_in_xml(saw: Saw) -> None:
    prefix = "AWS.SimpleQueueService."
    assert saw("errors") == {
        "absent": [prefix + "NonExistentQueue", "QueueDoesNotExist"],
        "characters": ["InvalidMessageContents", "InvalidMessageContents"],
        "handle": ["ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid"],
        "empty": [prefix + "EmptyBatchRequest", "EmptyBatchRequest"],
        "value": ["InvalidAttributeValue", "ClientError"],  # Its model knew no class for this one.
        "name": ["InvalidAttributeName", "InvalidAttributeName"],
        "differs": ["QueueAlreadyExists", "QueueNameExists"],
    }


def test_the_resource_of_an_old_client(saw: Saw) -> None:
    assert saw("resource") == "through the resource"
