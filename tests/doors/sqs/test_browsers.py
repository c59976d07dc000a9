"""What a page makes a browser send, and what programs send."""

from __future__ import annotations

import pytest

from longhall.doors.sqs.browsers import is_loopback, refuse_pages
from longhall.doors.sqs.wire.faults import ACCESS_DENIED, SqsError


def test_a_door_that_others_reach_has_names_that_it_does_not_know() -> None:
    named = {b"host": b"sqs.example.org:9324"}
    refuse_pages(named, on_loopback=False)
    with pytest.raises(SqsError) as caught:
        refuse_pages(named, on_loopback=True)
    assert caught.value.fault is ACCESS_DENIED
    with pytest.raises(SqsError) as caught:
        refuse_pages({**named, b"origin": b"http://sqs.example.org:9324"}, on_loopback=False)
    assert caught.value.fault is ACCESS_DENIED


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("example.org", False)],
)  # fmt: skip
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
