"""Headers of SEND become properties that other doors know, and come back as the headers of MESSAGE."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.doors.amqp.errors import AmqpError
from longhall.doors.stomp.destinations import parse_destination
from longhall.doors.stomp.errors import StompError
from longhall.doors.stomp.message_headers import message_headers, publication
from longhall.doors.stomp.wire.frames import StompFrame
from longhall.exchanges.field_table import encode_table
from longhall.exchanges.properties import Properties, encode_properties, encode_stored
from longhall.queues.messages import Delivery

_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
_OWN = (
    "content-length",
    "receipt",
    "transaction",
    "message-id",
    "subscription",
    "ack",
    "redelivered",
    "x-delay",
    "BCC",
    "CC",
)


def _sent(headers: dict[str, str], body: bytes = b"body") -> Delivery:
    frame = StompFrame("SEND", {"destination": "/queue/a", **headers}, body)
    message = publication(frame, parse_destination("/queue/a"), "/", "guest").message
    return Delivery(message_id="", receipt="", body=message.body, attributes=message.attributes, amqp=message.amqp)


def test_every_property_comes_back() -> None:
    headers = {
        "content-type": "text/plain",
        "content-encoding": "gzip",
        "correlation-id": "c",
        "expiration": "60000",
        "amqp-message-id": "m",
        "type": "t",
        "user-id": "guest",
        "app-id": "app",
        "reply-to": "/queue/answers",
        "priority": "5",
        "timestamp": "1700000000",
        "persistent": "true",
        "color": "red",
    }
    delivery = _sent(headers)
    assert dict(message_headers(delivery, "a", False)) == {"destination": "/queue/a", **headers}
    assert delivery.attributes["color"] == ("String", b"red")
    assert delivery.attributes["content-type"] == ("String", b"text/plain")


@given(st.dictionaries(_NAMES.filter(lambda name: name not in _OWN and "-" not in name), _NAMES, max_size=5))
def test_headers_of_any_text_come_back(headers: dict[str, str]) -> None:
    own = {"priority", "timestamp", "persistent", "expiration", "destination", "type"}
    headers = {name: value for name, value in headers.items() if name not in own}
    assert dict(message_headers(_sent(headers), "a", False)) == {"destination": "/queue/a", **headers}


def test_values_of_other_doors_are_text() -> None:
    properties = Properties()
    properties.headers = encode_table({"n": 7, "yes": True, "many": [1, "a"], "destination": "forged"})
    stored = encode_stored("amq.topic", "a.b", encode_properties(properties))
    delivery = Delivery(message_id="", receipt="", body=b"", amqp=stored)
    assert dict(message_headers(delivery, "a", False)) == {
        "destination": "/topic/a.b",
        "n": "7",
        "yes": "true",
        "many": '[1, "a"]',
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("priority", "x"),
        ("priority", "256"),
        ("timestamp", "-1"),
        ("persistent", "maybe"),
        ("x-delay", "soon"),
        ("type", "x" * 256),
    ],
)
def test_values_that_cannot_be_are_refused(name: str, value: str) -> None:
    with pytest.raises(StompError) as caught:
        _sent({name: value})
    assert caught.value.message == "Invalid header"
    assert f"'{name}'" in caught.value.body


def test_amqp_refuses_what_it_always_refuses() -> None:
    with pytest.raises(AmqpError, match="user_id property"):
        _sent({"user-id": "somebody"})
    with pytest.raises(AmqpError, match="invalid expiration"):
        _sent({"expiration": "never"})
