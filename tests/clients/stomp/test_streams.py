"""Streams through the STOMP door: many readers of one log, each from its own position, and nothing is removed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.conftest import FreshName
from tests.clients.stomp.conftest import Client, Connect

STREAM = {"x-queue-type": "stream"}
READER: dict[str, Any] = {"ack": "client-individual", "prefetch_count": "10"}


def test_readers_of_a_stream_begin_where_they_ask(client: Client, connect: Connect, fresh_name: FreshName) -> None:
    destination = f"/queue/{fresh_name('stream')}"
    for number in range(5):
        client.send(destination, str(number), **STREAM)
    for offset, bodies in {"first": "01234", "offset=3": "34", "last": "4", "timestamp=0": "01234"}.items():
        reader = connect("1.2")
        reader.subscribe(destination, x_stream_offset=offset, **READER)
        found = [reader.take() for _ in bodies]
        assert [one.body for one in found] == list(bodies)
        assert [one.headers["x-stream-offset"] for one in found] == list(bodies)
        assert {one.headers["redelivered"] for one in found} == {"false"}
        for one in found:
            reader.ack(one)
        assert reader.has_nothing()


def test_a_topic_fills_a_stream_that_a_filter_reads(client: Client, fresh_name: FreshName) -> None:
    key = fresh_name("filtered")
    headers = {"x-queue-name": key, "x-queue-type": "stream", "durable": "true", "auto-delete": "false"}
    more = {"x-max-age": "10h", "x-stream-max-segment-size-bytes": "1048576", "x-stream-filter-size-bytes": "32"}
    asked = {"x-stream-filter": "red,blue", "x-stream-match-unfiltered": "true", "x-stream-offset": "first"}
    client.subscribe(f"/topic/{key}", **READER, **headers, **more, **asked)
    for color in ("red", "green", "blue"):
        client.send(f"/topic/{key}", color, **{"x-stream-filter-value": color})
    client.send(f"/topic/{key}", "none")
    assert [client.take().body for _ in range(3)] == ["red", "blue", "none"]
    assert client.has_nothing()


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"ack": "auto", "prefetch_count": "10"}, "not_implemented"),
        ({**READER, "x_stream_offset": "soon"}, "Invalid header"),
    ],
)
def test_a_subscription_that_a_stream_cannot_have(
    client: Client, fresh_name: FreshName, headers: dict[str, Any], message: str
) -> None:
    destination = f"/queue/{fresh_name('refused')}"
    client.send(destination, "0", **STREAM)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    client.connection.send_frame("SUBSCRIBE", {"destination": destination, "id": "1", **named})
    assert client.error().headers["message"] == message
