"""The door over bare sockets: what it answers, what it refuses, and that nobody can hold it up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from longhall.doors.sqs.door import Door
from longhall.doors.sqs.server import SqsServer
from longhall.front.admission import Budget
from longhall.front.http import SLOTS_MAX
from longhall.front.timeouts import Timeouts
from longhall.world.real.clock import RealClock
from longhall.world.real.entropy import RealEntropy
from longhall.world.real.network import RealNetwork
from tests.doors.sqs.fake_queues import FakeQueues


class Open:
    def __init__(self, server: SqsServer, queues: FakeQueues, port: int) -> None:
        self.server = server
        self.queues = queues
        self.port = port

    async def said(self, data: bytes, *, end: bool = False) -> bytes:
        """Everything the server says until it closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
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


@asynccontextmanager
async def opened(budget_bytes: int = 64 << 20, **options: Any) -> AsyncIterator[Open]:
    queues = FakeQueues()
    server = SqsServer(Door(queues.service), Budget(budget_bytes), RealClock(), RealEntropy(), **options)
    port = await server.open(RealNetwork(), "127.0.0.1", 0)
    try:
        yield Open(server, queues, port)
    finally:
        server.stop_accepting()
        await server.drain(0.1)


@pytest.fixture
async def door() -> AsyncIterator[Open]:
    async with opened(timeouts=Timeouts(sweep_s=0.02)) as door:
        yield door


def ask(action: str, body: dict[str, Any] | bytes, *headers: str, length: bool = True) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = ["POST / HTTP/1.1", "Host: door", f"X-Amz-Target: AmazonSQS.{action}", *headers]
    if length:
        lines.append(f"Content-Length: {len(data)}")
    return "\r\n".join([*lines, "", ""]).encode() + data


CLOSE = "Connection: close"
LIST = ask("ListQueues", {})


def make(name: str, *headers: str) -> bytes:
    return ask("CreateQueue", {"QueueName": name}, *headers)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to pass")


async def test_requests_on_one_connection_are_answered_in_their_order(door: Open) -> None:
    data = b"".join(make(f"q{number}") for number in range(200)) + ask("ListQueues", {}, CLOSE)
    answer = await door.said(data)
    assert answer.count(b"HTTP/1.1 200 OK") == 201
    places = [answer.index(b"/q%d" % number) for number in range(200)]
    assert places == sorted(places)
    assert answer.count(b"Connection: close") == 1


async def test_answers_wait_for_the_ones_before(door: Open) -> None:
    await door.said(make("q", CLOSE))
    url = {"QueueUrl": "q"}
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(ask("ReceiveMessage", {**url, "WaitTimeSeconds": 20}) + LIST)
    await until(lambda: door.queues.pollers == 1)
    assert b"MD5" in await door.said(ask("SendMessage", {**url, "MessageBody": "hi"}, CLOSE))
    first = await reader.readuntil(b"}]}")
    assert b'"Body":"hi"' in first
    assert b"QueueUrls" in await reader.readuntil(b"]}")
    writer.close()


@pytest.mark.parametrize("piece_bytes", [1, 7, 64])
async def test_bytes_may_come_in_any_pieces(door: Open, piece_bytes: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    data = make("a") + ask("ListQueues", {}, CLOSE)
    for at in range(0, len(data), piece_bytes):
        writer.write(data[at : at + piece_bytes])
        await writer.drain()
        await asyncio.sleep(0)
    answer = await reader.read()
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    writer.close()


async def test_chunked_bodies_are_read(door: Open) -> None:
    chunks = (
        b'5;note=x\r\n{"Que\r\n11\r\nueName": "chunky"\r\n1\r\n}\r\n0\r\nX-Amz-Target: AmazonSQS.PurgeQueue\r\n\r\n'
    )
    head = ask("CreateQueue", b"", "Transfer-Encoding: chunked", CLOSE, length=False)
    assert b"/chunky" in await door.said(head + chunks)
    assert door.server.budget.used_bytes == 0


async def test_a_client_may_ask_whether_to_go_on(door: Open) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    request = make("polite", "Expect: 100-continue", CLOSE)
    head, _, body = request.partition(b"\r\n\r\n")
    writer.write(head + b"\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    assert b"/polite" in await reader.read()
    writer.close()
    answer = await door.said(make("rude", "Expect: miracles"))
    assert answer.startswith(b"HTTP/1.1 417 ")
    assert list(door.queues.queues) == ["polite"]


async def test_http_1_0_is_answered_and_closed(door: Open) -> None:
    answer = await door.said(b"GET / HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close\r\n" in answer


async def test_somebody_who_looks_here_with_a_browser_is_told_what_this_is(door: Open) -> None:
    answer = await door.said(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"endpoint_url='http://127.0.0.1:%d'" % door.port in answer


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        (ask("Fly", {}, CLOSE), 400, b"UnknownOperationException"),
        (ask("ListQueues", b"{", CLOSE), 400, b"SerializationException"),
        (ask("SendMessage", {}, CLOSE), 400, b"MissingRequiredParameterException"),
        (b"GET /?Action=Fly HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400, b"<Code>InvalidAction</Code>"),
        (b"GET /?Action=Fly&%ff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400, b"MalformedQueryString"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\na=b", 400, b"MissingAction"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\na\xffb", 400, b"MalformedQuery"),
        (b"DELETE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405, b"use GET or POST"),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405, b"Allow: GET, POST"),
        (b"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405, b"Content-Length: 16"),
        (ask("ListQueues", {}, CLOSE).replace(b"POST", b"PUT"), 405, b"use GET or POST"),
        (ask("ListQueues", {}, CLOSE).replace(b"POST", b"GET"), 400, b"UnknownOperationException"),
    ],
)
async def test_what_is_asked_wrongly_gets_an_answer(door: Open, request_bytes: bytes, status: int, code: bytes) -> None:
    answer = await door.said(request_bytes)
    assert int(answer.split()[1]) == status
    assert code in answer
    assert b"x-amzn-RequestId: " in answer


async def test_the_answer_to_a_head_has_no_body(door: Open) -> None:
    for head in (b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", ask("ListQueues", b"").replace(b"POST", b"HEAD")):
        answer = await door.said(head + make("next", CLOSE))
        first, _, second = answer.partition(b"HTTP/1.1 ")[2].partition(b"HTTP/1.1 ")
        assert first.startswith(b"405 ")
        assert first.endswith(b"\r\n\r\n")
        assert b"/next" in second


async def test_a_queue_is_known_by_the_path_as_well(door: Open) -> None:
    await door.said(make("orders", CLOSE))
    form = b"Action=SendMessage&MessageBody=by+path"
    head = b"POST /000000000000/orders HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    assert b"<SendMessageResult>" in await door.said(head % len(form) + form)
    get = b"GET /000000000000/orders?Action=ReceiveMessage&AttributeName=All HTTP/1.1\r\nHost: x\r\n"
    answer = await door.said(get + b"Connection: close\r\n\r\n")
    assert b"<Body>by path</Body>" in answer
    assert b"<Name>SentTimestamp</Name>" in answer


async def test_urls_are_made_with_the_name_by_which_the_client_calls_us(door: Open) -> None:
    assert b"http://door/000000000000/q" in await door.said(make("q", CLOSE))
    odd = make("q", CLOSE).replace(b"Host: door", b'Host: "<evil>"')
    assert b"http://127.0.0.1:%d/000000000000/q" % door.port in await door.said(odd)


FORM = (
    b"POST / HTTP/1.1\r\nHost: %b\r\n%bConnection: close\r\nContent-Length: 33\r\n\r\nAction=CreateQueue&QueueName=page"
)


@pytest.mark.parametrize(
    ("host", "more", "good"),
    [
        (b"127.0.0.1:9324", b"", True),
        (b"[::1]:9324", b"", True),
        (b"localhost:9324", b"", True),
        (b"longhall:9324", b"", True),
        (b"sqs.us-east-1.localhost", b"", True),
        (b"127.0.0.1", b"Sec-Fetch-Site: none\r\n", True),
        (b"127.0.0.1", b"Sec-Fetch-Site: cross-site\r\n", False),
        (b"127.0.0.1", b"Origin: https://example.org\r\n", False),
        (b"127.0.0.1", b"Origin: null\r\n", False),
        (b"rebound.example.org:9324", b"", False),
        (b"rebound.example.org:9324", b"Origin: http://rebound.example.org:9324\r\n", False),
    ],
)
async def test_pages_of_others_are_refused_where_nobody_is_asked_who_they_are(
    door: Open, host: bytes, more: bytes, good: bool
) -> None:
    answer = await door.said(FORM % (host, more))
    assert list(door.queues.queues) == (["page"] if good else [])
    assert answer.startswith(b"HTTP/1.1 200 " if good else b"HTTP/1.1 403 ")
    assert (b"<Code>AccessDenied</Code>" in answer) != good
    if b"Origin" in more:
        said = await door.said(make("page", more.strip().decode(), CLOSE))
        assert b"x-amzn-query-error: AccessDenied;Sender" in said


CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (make("bad", CHUNKED), 400),
        (ask("ListQueues", b"0\r\n\r\n", "Content-Length: 5", CHUNKED, length=False), 400),
        (make("bad", "Content-Length: 1"), 400),
        (make("bad").replace(b"Content-Length: ", b"Content-Length: +"), 400),
        (make("bad").replace(b"Content-Length: ", b"Content-Length: -"), 400),
        (ask("CreateQueue", b"", "Content-Length: 1, 1", length=False), 400),
        (ask("CreateQueue", b"", "Content-Length: 99999999999999999999", length=False), 400),
        (ask("CreateQueue", b"", "Transfer-Encoding: chunked, identity", length=False), 400),
        (ask("CreateQueue", b"0\r\n\r\n", "Transfer-Encoding: gzip, chunked", length=False), 501),
        (ask("CreateQueue", b"0\r\n\r\n", "Transfer-Encoding: xchunked", length=False), 501),
        (make("bad", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"), 501),
        (make("bad", "Connection: Upgrade", "Upgrade: websocket"), 501),
        (b"CONNECT elsewhere:80 HTTP/1.1\r\nHost: elsewhere:80\r\n\r\n", 501),
        (ask("CreateQueue", b"zz\r\n\r\n", CHUNKED, length=False), 400),
        (ask("CreateQueue", b"1\r\n{}\r\n0\r\n\r\n", CHUNKED, length=False), 400),
        (ask("CreateQueue", b"fffffffffffffffff\r\n", CHUNKED, length=False), 400),
        (make("bad", "Transfer-Encoding : chunked"), 400),
        (make("bad", "X: y", " folded"), 400),
        (make("bad").replace(b"\r\n", b"\n"), 400),
        (make("bad", "Host: other"), 400),
        (make("bad", "X-Amz-Target: AmazonSQS.PurgeQueue"), 400),
        (make("bad").replace(b"Host: door\r\n", b""), 400),
        (make("bad").replace(b"HTTP/1.1", b"HTTP/2.0"), 505),
        (make("bad", CHUNKED).replace(b"HTTP/1.1", b"HTTP/1.0"), 400),
        (ask("ListQueues", b"2\r\n{}\r\n0\r\n\r\n", CHUNKED, length=False).replace(b"HTTP/1.1", b"HTTP/1.0"), 400),
        (ask("ListQueues", b"2\r\n{}\r\n0\r\n\r\n", CHUNKED, CHUNKED, length=False), 400),
        (ask("ListQueues", b"2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: \x0bchunked", length=False), 400),
        (ask("ListQueues", b"{}", "Transfer-Encoding: identity"), 400),
        (ask("ListQueues", b"{}", "Content-Length:", length=False), 400),
        (ask("ListQueues", b"{}", "Content-Length: 2 2", length=False), 400),
        (ask("ListQueues", b"{}", "Content-Length: 1_0", length=False), 400),
        (ask("ListQueues", b"{}", "X: a\rContent-Length: 40"), 400),
        (ask("ListQueues", b"{}", "X: a\nY: b"), 400),
        (ask("ListQueues", b"2\n{}\n0\n\n", CHUNKED, length=False), 400),
        (ask("ListQueues", b"2;a\nxx\r\n{}\r\n0\r\n\r\n", CHUNKED, length=False), 400),
        (ask("ListQueues", b"2 \r\n{}\r\n0\r\n\r\n", CHUNKED, length=False), 400),
        (ask("ListQueues", b"0x2\r\n{}\r\n0\r\n\r\n", CHUNKED, length=False), 400),
        (ask("ListQueues", b"2\r\n{}0\r\n\r\n", CHUNKED, length=False), 400),
        (ask("ListQueues", b"2\r\n{}\r\n0\r\nContent-Length: 50\r\n\r\n", CHUNKED, length=False), 400),
        (ask("ListQueues", b"{}", ": x"), 400),
        (ask("ListQueues", b"{}", "nonsense"), 400),
        (ask("ListQueues", b"{}", "X: a\x00b"), 400),
        (ask("ListQueues", b"{}").replace(b"POST /", b"POST /\x00"), 400),
        (ask("ListQueues", b"{}").replace(b"POST /", b"POST / x"), 400),
        (ask("ListQueues", b"{}").replace(b"POST", b"post"), 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\xfc", 400),
        (make("bad", "X: " + "y" * 20_000), 431),
        (make("bad", *[f"X-{number}: y" for number in range(120)]), 431),
        (b"GET /" + b"a" * 400_000, 431),
        (ask("CreateQueue", b"", "Content-Length: 16777217", length=False), 413),
    ],
)
async def test_what_is_not_answered_safely_is_refused(door: Open, data: bytes, status: int) -> None:
    answer = await door.said(LIST + data + make("smuggled"))
    first, _, second = answer.partition(b"HTTP/1.1 ")[2].partition(b"HTTP/1.1 ")
    assert first.startswith(b"200 OK")
    assert second.startswith(b"%d " % status)
    assert b"HTTP/1.1 " not in second
    assert b"Connection: close\r\n" in second
    assert not door.queues.queues
    assert (await door.said(ask("ListQueues", {}, CLOSE))).startswith(b"HTTP/1.1 200 ")


async def test_a_body_is_bounded_however_it_comes() -> None:
    async with opened(body_bytes_max=10_000) as door:
        assert (await door.said(ask("CreateQueue", b" " * 9_998 + b"{}", CLOSE))).startswith(b"HTTP/1.1 400 ")
        assert (await door.said(ask("CreateQueue", b" " * 10_001))).startswith(b"HTTP/1.1 413 ")
        head = ask("CreateQueue", b"", CHUNKED, length=False)
        assert (await door.said(head + b"1000\r\n" + b" " * 4096 + b"\r\n" + b"1000\r\n" + b" " * 4096 + b"\r\n"
                                b"1000\r\n" + b" " * 4096 + b"\r\n")).startswith(b"HTTP/1.1 413 ")  # fmt: skip
        await until(lambda: door.server.budget.used_bytes == 0)


async def test_what_surrounds_a_body_is_bounded_too(door: Open) -> None:
    head = ask("ListQueues", b"", CHUNKED, length=False)
    for endless in (b"2\r\n{}\r\n0\r\nX: " + b"y" * 400_000, b"2;x=" + b"y" * 400_000, b"1\r\n \r\n" * 100_000):
        assert (await door.said(head + endless)).startswith(b"HTTP/1.1 400 ")
    await until(lambda: door.server.budget.used_bytes == 0)


async def test_a_waiting_receive_ends_when_its_client_goes(door: Open) -> None:
    await door.said(make("q", CLOSE))
    for close in (True, False):
        before = door.queues.cancelled
        _, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(ask("ReceiveMessage", {"QueueUrl": "q", "WaitTimeSeconds": 20}))
        await until(lambda: door.queues.pollers == 1)
        if close:
            writer.close()
        else:
            writer.write_eof()
        await until(lambda seen=before: door.queues.cancelled == seen + 1)  # type: ignore[misc]
        writer.close()


async def test_a_client_that_closes_its_half_still_gets_its_answer(door: Open) -> None:
    assert b"/half" in await door.said(make("half"), end=True)


async def test_slow_requests_are_cut_off_though_bytes_keep_coming() -> None:
    async with opened(timeouts=Timeouts(request_s=0.1, sweep_s=0.02)) as door:
        await _drip(door)


async def _drip(door: Open) -> None:
    for start in (b"POST / HTTP/1.1\r\nX: ", ask("CreateQueue", b"", "Content-Length: 1000", length=False)):
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)

        async def drip(writer: asyncio.StreamWriter = writer, start: bytes = start) -> None:
            writer.write(start)
            while True:
                writer.write(b"y")
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        try:
            async with asyncio.timeout(20):
                assert await reader.read() == b""
        except ConnectionResetError:
            pass
        dripping.cancel()
        writer.close()
    await until(lambda: not door.server.connections.registered)


async def test_idle_clients_are_let_go_and_waiting_ones_are_not() -> None:
    async with opened(timeouts=Timeouts(first_request_s=0.5, idle_s=0.5, sweep_s=0.02)) as door:
        await door.said(make("q", CLOSE))
        assert await door.said(b"") == b""
        assert (await door.said(LIST)).startswith(b"HTTP/1.1 200 ")
        answer = await door.said(ask("ReceiveMessage", {"QueueUrl": "q", "WaitTimeSeconds": 1}))
        assert answer.startswith(b"HTTP/1.1 200 ")


async def test_one_too_many_is_sent_away_and_the_place_is_given_back() -> None:
    async with opened(connections_max=2) as door:
        held = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(2)]
        await until(lambda: len(door.server.connections.registered) == 2)
        assert (await door.said(b"")).startswith(b"HTTP/1.1 503 ")
        for _, writer in held:
            writer.close()
        await until(lambda: not door.server.connections.registered)
        assert (await door.said(ask("ListQueues", {}, CLOSE))).startswith(b"HTTP/1.1 200 ")
    async with opened(connections_per_address_max=1) as door:
        _, writer = await asyncio.open_connection("127.0.0.1", door.port)
        await until(lambda: len(door.server.connections.registered) == 1)
        assert (await door.said(b"")).startswith(b"HTTP/1.1 503 ")
        writer.close()


async def test_a_client_that_does_not_read_is_not_read_from() -> None:
    async with opened(timeouts=Timeouts(answer_s=1, sweep_s=0.02)) as door:
        await door.said(make("q", CLOSE))
        for _ in range(8):
            await door.said(ask("SendMessage", {"QueueUrl": "q", "MessageBody": "x" * 1_000_000}, CLOSE))
        door.queues.queues["q"].waiting *= 8
        _, writer = await asyncio.open_connection("127.0.0.1", door.port, limit=1024)
        writer.write(ask("ReceiveMessage", {"QueueUrl": "q", "MaxNumberOfMessages": 10}) * 6)
        await until(lambda: any(one.stalled_since_s for one in door.server.connections.registered))
        assert door.server.budget.used_bytes > 1_000_000
        await until(lambda: not door.server.connections.registered)
        assert door.server.budget.used_bytes == 0
        writer.close()


async def test_bodies_wait_for_room_in_the_budget() -> None:
    async with opened(budget_bytes=100_000) as door:
        await door.said(make("q", CLOSE))
        budget = door.server.budget
        assert budget.take(95_000)
        large = ask("SendMessage", {"QueueUrl": "q", "MessageBody": "x" * 50_000}, CLOSE)
        small = ask("SendMessage", {"QueueUrl": "q", "MessageBody": "small"}, CLOSE)
        chunked = ask("ListQueues", b"2\r\n{}\r\n0\r\n\r\n", CHUNKED, CLOSE, length=False)
        waiting = asyncio.create_task(door.said(large))
        await until(lambda: budget.refusals >= 1)
        for request in (small, chunked):
            assert (await door.said(request)).startswith(b"HTTP/1.1 200 ")
        assert len(door.queues.queues["q"].sent) == 1
        assert not waiting.done()
        budget.give(95_000)
        assert (await waiting).startswith(b"HTTP/1.1 200 ")
        await until(lambda: budget.used_bytes == 0)
        gone = budget.take(95_000)
        _, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(large)
        before = budget.refusals
        await until(lambda: budget.refusals > before or not gone)
        writer.close()
        budget.give(95_000)
        await until(lambda: budget.used_bytes == 0)


async def test_nothing_more_is_given_out_while_answers_fill_the_memory() -> None:
    async with opened(budget_bytes=100_000) as door:
        await door.said(make("q", CLOSE))
        receive = ask("ReceiveMessage", {"QueueUrl": "q"}, CLOSE)
        door.server.budget.used_bytes += 100_001
        answer = await door.said(receive)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"RequestThrottled" in answer
        door.server.budget.give(100_001)
        assert (await door.said(receive)).startswith(b"HTTP/1.1 200 ")


async def test_too_many_requests_at_once_wait_in_the_socket(door: Open) -> None:
    data = make("q") * 500 + ask("ListQueues", {}, CLOSE)
    assert (await door.said(data)).count(b"HTTP/1.1 200 OK") == 501


@pytest.mark.parametrize("pieces", [1, 2])
async def test_what_waits_behind_a_refusal_gives_its_memory_back(pieces: int) -> None:
    async with opened() as door:
        await door.said(make("q", CLOSE))
        await until(lambda: not door.server.connections.registered)
        waiting = ask("ReceiveMessage", {"QueueUrl": "q", "WaitTimeSeconds": 20})
        behind = ask("SendMessage", {"QueueUrl": "q", "MessageBody": "x" * 10_000})
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        await until(lambda: len(door.server.connections.registered) == 1)
        (connection,) = door.server.connections.registered
        if pieces == 1:  # Not through the socket, which may cut the bytes where it likes.
            connection.data_received(waiting * SLOTS_MAX + behind * 5 + b"GARBAGE\r\n\r\n")
        else:  # Nothing more is read while the slots are full: what is behind comes when they are free.
            connection.data_received(waiting * SLOTS_MAX)
            writer.write(behind * 5 + b"GARBAGE\r\n\r\n")
        writer.write_eof()
        await until(lambda: door.queues.pollers == SLOTS_MAX)
        # All of them wake at once. Were some still waiting when the end of their client is heard, they would be let go.
        await door.said(ask("SendMessage", {"QueueUrl": "q", "MessageBody": "wake"}, CLOSE))
        answer = await reader.read()
        assert answer.count(b"HTTP/1.1 200 OK") == SLOTS_MAX + 5 * (pieces - 1)
        assert answer.count(b'"Body":"wake"') == 1
        assert answer.partition(b"HTTP/1.1 400 ")[2]
        await until(lambda: not door.server.connections.registered)
        assert door.server.budget.used_bytes == 0
        assert len(door.queues.queues["q"].sent) == 1 + 5 * (pieces - 1)
        writer.close()


async def test_a_stop_finishes_what_is_owed_and_leaves_those_who_wait() -> None:
    async with opened() as door:
        await door.said(make("q", CLOSE))
        waiting = asyncio.create_task(door.said(ask("ReceiveMessage", {"QueueUrl": "q", "WaitTimeSeconds": 20})))
        await until(lambda: door.queues.pollers == 1)
        door.server.stop_accepting()
        await door.server.drain(5)
        assert await waiting == b""
        assert door.queues.cancelled == 1


async def test_requests_are_timed_and_failures_counted(door: Open) -> None:
    await door.said(make("q") + ask("GetQueueUrl", {"QueueName": "absent"}, CLOSE))
    assert door.server.seconds["CreateQueue"].count == 1
    assert door.server.failures["GetQueueUrl", "AWS.SimpleQueueService.NonExistentQueue"] == 1


async def test_every_answer_has_an_id_of_its_own(door: Open) -> None:
    answer = await door.said(LIST * 3 + ask("Fly", {}) + b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    ids = [part.partition(b"\r\n")[0] for part in answer.split(b"x-amzn-RequestId: ")[1:]]
    assert len(set(ids)) == 5
    assert all(len(one) == 36 for one in ids)
