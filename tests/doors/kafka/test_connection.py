"""One connection: answers in the order of the requests, bounded whatever the client does, and nothing left behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from longhall.doors.kafka.connection import (
    ANSWERS_BYTES_MAX,
    SHARED_BYTES,
    SLOTS_MAX,
    WAITS_MAX,
    Call,
    Connection,
    Gate,
)
from longhall.doors.kafka.wire.headers import RequestHeader, decode_request_header
from longhall.front.admission import Budget

HEARTBEAT, FETCH = 12, 1


class Loop:
    """The part of an event loop that a connection uses."""

    def __init__(self) -> None:
        self.soon: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def time(self) -> float:
        return 1.0

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        self.soon.append((callback, arguments))

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback, arguments in soon:
            callback(*arguments)


class Wire:
    """A transport that records what is written."""

    def __init__(self) -> None:
        self.sent = b""
        self.writes = 0
        self.reading = True
        self.closed = False

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> object:
        return ("10.0.0.1", 9)

    def write(self, data: bytes) -> None:
        self.sent += bytes(data)
        self.writes += 1

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(bytes(part) for part in parts))

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        self.closed = True


class Desk(Gate):
    """The server's side: keeps calls until the test answers them."""

    def __init__(self, bytes_max: int = 1 << 30, unauthenticated_bytes_max: int = 0) -> None:
        self.budget = Budget(bytes_max, unauthenticated_bytes_max)
        self.request_bytes_max = 4_000_000
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.calls: list[Call] = []
        self.frames: list[bytes] = []
        self.gone: list[Connection] = []
        self.loop = Loop()
        self.hold = True  # Requests get a slot and wait there.
        self.admits = True
        self.buffers = 0

    def opened(self, connection: Connection) -> bool:
        return self.admits

    def closed(self, connection: Connection) -> None:
        self.gone.append(connection)

    def serve(self, connection: Connection, frame: bytes) -> None:
        self.frames.append(frame)
        if not self.hold:
            return
        call = Call(connection, decode_request_header(frame), frame, 0.0)
        connection.begin(call)
        self.calls.append(call)

    def take_buffer(self, size: int) -> bytearray:
        self.buffers += 1
        return bytearray(size + 100)

    def give_buffer(self, buffer: bytearray) -> None:
        self.buffers -= 1

    def observe(self, call: Call, now_s: float) -> None:
        pass

    def connect(self) -> tuple[Connection, Wire]:
        connection = Connection(self, cast(asyncio.AbstractEventLoop, self.loop))
        wire = Wire()
        connection.connection_made(cast(asyncio.Transport, wire))
        return connection, wire


def request(number: int, size: int = 0, api_key: int = HEARTBEAT) -> bytes:
    body = api_key.to_bytes(2, "big") + bytes(2) + number.to_bytes(4, "big") + b"\xff\xff" + bytes(size)
    return len(body).to_bytes(4, "big") + body


def feed(connection: Connection, data: bytes, piece: int = SHARED_BYTES) -> int:
    """Deliver bytes as a transport does; returns how many were taken before reading stopped."""
    at = 0
    wire = cast(Wire, connection._transport)
    while at < len(data) and wire.reading and not wire.closed:
        room = connection.get_buffer(-1)
        size = min(len(room), piece, len(data) - at)
        room[:size] = data[at : at + size]
        connection.buffer_updated(size)
        at += size
    return at


def correlation(call: Call) -> int:
    return call.header.correlation_id


@pytest.mark.parametrize("piece", [1, 3, 7, 1_000, SHARED_BYTES])
def test_frames_are_cut_however_the_bytes_arrive(piece: int) -> None:
    desk = Desk()
    connection, _ = desk.connect()
    stream = b"".join(
        request(number, size) for number, size in enumerate((0, 10, 5_000, 0, 300_000 if piece > 900 else 9))
    )
    assert feed(connection, stream, piece) == len(stream)
    assert [correlation(call) for call in desk.calls] == [0, 1, 2, 3, 4]
    assert b"".join(len(frame).to_bytes(4, "big") + frame for frame in desk.frames) == stream
    assert not connection.mid_frame


@pytest.mark.parametrize("seed", range(20))
def test_answers_leave_in_the_order_of_the_requests(seed: int) -> None:
    chance = random.Random(seed)
    desk = Desk()
    connection, wire = desk.connect()
    feed(connection, b"".join(request(number) for number in range(30)))
    for call in chance.sample(desk.calls, 30):
        call.ready([b"%02d" % correlation(call), b","])
        if chance.random() < 0.4:
            desk.loop.turn()
    desk.loop.turn()
    assert wire.sent == b"".join(b"%02d," % number for number in range(30))
    assert desk.budget.used_bytes == 0
    assert connection.idle


def test_answers_of_one_turn_leave_in_one_write() -> None:
    desk = Desk()
    connection, wire = desk.connect()
    feed(connection, b"".join(request(number) for number in range(10)))
    for call in desk.calls:
        call.ready([b"x"])
    desk.loop.turn()
    assert (wire.sent, wire.writes) == (b"x" * 10, 1)


@pytest.mark.parametrize("size", [-1, -(1 << 31), 4_000_001, (1 << 31) - 1])
def test_a_size_that_cannot_be_closes_the_connection_and_allocates_nothing(size: int) -> None:
    desk = Desk()
    connection, wire = desk.connect()
    feed(connection, request(1))
    feed(connection, size.to_bytes(4, "big", signed=True) + b"rest")
    assert wire.closed
    assert (len(desk.calls), desk.buffers) == (1, 0)
    connection.connection_lost(None)
    assert desk.budget.used_bytes == 0


def test_a_client_that_asks_without_end_is_held_back() -> None:
    desk = Desk()
    connection, wire = desk.connect()
    stream = b"".join(request(number) for number in range(3 * SLOTS_MAX))
    taken = feed(connection, stream)
    assert len(desk.calls) == SLOTS_MAX
    assert not wire.reading
    answered = 0
    while answered < 3 * SLOTS_MAX:
        for call in desk.calls[answered : answered + 100]:
            call.ready([b"."])
            answered += 1
        desk.loop.turn()
        assert sum(call.buffers is None for call in desk.calls) <= SLOTS_MAX
        taken += feed(connection, stream[taken:])
    assert wire.sent == b"." * 3 * SLOTS_MAX
    assert desk.budget.used_bytes == 0
    assert wire.reading


def test_answers_that_the_client_does_not_read_do_not_pile_up() -> None:
    desk = Desk()
    connection, wire = desk.connect()
    connection.pause_writing()
    answer = bytes(1_000_000)
    connection._paused = False  # As if bytes had been on their way when reading was stopped.
    wire.reading = True
    for number in range(200):
        if not wire.reading:
            break
        feed(connection, request(number))
        for call in desk.calls:
            if call.buffers is None:
                call.ready([answer])
        desk.loop.turn()
    waiting = sum(len(call.buffers[0]) for call in desk.calls if call.buffers)
    assert waiting <= ANSWERS_BYTES_MAX + len(answer)
    assert wire.sent == b""
    connection.resume_writing()
    desk.loop.turn()
    assert len(wire.sent) == waiting
    assert wire.reading
    assert desk.calls[-1].buffers is None, "the request that had to wait is served now"


def test_waiting_requests_of_one_connection_are_few() -> None:
    desk = Desk()
    connection, wire = desk.connect()
    feed(connection, b"".join(request(number, api_key=FETCH) for number in range(100)))
    assert len(desk.calls) == WAITS_MAX
    assert not wire.reading
    desk.calls[0].ready([b"0"])
    desk.loop.turn()
    assert len(desk.calls) == WAITS_MAX + 1
    for call in desk.calls:
        if call.buffers is None:
            call.ready([b"1"])
    desk.loop.turn()
    assert len(desk.calls) > WAITS_MAX + 1


def test_a_client_that_does_not_read_is_not_read() -> None:
    desk = Desk()
    connection, wire = desk.connect()
    connection.pause_writing()
    assert not wire.reading
    connection.resume_writing()
    assert wire.reading


def test_no_room_in_the_budget_stops_reading_until_there_is() -> None:
    desk = Desk(bytes_max=100_000)
    one, one_wire = desk.connect()
    two, two_wire = desk.connect()
    feed(one, request(1, 90_000))
    feed(two, request(2, 50_000))
    assert (len(desk.calls), two_wire.reading) == (1, False)
    assert one_wire.reading
    desk.calls[0].ready([b"1"])
    desk.loop.turn()
    assert two_wire.reading
    assert [correlation(call) for call in desk.calls] == [1, 2]
    taken = feed(one, request(3, 400_000)[:300_000])  # A large one stops half way,
    assert (taken, one_wire.reading) == (SHARED_BYTES, False)
    desk.calls[1].ready([b"2"])
    desk.loop.turn()
    assert one_wire.reading  # and may be larger than the budget where nothing else is held.
    feed(one, request(3, 400_000)[taken:])
    assert [correlation(call) for call in desk.calls] == [1, 2, 3]
    for connection in (one, two):
        connection.connection_lost(None)
    assert (desk.budget.used_bytes, desk.buffers) == (0, 0)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_of_the_budget_is_lost_however_connections_end(seed: int) -> None:
    chance = random.Random(seed)
    desk = Desk(chance.choice((50_000, 400_000, 1 << 30)), chance.choice((0, 30_000)))
    open_ones = [desk.connect() for _ in range(4)]
    streams = [b"".join(request(n, chance.choice((0, 100, 6_000, 300_000))) for n in range(20)) for _ in open_ones]
    for _ in range(150):
        at = chance.randrange(len(open_ones))
        connection, _ = open_ones[at]
        what = chance.random()
        if what < 0.6:
            taken = feed(connection, streams[at][: chance.choice((1, 50, 5_000, 200_000))])
            streams[at] = streams[at][taken:]
        elif what < 0.9 and desk.calls:
            call = chance.choice(desk.calls)
            if call.buffers is None:
                call.ready([b"a"])
            desk.loop.turn()
        elif what < 0.93:
            desk.hold = not desk.hold
        elif what < 0.96:
            connection.pause_writing()
        elif what < 0.98:
            connection.resume_writing()
        elif len(open_ones) > 1:
            connection.close()
            connection.connection_lost(None)
            del open_ones[at], streams[at]
    for connection, _ in open_ones:
        connection.connection_lost(None)
    desk.loop.turn()
    for call in desk.calls:  # Answers for clients that are gone have no effect.
        if call.buffers is None:
            call.ready([b"late"])
    desk.loop.turn()
    assert desk.budget.used_bytes == 0
    assert (desk.budget.arriving_bytes, desk.budget._waiting, desk.budget._arrivals) == (0, 0, {})
    assert desk.buffers == 0


def test_calls_hear_when_their_client_is_gone() -> None:
    desk = Desk()
    connection, _ = desk.connect()
    feed(connection, request(1) + request(2))
    heard: list[int] = []
    for call in desk.calls:
        call.on_close = lambda call=call: heard.append(correlation(call))
    desk.calls[0].ready([b"x"])
    connection.connection_lost(None)
    assert heard == [2]
    assert desk.gone == [connection]
    desk.calls[1].ready([b"late"])
    desk.loop.turn()


def test_a_connection_that_may_not_stay_is_closed() -> None:
    desk = Desk()
    desk.admits = False
    connection, wire = desk.connect()
    assert wire.closed
    connection.buffer_updated(0)
    connection.connection_lost(None)


def test_a_header_is_read_from_a_frame() -> None:
    header: RequestHeader = decode_request_header(request(7)[4:])
    assert (header.api_key, header.correlation_id) == (HEARTBEAT, 7)


def test_a_connection_that_is_held_back_is_not_read_and_loses_nothing() -> None:
    desk = Desk()
    connection, wire = desk.connect()
    feed(connection, request(1))
    connection.hold_back()
    assert not wire.reading
    connection.let_go()
    assert wire.reading

    serve = desk.serve

    def once(this: Connection, frame: bytes) -> None:
        serve(this, frame)
        this.hold_back()

    desk.serve = once
    feed(connection, request(2) + request(3) + request(4)[:7])
    assert [call.header.correlation_id for call in desk.calls] == [1, 2]
    assert not wire.reading
    for call in desk.calls:
        call.ready([b"!"])
    desk.loop.turn()
    assert len(desk.calls) == 2  # Answers make no room for a connection that is held back.
    connection.let_go()
    assert [call.header.correlation_id for call in desk.calls] == [1, 2, 3]
    connection.let_go()
    assert wire.reading
    feed(connection, request(4)[7:])
    assert [call.header.correlation_id for call in desk.calls] == [1, 2, 3, 4]
    connection.connection_lost(None)
    connection.let_go()  # The last request held it back too.
    assert desk.budget.used_bytes == 0


def test_a_connection_is_read_when_the_last_reason_to_hold_it_back_is_over() -> None:
    """A send that finds room again must not end the throttle time of its client."""
    desk = Desk()
    connection, wire = desk.connect()
    connection.hold_back()  # The client is over its quota.
    connection.hold_back()  # A send waits for room in its queue.
    connection.let_go()
    assert not wire.reading
    connection.let_go()
    assert wire.reading
    feed(connection, request(1))
    assert [call.header.correlation_id for call in desk.calls] == [1]
