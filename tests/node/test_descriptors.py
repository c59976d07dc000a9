"""What the system allows in open files bounds the connections, and the log says so."""

from __future__ import annotations

import logging

import pytest

from longhall.node.descriptors import fit, say_what_is_less
from longhall.node.settings import Settings


def test_connections_and_segments_fit_the_descriptors() -> None:
    fitted = fit(Settings(), 3_000)
    assert (fitted.connections_max, fitted.connections_per_address_max, fitted.open_files_max) == (1_000, 1_000, 1_000)
    assert fit(Settings(), 1 << 20) == Settings()


def test_a_lower_bound_than_asked_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "longhall.node"):
        say_what_is_less(Settings(), fit(Settings(), 1 << 20), 1 << 20)
        assert caplog.records == []
        say_what_is_less(Settings(), fit(Settings(), 3_000), 3_000)
    assert [vars(record)["connections_max"] for record in caplog.records] == [1_000]
