"""The page that documents the API is true: its examples run, and are answered as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhall.console.api.routes import ROUTES
from soak.node import Node
from tests.console.api.asking import Asking
from tests.console.api.documented import PAGE, Memory, examples, shape

pytestmark = pytest.mark.clients


def test_the_examples_run_as_they_stand(tmp_path: Path) -> None:
    found = examples(PAGE.read_text())
    assert len(found) > 20
    with Node(tmp_path / "data") as node:
        ask = Asking(node.http)
        memory = Memory(ask)
        for command, expected in found:
            status, answer = memory.run(command)
            if expected is None:
                assert status < 400, (command, answer)
            else:
                assert shape(answer) == shape(expected), command
        ask.close()


def test_everything_that_can_be_asked_is_on_the_page() -> None:
    text = PAGE.read_text()
    last = {route.path.rstrip("*").rstrip("/").rpartition("/")[2] for route in ROUTES}
    assert [word for word in sorted(last) if word not in text] == []
