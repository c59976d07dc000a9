"""Listeners that speak TLS and the PROXY protocol: what happens between accepting a connection and its first byte.

    accepted -> [PROXY header, from trusted addresses only] -> [TLS handshake] -> the door's protocol

Invariant: no byte reaches a door before everything in front of it is complete. A connection that does not get there
within the handshake time is closed, and so is the oldest one of the busiest address when too many are on their way, so
strangers cost a bounded number of sockets and no more. The first byte shows whether a client speaks TLS; one that does
not is told so in its own protocol where that is possible, and costs no handshake.

The doors do not know of this module: they listen through an `EntranceNetwork`. Connections in clear text without a
balancer do not come here at all.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, final

from longhall.front.certificate_names import CertificateNames, UserNames, names_of, names_of_common_name
from longhall.front.handshake_refusals import (
    CROWD,
    HANDSHAKE,
    NO_TLS,
    NO_USER,
    PROXY,
    SILENT,
    TLS_FIRST_BYTE,
    NotAdmitted,
    NotAdmittedCount,
    clear_refusal,
    guess_protocol,
    handshake_failure,
)
from longhall.front.origins import IntroducedTransport, Origin
from longhall.front.proxy_protocol import LINE_BYTES_MAX, HeaderReader, Introduction, ProxyError
from longhall.front.tls import handshake_alert
from longhall.world.ports import Listener

ACCEPTS_MAX: Final = 64  # Connections that are accepted in one turn of the loop.
UNREAD_BYTES_MAX: Final = 64 * 1024
ACCEPT_PAUSE_S: Final = 0.5  # After accepting has failed: no descriptor is free.
SHUTDOWN_S: Final = 30.0  # For a client to read what was written last, and to answer the end of TLS.

Trusted = Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]

_log = logging.getLogger("longhall.connections")


class Rules(NamedTuple):
    """The requirements of one door for connections."""

    door: str
    context: Callable[[], ssl.SSLContext] | None = None  # The TLS of new connections; None for clear text.
    needs_tls: bool = True  # With TLS: a client without it is refused.
    needs_user: bool = False  # The client's certificate has to name a user.
    users: UserNames = UserNames()
    proxies: Trusted = ()
    handshake_s: float = 10.0
    handshakes_max: int = 256


class SocketNetwork(Protocol):
    """A network of real sockets."""

    async def bind(self, host: str, port: int) -> list[socket.socket]:
        """Listening sockets, all with the same port."""

    async def connect(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        context: ssl.SSLContext | None = None,
    ) -> asyncio.BaseProtocol:
        """Open a connection, with TLS if there is a context."""


@final
class EntranceNetwork:
    """A `Network` whose listeners follow these rules. Connections that go out use TLS if there is a context."""

    def __init__(
        self, below: SocketNetwork, rules: Rules, connect_context: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        self.not_admitted = NotAdmittedCount(rules.door)
        self._below = below
        self._rules = rules
        self._connect_context = connect_context

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> tuple[Listener, int]:
        sockets = await self._below.bind(host, port)
        return Entrance(sockets, factory, self._rules, self.not_admitted), int(sockets[0].getsockname()[1])

    async def connect(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> asyncio.BaseProtocol:
        context = self._connect_context() if self._connect_context is not None else None
        return await self._below.connect(factory, host, port, context)


@final
class Entrance:
    """The open listening sockets of one door, and the connections that have not reached it yet."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        factory: Callable[[], asyncio.BaseProtocol],
        rules: Rules,
        not_admitted: NotAdmittedCount,
    ) -> None:
        self._sockets = list(sockets)
        self._factory = factory
        self._rules = rules
        self._not_admitted = not_admitted
        self._loop = asyncio.get_running_loop()
        self._arriving: dict[asyncio.Task[None], str] = {}  # With the peer's address; the oldest first.
        for one in self._sockets:
            self._loop.add_reader(one.fileno(), self._accept, one)

    def close(self) -> None:
        """Accept no more connections, and drop those that have not reached the door."""
        for one in self._sockets:
            self._loop.remove_reader(one.fileno())
            one.close()
        self._sockets.clear()
        for task in list(self._arriving):
            task.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                plug, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.error("a connection could not be accepted", extra={"reason": str(error)})
                self._loop.remove_reader(listening.fileno())
                self._loop.call_later(ACCEPT_PAUSE_S, self._accept_again, listening)
                return
            plug.setblocking(False)
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._bring_in(plug, str(peer[0]), int(peer[1])))
            self._arriving[task] = str(peer[0])
            task.add_done_callback(self._arrived)
            if len(self._arriving) > self._rules.handshakes_max:
                self._drop_one()

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _arrived(self, task: asyncio.Task[None]) -> None:
        del self._arriving[task]

    def _drop_one(self) -> None:
        """Drop the oldest of the address with the most connections on their way, so that one client harms itself."""
        ((busiest, _),) = Counter(self._arriving.values()).most_common(1)
        victim = next(task for task, peer in self._arriving.items() if peer == busiest)
        victim.cancel()
        limit = f"more than {self._rules.handshakes_max} are under way (tls.handshakes_max)"
        self._not_admitted.note(NotAdmitted(CROWD, limit), busiest, self._loop.time())

    async def _bring_in(self, plug: socket.socket, host: str, port: int) -> None:
        """Take one connection to its door. Never raises, but for cancellation."""
        try:
            try:
                async with asyncio.timeout(self._rules.handshake_s):
                    await self._admit(plug, host, port)
            except TimeoutError:
                raise NotAdmitted(SILENT, f"nothing complete came within {self._rules.handshake_s:g} s") from None
            except ProxyError as error:
                raise NotAdmitted(PROXY, str(error)) from None
        except NotAdmitted as error:
            self._not_admitted.note(error, host, self._loop.time())
            _close(plug)
        except (ConnectionError, EOFError):  # The client has gone: a port scan or a liveness probe does no more.
            plug.close()
        except asyncio.CancelledError:
            plug.close()
            raise
        except Exception:
            _log.exception("a connection failed before it reached its door", extra={"door": self._rules.door})
            plug.close()

    async def _admit(self, plug: socket.socket, host: str, port: int) -> None:
        rules = self._rules
        told = Introduction()
        proxy = ""
        if rules.proxies and is_trusted(host, rules.proxies):
            told, proxy = await self._read_header(plug), host
            if told.address:
                host, port = told.address, told.port
        context = rules.context() if rules.context is not None else None
        if context is not None:
            first = await self._peek(plug, 1)
            if first[0] != TLS_FIRST_BYTE:
                if rules.needs_tls and not told.is_tls:
                    await self._refuse_clear(plug)
                context = None
        names = _names(told)
        introduce = _Introducer(self._factory, rules, Origin(host, port, told.is_tls, "", names, proxy))
        if context is None:
            await self._loop.connect_accepted_socket(lambda: introduce, plug)
        else:
            await self._shake_hands(introduce, plug, context)
        if introduce.refusal is not None:
            raise introduce.refusal

    async def _shake_hands(self, introduce: _Introducer, plug: socket.socket, context: ssl.SSLContext) -> None:
        alert: list[bytes] = []
        handshake_alert.set(alert)  # In the context of this task alone.
        with plug.dup() as spare:
            try:
                await self._loop.connect_accepted_socket(
                    lambda: introduce,
                    plug,
                    ssl=context,
                    ssl_handshake_timeout=self._rules.handshake_s,
                    ssl_shutdown_timeout=SHUTDOWN_S,
                )
            except ssl.SSLError as error:
                if alert:
                    spare.send(b"".join(alert))
                raise NotAdmitted(HANDSHAKE, handshake_failure(error)) from None

    async def _read_header(self, plug: socket.socket) -> Introduction:
        reader = HeaderReader()
        while True:
            if reader.is_line:
                waiting = await self._peek(plug, LINE_BYTES_MAX)
                end = waiting.find(b"\n")
                wanted = end + 1 if end >= 0 else len(waiting)
            else:
                wanted = reader.wanted
                await self._peek(plug, 1)
            told = reader.feed(plug.recv(wanted))
            if told is not None:
                return told

    async def _peek(self, plug: socket.socket, size: int) -> bytes:
        """The next bytes, at least one, which stay in the socket. EOFError if there are none."""
        while True:
            try:
                data = plug.recv(size, socket.MSG_PEEK)
            except (BlockingIOError, InterruptedError):
                await self._readable(plug)
                continue
            if not data:
                raise EOFError
            return data

    async def _readable(self, plug: socket.socket) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(plug.fileno(), _wake, ready)
        try:
            await ready
        finally:
            self._loop.remove_reader(plug.fileno())

    async def _refuse_clear(self, plug: socket.socket) -> None:
        """Tell a client in clear text that this port speaks TLS only."""
        data = await self._peek(plug, 16)
        answer = clear_refusal(data)
        if answer:
            plug.send(answer)
        raise NotAdmitted(NO_TLS, f"the client speaks {guess_protocol(data)} without TLS, and this port needs TLS")


class _Introducer(asyncio.Protocol):
    """The first protocol of a connection: it gives the transport to the door's own protocol, with its origin."""

    def __init__(self, factory: Callable[[], asyncio.BaseProtocol], rules: Rules, origin: Origin) -> None:
        self.refusal: NotAdmitted | None = None
        self._factory = factory
        self._rules = rules
        self._origin = origin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        origin = self._origin
        secured = transport.get_extra_info("ssl_object")
        if secured is not None:
            der = secured.getpeercert(binary_form=True)
            cipher = secured.cipher()
            origin = origin._replace(
                is_tls=True,
                names=names_of(der) if der else None,
                tls_version=str(secured.version() or ""),
                cipher=str(cipher[0]) if cipher else "",
            )
        if origin.names is not None:
            origin = origin._replace(user=self._rules.users.user_of(origin.names))
        if self._rules.needs_user and origin.is_tls and not origin.user:
            name = origin.names.distinguished_name if origin.names is not None else "without a certificate"
            self.refusal = NotAdmitted(NO_USER, f"no rule of tls.user_rules makes a user of {name!r}")
            transport.close()
            return
        protocol = self._factory()
        transport.set_protocol(protocol)
        protocol.connection_made(IntroducedTransport(transport, origin))  # type: ignore[arg-type]


def is_trusted(host: str, trusted: Trusted) -> bool:
    """True if an address belongs to a trusted network."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in trusted)


def parse_trusted(text: str) -> Trusted:
    """Addresses and networks with commas between them. Raises ValueError."""
    return [ipaddress.ip_network(word.strip(), strict=True) for word in text.split(",") if word.strip()]


def _names(told: Introduction) -> CertificateNames | None:
    if told.certificate:
        names = names_of(told.certificate)
        if names is None:
            raise ProxyError("its header has a certificate that cannot be read")
        return names
    return names_of_common_name(told.common_name) if told.common_name else None


def _close(plug: socket.socket) -> None:
    """Close a connection. Unread bytes would make the kernel reset it, and the client would not see the answer."""
    try:
        plug.recv(UNREAD_BYTES_MAX)
    except OSError:  # Nothing is there, or the event loop has closed it.
        pass
    plug.close()


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
