"""Refused requests in the log: one line for each kind, and not one for each request."""

from __future__ import annotations

import logging

import pytest

from longhall.front.refused_requests import APART_S, KINDS_MAX, REASON_CHARACTERS_MAX, RefusedRequests


def test_a_kind_has_one_line_until_its_time_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "longhall.requests")
    refused = RefusedRequests("sqs")
    for at_s in range(int(APART_S)):
        refused.note("SendMessage", "InvalidParameterValue", "too long", float(at_s))
    refused.note("DeleteMessage", "InvalidParameterValue", "x" * 1000, 1.0)
    assert [record.request for record in caplog.records] == ["SendMessage", "DeleteMessage"]
    assert len(caplog.records[1].reason) == REASON_CHARACTERS_MAX
    refused.note("SendMessage", "InvalidParameterValue", "too long", APART_S)
    assert caplog.records[-1].refused_since == APART_S


def test_the_kinds_that_are_remembered_have_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "longhall.requests")
    refused = RefusedRequests("http")
    for number in range(KINDS_MAX + 50):
        refused.note(f"GET {number}", "unknown", "", 0.0)
    assert len(caplog.records) == KINDS_MAX + 1
