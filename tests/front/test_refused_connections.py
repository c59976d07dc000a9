"""Refused connections: the counter, and the rate limit of its log line."""

from __future__ import annotations

import logging

import pytest

from longhall.front.refused_connections import APART_S, RefusedConnections


def test_the_first_refusal_is_logged_at_once_and_later_ones_together(caplog: pytest.LogCaptureFixture) -> None:
    refused = RefusedConnections("sqs")
    with caplog.at_level(logging.WARNING, "longhall.connections"):
        for _ in range(100):
            refused.note("10.0.0.9", "connections_max", 16, 1.0)
        refused.note("10.0.0.7", "connections_per_address_max", 8, 1.0 + APART_S)
    assert refused.count == 101
    said = [vars(record) for record in caplog.records]
    assert [(one["door"], one["peer"], one["limit"], one["refused_since"]) for one in said] == [
        ("sqs", "10.0.0.9", 16, 1),
        ("sqs", "10.0.0.7", 8, 100),
    ]
