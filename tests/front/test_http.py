"""An HTTP connection on a fake transport: it ends and releases its memory, however its bytes and answers arrive."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from http import HTTPStatus
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.front.admission import Arrival, Budget
from longhall.front.calls import HttpCall, HttpGate
from longhall.front.http import SLOTS_MAX, HttpConnection
from tests.examples import examples


class Pipe:
    """A transport like asyncio's: it delivers nothing while reading is paused, and the client's end once."""

    def __init__(self, connection: HttpConnection, arriving: list[bytes]) -> None:
        self.said = b""
        self.closed = False
        self._arriving = deque(arriving)
        self._reading = True
        self._end_delivered = False
        self._connection = connection
        connection.connection_made(cast(asyncio.Transport, self))

    def deliver(self) -> None:
        """Deliver the next piece, or the end after the last one."""
        if not self._reading or self.closed or self._end_delivered:
            return
        if self._arriving:
            self._connection.data_received(self._arriving.popleft())
            return
        self._end_delivered = True
        if not self._connection.eof_received():
            self.close()

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1)

    def set_write_buffer_limits(self, high: int) -> None: ...

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True

    def write(self, data: bytes) -> None:
        self.said += data

    def write_eof(self) -> None: ...

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


class Gate(HttpGate):
    """A server that answers `/now` at once and the rest on `answer`; `/wait` is cancelled when the client closes."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget = Budget(budget_bytes)
        self.body_bytes_max = 100_000
        self.connections = 0
        self.served: list[bytes] = []
        self.under_way: list[HttpCall] = []

    def opened(self, connection: HttpConnection) -> bool:
        self.connections += 1
        return True

    def closed(self, connection: HttpConnection) -> None:
        self.connections -= 1

    def serve(self, call: HttpCall) -> None:
        self.served.append(call.target)
        if call.target == b"/now":
            call.ready(b"[/now]")
            return
        self.under_way.append(call)
        if call.target == b"/wait":
            call.on_close = lambda: self.under_way.remove(call)

    def answer(self, place: int) -> None:
        call = self.under_way.pop(place % len(self.under_way))
        call.ready(b"[" + call.target + b"]" + b"." * 5_000)

    def refusal(self, status: HTTPStatus, line: str) -> bytes:
        return b"[refused]"

    def observe(self, call: HttpCall, now_s: float) -> None: ...


def post(target: str, body_bytes: int = 0) -> bytes:
    head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {body_bytes}\r\n\r\n"
    return head.encode() + b"x" * body_bytes


GARBAGE = b"GARBAGE\r\n\r\n"
BEHIND_BYTES = 10_000


async def settle(gate: Gate, pipe: Pipe) -> None:
    """Deliver all bytes and the client's end as far as they are read, and answer every call."""
    for _ in range(200):
        pipe.deliver()
        pipe.deliver()
        await asyncio.sleep(0)
        if gate.under_way:
            gate.answer(0)
        await asyncio.sleep(0)


FULL = post("/late") * SLOTS_MAX
BEHIND = post("/late", BEHIND_BYTES) * 5


@pytest.mark.parametrize(
    "cut",
    [
        1,
        len(FULL) - 1,
        len(FULL),
        len(FULL) + 1,
        len(FULL) + BEHIND_BYTES // 2,
        len(FULL) + len(BEHIND) // 2,
        len(FULL + BEHIND) - 1,
        len(FULL + BEHIND),
        len(FULL + BEHIND) + 3,
        len(FULL + BEHIND + GARBAGE),
    ],
)
async def test_a_refused_connection_ends_wherever_its_bytes_were_cut(cut: int) -> None:
    data = FULL + BEHIND + GARBAGE
    gate = Gate(1 << 20)
    connection = HttpConnection(gate, asyncio.get_running_loop())
    pipe = Pipe(connection, [piece for piece in (data[:cut], data[cut:]) if piece])
    await settle(gate, pipe)
    assert gate.connections == 0
    assert gate.budget.used_bytes == 0
    assert pipe.said.endswith(b"[refused]")
    assert pipe.said.count(b"[/late]") == len(gate.served) >= SLOTS_MAX


async def test_a_refusal_drops_the_requests_that_wait_for_a_slot() -> None:
    gate = Gate(1 << 20)
    connection = HttpConnection(gate, asyncio.get_running_loop())
    pipe = Pipe(connection, [FULL + BEHIND, GARBAGE])
    pipe.deliver()
    assert gate.budget.used_bytes == 5 * BEHIND_BYTES
    connection.data_received(GARBAGE)  # As if it had come in the same piece: reading is paused by now.
    assert gate.budget.used_bytes == 0
    await settle(gate, pipe)
    assert gate.connections == 0
    assert gate.served == [b"/late"] * SLOTS_MAX


async def test_a_last_request_whose_body_is_given_up_is_refused() -> None:
    gate = Gate(6_000)
    assert gate.budget.take(6_000)  # Other connections have all the memory.
    connection = HttpConnection(gate, asyncio.get_running_loop())
    body = b"x" * 5_000
    pipe = Pipe(
        connection, [b"POST /now HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5000\r\n\r\n" + body]
    )
    eldest = Arrival(lambda: None, lambda: None)
    gate.budget.hold(eldest, 1)
    pipe.deliver()
    assert connection.is_kept_waiting
    assert gate.budget.given_up == 1  # More than five quarters of the budget are held.
    await settle(gate, pipe)
    assert pipe.said == b"[refused]"
    assert gate.connections == 0
    assert not gate.served
    assert gate.budget.used_bytes == 6_001


REQUESTS = st.lists(
    st.tuples(st.sampled_from(["/now", "/late", "/wait"]), st.sampled_from([0, 10, 5_000])), max_size=50
)
ENDS = st.sampled_from(
    [b"", GARBAGE, b"GET / HTTP/1.1\r\nConnection: close\r\nHost: x\r\n\r\n", b"POST / HTTP/1.1\r\n"]
)
STEPS = st.lists(st.sampled_from(["deliver", "turn", "answer", "answer last", "stall", "go on"]), max_size=100)


@settings(max_examples=examples(300))
@given(REQUESTS, ENDS, st.lists(st.integers(0, 400_000), max_size=8), STEPS, st.sampled_from([6_000, 20_000, 1 << 20]))
def test_every_connection_ends_and_releases_its_memory(
    requests: list[tuple[str, int]], end: bytes, cuts: list[int], steps: list[str], budget_bytes: int
) -> None:
    data = b"".join(post(target, size) for target, size in requests) + end

    async def live() -> None:
        gate = Gate(budget_bytes)
        connection = HttpConnection(gate, asyncio.get_running_loop())
        places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        pipe = Pipe(connection, [data[a:b] for a, b in itertools.pairwise(places)])
        for step in steps:
            if step == "deliver":
                pipe.deliver()
            elif step == "turn":
                await asyncio.sleep(0)
            elif step == "stall" and not connection.stalled_since_s:
                connection.pause_writing()
            elif step == "go on" and connection.stalled_since_s:
                connection.resume_writing()
            elif gate.under_way:
                gate.answer(0 if step == "answer" else -1)
        if connection.stalled_since_s:
            connection.resume_writing()
        await settle(gate, pipe)
        assert gate.connections == 0, "the connection was never closed"
        assert gate.budget.used_bytes == 0
        assert not gate.under_way
        said = [part.partition(b"]")[0] for part in pipe.said.split(b"[")[1:]]
        answers = [one for one in said if one != b"refused"]
        assert answers == gate.served[: len(answers)]
        assert said in (answers, [*answers, b"refused"])

    asyncio.run(live())
