"""The HTTP port over real sockets: what it answers, what it refuses, and that nobody can hold it up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from longhall.console import http
from longhall.console.http import HttpServer, Response, Work
from longhall.console.metrics import Registry
from longhall.console.routes import open_console
from longhall.front.admission import Budget
from longhall.front.calls import HttpCall
from longhall.world.real.network import RealNetwork
from tests.console.fake_hall import FakeClock, FakeHall


@pytest.fixture(autouse=True)
def sweeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SWEEP_SECONDS", 0.02)


@asynccontextmanager
async def serving(server: HttpServer) -> AsyncIterator[int]:
    port = await server.start(RealNetwork(), "127.0.0.1", 0)
    try:
        yield port
    finally:
        server.close()


@pytest.fixture
def hall() -> FakeHall:
    return FakeHall()


@pytest.fixture
async def port(hall: FakeHall) -> AsyncIterator[int]:
    async with serving(open_console(hall, FakeClock(), Registry())) as port:
        yield port


async def said(port: int, data: bytes, *, end: bool = False) -> bytes:
    """Everything the server says until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    if end:
        writer.write_eof()
    try:
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def request(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


async def got(port: int, path: str, method: str = "GET") -> tuple[int, bytes]:
    answer = await said(port, request(path, "Connection: close", method=method))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def test_health_and_readiness_are_two_things(hall: FakeHall, port: int) -> None:
    assert await got(port, "/healthz") == (200, b"ok\n")
    assert await got(port, "/readyz") == (200, b"ok\n")
    hall.not_ready = "draining"
    assert await got(port, "/healthz") == (200, b"ok\n")
    assert await got(port, "/readyz") == (503, b"draining\n")
    hall.sick = "the disk failed"
    assert await got(port, "/healthz") == (503, b"the disk failed\n")


async def test_metrics_are_served_as_prometheus_text(port: int) -> None:
    answer = await said(port, request("/metrics?name=x", "Connection: close"))
    assert b"Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n" in answer
    assert b"\nkafka_brokers 1\n" in answer


async def test_an_unknown_path_says_what_there_is(port: int) -> None:
    status, body = await got(port, "/nope")
    assert status == 404
    assert b"/healthz /metrics /readyz" in body


async def test_head_has_the_length_and_no_body(port: int) -> None:
    answer = await said(port, request("/healthz", "Connection: close", method="HEAD"))
    assert b"Content-Length: 3\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


async def test_a_connection_is_kept_and_a_head_may_come_byte_by_byte(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(3):
        for byte in request("/healthz"):
            writer.write(bytes([byte]))
            await writer.drain()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await reader.readexactly(3) == b"ok\n"
    writer.close()


async def test_http_1_0_is_answered_and_closed(port: int) -> None:
    answer = await said(port, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"Connection: close\r\n" in answer


async def test_a_client_that_pipelines_gets_its_answers_in_order(port: int) -> None:
    answer = await said(port, request("/healthz") + request("/nope") + request("/readyz", "Connection: close"))
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404", b"200"]
    answer = await said(port, request("/healthz") + b"\x00\x01garbage")
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400"]


async def test_a_client_that_closes_its_half_still_gets_its_answer(port: int) -> None:
    assert (await said(port, request("/metrics"), end=True)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("/healthz", "Content-Length: 5") + b"hello", 413),
        (request("/healthz", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 413),
        (request("/healthz", "Content-Length: 0", "Content-Length: 0"), 400),
        (request("/healthz", "Content-Length: 0", "Transfer-Encoding: chunked"), 400),
        (request("/healthz", "Host: y"), 400),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\nHost: x\n\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET /healthz HTTP/3.0\r\nHost: x\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (request("/healthz", method="POST"), 405),
        (request("/healthz", method="DELETE"), 405),
        (request("/healthz", "Upgrade: websocket", "Connection: upgrade", method="CONNECT"), 501),
        (request("/" + "a" * 20_000), 431),
        (request("/healthz", *[f"X-{number}: y" for number in range(200)]), 431),
        (request("/healthz", "X: " + "y" * 20_000), 431),
    ],
)
async def test_what_is_not_answered_safely_is_refused(port: int, data: bytes, status: int) -> None:
    answer = await said(port, data)
    assert int(answer.split()[1]) == status
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close\r\n" in answer
    assert await got(port, "/healthz") == (200, b"ok\n")


async def test_a_failing_handler_is_a_500_and_nothing_more() -> None:
    async def broken() -> Response:
        raise RuntimeError("secret")

    async with serving(HttpServer({"/broken": broken})) as port:
        for _ in range(2):
            status, body = await got(port, "/broken")
            assert status == 500
            assert b"secret" not in body


async def test_one_too_many_is_sent_away_and_the_place_is_given_back(hall: FakeHall) -> None:
    server = HttpServer({"/": lambda: _ok()}, connections_max=2)
    async with serving(server) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await until(lambda: server.connection_count == 2)
        assert (await said(port, b"")).startswith(b"HTTP/1.1 503 ")
        for _, writer in held:
            writer.close()
        await until(lambda: server.connection_count == 0)
        assert await got(port, "/") == (200, b"ok\n")


class Busy:
    """A service that answers nothing until it is closed."""

    prefix = "/api/"
    body_bytes_max = 0
    budget = Budget(1 << 20)

    def login(self, call: HttpCall) -> None:
        return None

    def begin(self, call: HttpCall, path: str, query: str) -> Work:
        async def wait() -> Response:
            await asyncio.sleep(3600)
            return await _ok()

        return Work(wait(), True)

    def overloaded(self) -> None:
        return None

    def close(self) -> None:
        pass


@pytest.mark.parametrize("limits", [{"connections_max": 2}, {"connections_per_address_max": 2}])
async def test_health_has_a_reserve_of_connections_that_the_api_cannot_take(limits: dict[str, int]) -> None:
    server = HttpServer({"/healthz": lambda: _ok()}, service=Busy(), **limits)
    async with serving(server) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _, writer in held:
            writer.write(request("/api/receive"))
        await until(lambda: server.connection_count == 2)
        for _ in range(3):
            assert await said(port, request("/healthz")) == await said(port, request("/healthz"))  # Closed after it.
            assert await got(port, "/healthz") == (200, b"ok\n")
            answer = await said(port, request("/api/receive"))
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"Retry-After: 1\r\n" in answer
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(http.RESERVED_OF_ADDRESS_MAX)]
        await until(lambda: server.connection_count == 2 + len(idle))
        assert (await said(port, b"")).startswith(b"HTTP/1.1 503 ")  # The reserve has a bound too.
        for _, writer in (*held, *idle):
            writer.close()
        await until(lambda: server.connection_count == 0)
        assert server._per_address.total() == 0


async def test_a_slow_head_is_cut_off_though_bytes_keep_coming(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "HEAD_SECONDS_MAX", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def drip() -> None:
        writer.write(b"GET /healthz HTTP/1.1\r\nX: ")
        while True:
            writer.write(b"y")
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    async with asyncio.timeout(20):
        assert await _rest(reader) == b""
    dripping.cancel()
    writer.close()


async def test_an_idle_client_is_let_go(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr(http, "IDLE_SECONDS_MAX", 0.5)
    assert await said(port, b"") == b""
    assert (await said(port, request("/healthz"))).endswith(b"ok\n")


async def test_a_client_that_never_reads_its_answer_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_SECONDS_MAX", 1.0)

    async def huge() -> Response:
        return Response(http.HTTPStatus.OK, b"x" * (64 << 20))

    server = HttpServer({"/huge": huge})
    async with serving(server) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(request("/huge"))
        await until(lambda: server.connection_count == 1)
        await until(lambda: server.connection_count == 0)
        writer.close()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to pass")


async def _ok() -> Response:
    return http.plain(http.HTTPStatus.OK, "ok")


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
