"""Exceptions that nobody caught: those of code that owns state stop the node, those of a door cost a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from longhall.node.exceptions import ExceptionHandler, is_fatal, rooms_of


def raised(*rooms: str) -> Exception:
    """An exception that has passed through these rooms, the outermost first."""
    frames: dict[str, Any] = {}
    call: Callable[[], None] | None = None
    for room in reversed(rooms):
        body = "inner()" if call is not None else "raise KeyError('x')"
        source = compile(f"def outer():\n    {body}\n", f"src/longhall/{room}/thing.py", "exec")
        frames = {"inner": call}
        exec(source, frames)
        call = frames["outer"]
    assert call is not None
    try:
        call()
    except KeyError as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("rooms", "context", "fatal"),
    [
        (("broker", "log"), {}, True),
        (("cluster",), {}, True),
        (("coordination", "cluster"), {}, True),
        (("doors/kafka",), {}, False),
        (("doors/kafka", "broker"), {}, True),
        (("front", "doors/sqs"), {"protocol": None}, False),
        (("cluster",), {"protocol": None}, False),  # A frame of a stranger that makes no sense.
        (("cluster", "shards"), {"protocol": None}, True),
        (("front", "broker"), {"transport": None}, True),
        (("broker",), {"task": None}, False),
        (("broker",), {"future": None}, False),
    ],
)
def test_the_rooms_on_its_way_decide(rooms: tuple[str, ...], context: dict[str, Any], fatal: bool) -> None:
    assert is_fatal(raised(*rooms), context) is fatal


def test_rooms_are_read_off_the_traceback() -> None:
    assert rooms_of(raised("doors/kafka", "broker", "log").__traceback__) == {"doors", "broker", "log"}


def test_only_a_fatal_exception_stops_the_node() -> None:
    stopped: list[Exception] = []
    handler = ExceptionHandler(stopped.append)
    loop = asyncio.new_event_loop()
    try:
        handler(loop, {"message": "a door", "exception": raised("doors/kafka")})
        assert (stopped, handler.unhandled) == ([], 1)
        error = raised("broker")
        handler(loop, {"message": "the broker", "exception": error})
        assert stopped == [error]
    finally:
        loop.close()
