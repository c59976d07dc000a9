"""Every cell of the table of connection states, walked with a connection that was brought into the state."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from longhall.front import http_states
from longhall.front.http import HttpConnection
from tests.front.test_http import GARBAGE, Gate, post

LAST_POST = b"POST /late HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def table() -> dict[tuple[str, str], str]:
    """The state after an event, by state and event, as the module's docstring has it."""
    lines = [line.strip().strip("|").split("|") for line in (http_states.__doc__ or "").splitlines() if "|" in line]
    head, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return {(row[0], event): after for row in rows for event, after in zip(head[1:], row[1:], strict=True)}


TABLE = table()
STATES = ["OPEN", "LAST", "REFUSED", "LINGERING", "CLOSING", "CLOSED"]
NAMES = {getattr(http_states, name): name for name in STATES}


class Transport:
    """A transport that counts what is asked of it and reports nothing back."""

    def __init__(self) -> None:
        self.said = b""
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: self.calls.append(name)

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def write(self, data: bytes) -> None:
        self.said += data


class Walk:
    """One connection with two requests under way, and the events of the table."""

    def __init__(self) -> None:
        self.gate = Gate(1 << 20)
        self.connection = HttpConnection(self.gate, asyncio.get_running_loop())
        self.transport = Transport()
        self.connection.connection_made(cast(asyncio.Transport, self.transport))
        self.connection.data_received(post("/late") * 2)

    def state(self) -> str:
        return NAMES[self.connection.state]

    async def reach(self, state: str) -> None:
        for event in {
            "OPEN": (),
            "LAST": ("last request",),
            "REFUSED": ("malformed",),
            "LINGERING": ("malformed", "last answered"),
            "CLOSING": ("close",),
            "CLOSED": ("lost",),
        }[state]:
            await self.happen(event)
        assert self.state() == state

    async def happen(self, event: str) -> None:
        connection = self.connection
        if event == "request":
            connection.data_received(post("/late"))
        elif event == "last request":
            connection.data_received(LAST_POST)
        elif event == "malformed":
            connection.data_received(GARBAGE)
        elif event == "given up":
            connection.give_up()
        elif event == "client ends":
            connection.eof_received()
        elif event == "close":
            connection.close()
        elif event == "abort":
            connection.abort()
        elif event == "lost":
            connection.connection_lost(None)
        else:
            assert event in ("answered", "last answered")
            self.gate.under_way[0].closes = event == "last answered"
            self.gate.answer(0)
        await asyncio.sleep(0)


def test_the_table_is_total() -> None:
    events = {event for _, event in TABLE}
    assert set(TABLE) == {(state, event) for state in STATES for event in events}
    assert set(TABLE.values()) == set(STATES)


@pytest.mark.parametrize(("state", "event"), TABLE)
async def test_a_connection_walks_the_table(state: str, event: str) -> None:
    walk = Walk()
    await walk.reach(state)
    await walk.happen(event)
    assert walk.state() == TABLE[state, event]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("event", "like"), [("given up", "malformed"), ("abort", "close")])
async def test_two_causes_are_one_event(state: str, event: str, like: str) -> None:
    walk = Walk()
    await walk.reach(state)
    await walk.happen(event)
    assert walk.state() == TABLE[state, like]


async def test_only_an_open_connection_serves_requests() -> None:
    for state in STATES:
        walk = Walk()
        await walk.reach(state)
        served = len(walk.gate.served)
        await walk.happen("request")
        assert (len(walk.gate.served) > served) == (state == "OPEN")


async def test_from_lingering_on_nothing_is_written() -> None:
    for state in ("LINGERING", "CLOSING", "CLOSED"):
        walk = Walk()
        await walk.reach(state)
        said = walk.transport.said
        await walk.happen("answered")
        assert walk.transport.said == said


async def test_a_refusal_ends_our_side_first_unless_the_client_has_ended() -> None:
    lingers, closes = Walk(), Walk()
    for walk in (lingers, closes):
        await walk.reach("REFUSED")
    await closes.happen("client ends")
    for walk in (lingers, closes):
        await walk.happen("answered")
        await walk.happen("answered")
        assert walk.transport.said.endswith(b"[refused]")
    assert (lingers.state(), lingers.transport.calls[-1]) == ("LINGERING", "write_eof")
    assert (closes.state(), closes.transport.calls[-1]) == ("CLOSING", "close")


async def test_a_connection_that_was_stopped_reads_again_only_to_see_the_end() -> None:
    walk = Walk()
    walk.connection.stop_reading()
    assert walk.connection.is_kept_waiting
    walk.connection.pause_writing()
    walk.connection.resume_writing()
    assert walk.transport.calls == ["set_write_buffer_limits", "pause_reading"]
    await walk.happen("malformed")
    await walk.happen("last answered")
    assert walk.transport.calls[2:] == ["write_eof", "resume_reading"]
    assert not walk.connection.is_kept_waiting
