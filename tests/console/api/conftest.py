"""A running node, and somebody who asks it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from soak.node import Node
from tests.console.api.asking import Asking

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("api") / "data") as running:
        yield running


@pytest.fixture
def ask(node: Node) -> Iterator[Asking]:
    asking = Asking(node.http)
    yield asking
    asking.close()


@pytest.fixture
def name() -> str:
    return f"queue-{next(_numbers)}"
