"""One door for a module, with nothing in it at the beginning of each test, and a client in each protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.doors.sqs.clients import client
from tests.doors.sqs.running import Running, running


@pytest.fixture(scope="module")
def shared_door() -> Iterator[Running]:
    with running() as door:
        yield door


@pytest.fixture
def door(shared_door: Running) -> Running:
    shared_door.queues.queues.clear()
    shared_door.queues.tasks.clear()
    shared_door.queues.deleted.clear()
    shared_door.queues.refusal = None
    shared_door.queues.held_ms = 0
    return shared_door


@pytest.fixture(scope="module", params=["json", "query"])
def shared_client(request: pytest.FixtureRequest, shared_door: Running) -> Any:
    return client(shared_door.url, request.param)


@pytest.fixture
def sqs(door: Running, shared_client: Any) -> Any:
    return shared_client
