"""Memory pressure is logged when it begins and when it ends, however many requests wait."""

from __future__ import annotations

import logging

import pytest

from longhall.front.admission import Budget
from longhall.front.memory_pressure import MemoryPressure


def test_pressure_has_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "longhall.admission")
    budget = Budget(100_000)
    pressure = MemoryPressure(budget, "requests")
    assert budget.take(90_000)
    pressure.look()
    assert caplog.records == []
    for _ in range(3):
        assert not budget.take(50_000)
        pressure.look()
    budget.give(90_000)
    pressure.look()
    pressure.look()
    begun, ended = caplog.records
    assert "memory_bytes" in begun.message
    assert (begun.__dict__["waited"], ended.__dict__["waited"]) == (1, 3)
