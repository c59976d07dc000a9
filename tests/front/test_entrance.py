"""Connections on their way to a door, on the loop that nodes use: who gets in, as whom, and who does not."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from longhall.front.certificate_names import UserNames
from longhall.front.entrance import EntranceNetwork, Rules, parse_trusted
from longhall.front.handshake_refusals import CROWD, HANDSHAKE, NO_TLS, NO_USER, PROXY, SILENT
from longhall.front.origins import Origin, origin_of
from longhall.front.proxy_protocol import SIGNATURE
from longhall.front.tls import TlsContexts, TlsFiles
from longhall.world.real.network import RealNetwork
from tests.front.certificates import TestAuthority

HOST = "127.0.0.1"


class Echo(asyncio.Protocol):
    """A door that sends back what it gets, and keeps who came."""

    came: list[Origin | None]

    def __init__(self, came: list[Origin | None]) -> None:
        self.came = came

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.came.append(origin_of(transport))
        self.peer = transport.get_extra_info("peername")

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)
        if data.endswith(b"end"):
            self.transport.write_eof()


class Running:
    """An open entrance."""

    def __init__(self, network: EntranceNetwork, port: int, came: list[Origin | None]) -> None:
        self.port = port
        self.came = came
        self.counts = network.not_admitted.counts

    async def ask(self, data: bytes, context: ssl.SSLContext | None = None, first: bytes = b"") -> bytes:
        """Send bytes, after a header in clear text, and return the whole answer."""
        reader, writer = await asyncio.open_connection(HOST, self.port)
        if first:
            writer.write(first)
        if context is not None:
            await writer.start_tls(context, server_hostname=HOST)
        writer.write(data)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return answer


def run(rules: Rules, test: Callable[[Running], Awaitable[None]]) -> None:
    async def whole() -> None:
        came: list[Origin | None] = []
        network = EntranceNetwork(RealNetwork(), rules)
        listener, port = await network.listen(lambda: Echo(came), HOST, 0)
        try:
            await test(Running(network, port, came))
        finally:
            listener.close()
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(whole(), 60))


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path / "tls")


@pytest.fixture
def contexts(authority: TestAuthority) -> TlsContexts:
    return TlsContexts(TlsFiles(authority.path("server.crt"), authority.path("server.key"), authority.path("ca.crt")))


def introduction(common_name: bytes = b"", is_tls: bool = True) -> bytes:
    inner = struct.pack(">BH", 0x22, len(common_name)) + common_name if common_name else b""
    value = struct.pack(">BI", (0x07 if common_name else 0x01) if is_tls else 0, 0) + inner
    body = (
        socket.inet_aton("192.0.2.7") * 2 + struct.pack(">HH", 5000, 1) + struct.pack(">BH", 0x20, len(value)) + value
    )
    return SIGNATURE + struct.pack(">BBH", 0x21, 0x11, len(body)) + body


def test_a_client_with_tls_reaches_the_door_and_its_certificate_names_its_user(
    authority: TestAuthority, contexts: TlsContexts
) -> None:
    async def test(running: Running) -> None:
        assert await running.ask(b"hello end", authority.client_context("alice")) == b"hello end"
        assert await running.ask(b"x" * 300_000 + b"end", authority.client_context()) == b"x" * 300_000 + b"end"
        alice, other = running.came
        assert alice is not None
        assert (alice.user, alice.is_tls, alice.address, alice.tls_version) == ("alice", True, HOST, "TLSv1.3")
        assert other is not None
        assert (other.user, other.names) == ("", None)

    run(Rules("kafka", lambda: contexts.listening("optional"), users=UserNames("common_name")), test)


def test_a_client_without_tls_is_told_so_where_its_protocol_has_words_for_it(contexts: TlsContexts) -> None:
    async def test(running: Running) -> None:
        assert (await running.ask(b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 400")
        assert (await running.ask(b"CONNECT\naccept-version:1.2\n\n\x00")).startswith(
            b"ERROR\nmessage:this port speaks"
        )
        assert await running.ask(b"AMQP\x00\x00\x09\x01") == b""
        assert running.counts[NO_TLS] == 3
        assert running.came == []

    run(Rules("http", contexts.listening), test)


def test_a_port_may_serve_both(authority: TestAuthority, contexts: TlsContexts) -> None:
    async def test(running: Running) -> None:
        assert await running.ask(b"clear end") == b"clear end"
        assert await running.ask(b"secured end", authority.client_context()) == b"secured end"
        assert [origin is not None and origin.is_tls for origin in running.came] == [False, True]

    run(Rules("http", contexts.listening, needs_tls=False), test)


def test_a_failed_handshake_is_told_to_the_client(authority: TestAuthority, contexts: TlsContexts) -> None:
    async def test(running: Running) -> None:
        old = authority.client_context("alice")
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            await running.ask(b"x", old)
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate required"):
            await running.ask(b"x", authority.client_context())
        assert running.counts[HANDSHAKE] == 2
        assert await running.ask(b"end", authority.client_context("alice")) == b"end"

    files = TlsFiles(authority.path("server.crt"), authority.path("server.key"), authority.path("ca.crt"))
    strict = TlsContexts(files._replace(version_min="1.3"))
    run(Rules("kafka", lambda: strict.listening("required"), users=UserNames("common_name")), test)


def test_a_certificate_that_names_no_user_is_refused_where_one_is_needed(
    authority: TestAuthority, contexts: TlsContexts
) -> None:
    async def test(running: Running) -> None:
        assert await running.ask(b"end", authority.client_context("mallory")) == b""
        assert running.counts[NO_USER] == 1
        assert await running.ask(b"end", authority.client_context("svc-1")) == b"end"
        assert running.came[0] is not None
        assert running.came[0].user == "1"

    users = UserNames("common_name", "RULE:svc-(.*)/$1/")
    run(Rules("kafka", lambda: contexts.listening("required"), needs_user=True, users=users), test)


def test_a_trusted_balancer_introduces_its_clients(authority: TestAuthority, contexts: TlsContexts) -> None:
    async def test(running: Running) -> None:
        line = b"PROXY TCP4 192.0.2.9 192.0.2.1 4000 1\r\n"
        assert await running.ask(b"end", authority.client_context("bob"), first=line) == b"end"
        assert await running.ask(b"end", first=introduction(b"alice")) == b"end"  # The balancer has ended TLS.
        assert await running.ask(b"GET / x", first=introduction(is_tls=False)) != b"GET / x"
        bob, alice = running.came
        assert bob is not None
        assert (bob.address, bob.port, bob.user, bob.proxy) == ("192.0.2.9", 4000, "bob", HOST)
        assert alice is not None
        assert (alice.address, alice.user, alice.is_tls) == ("192.0.2.7", "alice", True)
        assert running.counts[NO_TLS] == 1

    trusted = parse_trusted("10.0.0.0/8, 127.0.0.1")
    run(Rules("kafka", lambda: contexts.listening("optional"), users=UserNames("common_name"), proxies=trusted), test)


def test_a_balancer_has_to_send_a_header(contexts: TlsContexts) -> None:
    async def test(running: Running) -> None:
        assert await running.ask(b"hello end") == b""
        assert await running.ask(b"PROXY TCP4 nonsense\r\nend") == b""
        assert running.counts[PROXY] == 2
        assert running.came == []

    run(Rules("kafka", proxies=parse_trusted("127.0.0.0/8")), test)


def test_a_header_from_an_address_that_is_not_trusted_is_not_read() -> None:
    async def test(running: Running) -> None:
        said = b"PROXY TCP4 192.0.2.9 192.0.2.1 4000 1\r\nend"
        assert await running.ask(said) == said
        assert running.came[0] is not None
        assert running.came[0].address == HOST

    run(Rules("kafka", proxies=parse_trusted("192.0.2.0/24")), test)


def test_silence_and_crowds_cost_those_who_cause_them(authority: TestAuthority, contexts: TlsContexts) -> None:
    async def test(running: Running) -> None:
        silent = [await asyncio.open_connection(HOST, running.port) for _ in range(12)]
        assert await running.ask(b"end", authority.client_context()) == b"end"
        ends = await asyncio.gather(*(asyncio.wait_for(reader.read(), 20) for reader, _ in silent))
        assert ends == [b""] * 12
        assert running.counts[CROWD] >= 4
        assert running.counts[CROWD] + running.counts[SILENT] == 12
        for _, writer in silent:
            writer.close()

    run(Rules("kafka", contexts.listening, handshake_s=1.0, handshakes_max=8), test)


def test_garbage_and_half_handshakes_leave_others_alone(authority: TestAuthority, contexts: TlsContexts) -> None:
    async def hello() -> bytes:
        out = ssl.MemoryBIO()
        with pytest.raises(ssl.SSLWantReadError):
            authority.client_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=HOST).do_handshake()
        return out.read()

    async def bother(running: Running, chance: random.Random) -> None:
        said = bytearray(await hello())
        kind = chance.randrange(4)
        if kind == 0:
            said = bytearray(chance.randbytes(chance.randrange(1, 600)))
        elif kind == 1:
            said = said[: chance.randrange(1, len(said))]
        else:
            for _ in range(chance.randrange(1, 8)):
                said[chance.randrange(1, len(said))] = chance.randrange(256)
        reader, writer = await asyncio.open_connection(HOST, running.port)
        try:
            writer.write(bytes(said))
            if chance.randrange(2):
                writer.write_eof()
            await asyncio.wait_for(reader.read(), 10)
        except ConnectionError:
            pass
        writer.close()

    async def test(running: Running) -> None:
        chance = random.Random(20)
        for _ in range(8):
            bothers = [bother(running, chance) for _ in range(10)]
            served = running.ask(b"end", authority.client_context())
            *_, answer = await asyncio.gather(*bothers, served)
            assert answer == b"end"
        assert len(running.came) == 8

    run(Rules("kafka", contexts.listening, handshake_s=0.4), test)
