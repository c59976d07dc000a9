"""Destinations: what each means, which are refused, and how a delivery names its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.doors.stomp.destinations import (
    destination_of,
    parse_destination,
    reply_destination,
    reply_name,
)
from longhall.doors.stomp.errors import StompError

_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("text", "kind", "exchange", "key"),
    [
        ("/queue/a", "queue", "", "a"),
        ("a", "queue", "", "a"),
        ("/queue/a%2Fb", "queue", "", "a/b"),
        ("/amq/queue/a", "amq/queue", "", "a"),
        ("/reply-queue/amq.gen-x/y", "reply-queue", "", "amq.gen-x/y"),
        ("/topic/a.*.#", "topic", "amq.topic", "a.*.#"),
        ("/exchange/x", "exchange", "x", ""),
        ("/exchange/x/k", "exchange", "x", "k"),
        ("/exchange/x/", "exchange", "x", ""),
        ("/temp-queue/t", "temp-queue", "", "t"),
    ],
)
def test_what_a_destination_means(text: str, kind: str, exchange: str, key: str) -> None:
    found = parse_destination(text)
    assert (found.kind, found.exchange, found.key) == (kind, exchange, key)


@pytest.mark.parametrize(
    ("text", "message", "body"),
    [
        ("/queue/a/b", "Invalid destination", "'/a/b' is not a valid queue destination\n"),
        ("/queue/", "Invalid destination", "'/' is not a valid queue destination\n"),
        ("/queue", "Invalid destination", "'' is not a valid queue destination\n"),
        ("/topic/a/b", "Invalid destination", "'/a/b' is not a valid topic destination\n"),
        ("/exchange/", "Invalid destination", "'/' is not a valid exchange destination\n"),
        ("/exchange/a/b/c", "Invalid destination", "'/a/b/c' is not a valid exchange destination\n"),
        ("/nowhere/a", "Unknown destination", "'/nowhere/a' is not a valid destination.\nValid"),
        ("", "Invalid destination", "'' is not a valid destination\n"),
        ("queue/a", "Unknown destination", "'queue/a' is not"),
        ("/queue/" + "x" * 300, "Invalid destination", "a name has more than 255 bytes"),
    ],
)
def test_what_is_none_is_refused_in_the_words_of_rabbitmq(text: str, message: str, body: str) -> None:
    with pytest.raises(StompError) as caught:
        parse_destination(text)
    assert caught.value.message == message
    assert caught.value.body.startswith(body)
    assert not caught.value.closes


@given(_NAMES.filter(lambda name: name != "amq.topic"), _NAMES)
def test_a_client_can_send_to_the_destination_of_a_message(exchange: str, key: str) -> None:
    for wanted in (("", key), ("amq.topic", key), (exchange, key), (exchange, "")):
        found = parse_destination(destination_of(*wanted))
        assert (found.exchange, found.key) == wanted


@given(_NAMES)
def test_a_reply_goes_to_the_queue_that_was_named(name: str) -> None:
    shown = reply_destination(name)
    if not name.startswith("/"):
        assert parse_destination(shown).key == name
        assert reply_name(shown) == name
    assert reply_name("/topic/a") == "/topic/a"
