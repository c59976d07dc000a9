"""Connections between the nodes of a hall: one listener a node, a connection for each purpose, frames on it.

Every connection begins with the handshake of `peer_authentication`, in which both sides prove the cluster's secret,
and a greeting (version, hall, node, incarnation, purpose). A node that cannot prove it, is of another hall, or does not
read the feature level that is written here, is refused and counted. Requests and answers of the rest of the cluster
(`request`, `serve`) have connections of their own, so that they never wait behind the log. Each verb names its
audience: what serves data is for members that the cluster knows.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, final

import msgspec

from longhall.broker.gates import NEWEST, OLDEST
from longhall.cluster.rpc.authentication import (
    CROWD,
    GARBAGE,
    LEFT,
    LEVEL,
    NONCE_BYTES,
    REASONS,
    SILENT,
    UNKNOWN,
    Dialer,
    Refused,
    Secrets,
)
from longhall.cluster.rpc.authentication import Listener as Handshake
from longhall.cluster.rpc.link import Link
from longhall.cluster.rpc.wire import (
    ANSWER,
    REFUSAL,
    REQUEST,
    WELCOME,
    Greeting,
    Refusal,
    Welcome,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from longhall.errors import Code, LonghallError
from longhall.world.ports import Listener, World

FOLLOW_PURPOSE: Final = "follow"
REQUEST_PURPOSE: Final = "request"
GREETING_S_MAX: Final = 5.0  # For the whole handshake.
REQUESTS_MAX: Final = 1024  # Under way to one node, or from one, at the same time.
SILENCE_S: Final = 10.0  # Without any answer although one was wanted: the connection is dead.
GREETINGS_MAX: Final = 64  # Connections that have not proven yet who they are; the oldest makes room for a new one.
GUESTS_FROM: Final = 1 << 40  # Nodes of a hall have smaller numbers than its guests.
REFUSAL_LOG_S: Final = 10.0  # Between two log lines about refusals of one kind.

Handler = Callable[[int, bytes], Awaitable[bytes]]  # From which node, what; returns the answer.
Reply = Callable[[bytes], None]
AtOnce = Callable[[int, bytes, Reply], bool]  # The same with the way back; False leaves it to the ordinary handler.
OnFollower = Callable[[Link, Greeting], None]

_log = logging.getLogger("longhall.peers")


class Audience(enum.Enum):
    """Who may ask for a verb, among those who have proven the cluster's secret."""

    MEMBERS = "members"  # Nodes that the cluster knows.
    NODES = "nodes"  # Also those that are about to join.
    GUESTS = "guests"  # Also processes of other halls of the cluster.


def _shown(peer: object) -> str:
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)


def _no_leader(link: Link, greeting: Greeting) -> None:
    link.send(REFUSAL, Refusal(reason="this node does not lead"))
    link.close()


def _nobody_cares(node: int) -> None:
    """Until somebody works for others."""


def _any_node(node: int) -> bool:
    """Until the assembly knows the members."""
    return node < GUESTS_FROM


@final
class Peers:
    """See the module."""

    def __init__(
        self,
        world: World,
        hall_id: str,
        node: int,
        incarnation: int,
        *,
        secrets: Secrets | None = None,
        requests_max: int = REQUESTS_MAX,
    ) -> None:
        self.node = node
        self.incarnation = incarnation
        self.requests_max = requests_max
        self.on_asker_lost: Callable[[int], None] = _nobody_cares  # Nobody there waits for answers any more.
        self.addresses: dict[int, tuple[str, int]] = {}  # Where the other nodes listen; the assembly keeps it fresh.
        self.on_follower: OnFollower = _no_leader
        self.is_member: Callable[[int], bool] = _any_node  # Whether the cluster knows a node of this number.
        self.refused = dict.fromkeys(REASONS, 0)  # Connections, by reason.
        self.level = OLDEST  # That is written here,
        self.level_max = NEWEST  # and the newest that is read here.
        self._network = world.network
        self._entropy = world.entropy
        self._hall_id = hall_id
        self._secrets = secrets if secrets is not None else Secrets()
        self._handlers: dict[str, Handler] = {}
        self._audiences: dict[str, Audience] = {}
        self._at_once: dict[str, AtOnce] = {}
        self._listener: Listener | None = None
        self._links: dict[Link, None] = {}  # All that are open, in the order they came.
        self._unproven: dict[Link, None] = {}  # Those of them that have not greeted yet.
        self._refusals_logged: dict[str, tuple[float, int]] = {}  # By reason: when, and how many there were then.
        self._askers: dict[int, _Asker] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        self._listener, port = await self._network.listen(self._accepted, host, port)
        return port

    def serve(self, verb: str, handler: Handler, audience: Audience = Audience.NODES) -> None:
        """Answer requests of this name. A LonghallError of the handler arrives at the caller as it is."""
        self._handlers[verb] = handler
        self._audiences[verb] = audience

    def serve_at_once(self, verb: str, handler: AtOnce) -> None:
        """Ask this handler first: one that needs no task of its own."""
        self._at_once[verb] = handler

    async def request(self, node: int, verb: str, body: bytes, timeout_s: float) -> bytes:
        """Ask another node. OSError when it cannot be reached, TimeoutError when it does not answer in time: whether it
        did what was asked is unknown then. LonghallError(OVERLOADED) when too much is under way to it already.
        """
        asker = self._askers.get(node)
        if asker is None:
            asker = self._askers[node] = _Asker(self, node)
        async with asyncio.timeout(timeout_s):
            return await asker.ask(verb, body)

    async def dial(self, node: int, purpose: str) -> Link:
        """A connection to another node that has been welcomed. OSError when that cannot be."""
        address = self.addresses.get(node)
        if address is None:
            raise ConnectionError(f"nobody knows where node {node} is")
        handshake = Dialer(self._secrets, self._nonce(), node, self._greeting(purpose))
        welcomed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def heard(kind: int, body: bytes) -> None:
            if welcomed.done():
                return
            try:
                frame = handshake.receive(kind, body)
            except Refused as refused:
                self._count(refused.reason, link, node)
                welcomed.set_exception(ConnectionError(f"node {node} is not who it should be: {refused}"))
            except (OSError, LonghallError) as error:
                welcomed.set_exception(ConnectionError(str(error)))
            else:
                if frame is None:
                    link.greeted()
                    welcomed.set_result(None)
                else:
                    link.write(frame)

        def lost() -> None:
            if not welcomed.done():
                welcomed.set_exception(ConnectionError(f"node {node} hung up: {link.why}"))

        link = Link(heard)
        link.on_lost = lost
        try:
            async with asyncio.timeout(GREETING_S_MAX):
                await self._network.connect(lambda: link, *address)
                self._links[link] = None
                link.write(handshake.begin())
                await welcomed
        except BaseException:
            link.abort("not welcome")
            self.forget(link)
            if welcomed.done() and not welcomed.cancelled():
                welcomed.exception()
            raise
        return link

    def _greeting(self, purpose: str) -> Greeting:
        return Greeting(
            version=self.level,
            hall=self._hall_id,
            node=self.node,
            incarnation=self.incarnation,
            purpose=purpose,
            reads=self.level_max if self.level_max > OLDEST else msgspec.UNSET,
        )

    def forget(self, link: Link) -> None:
        """The connection is gone."""
        self._links.pop(link, None)

    async def close(self) -> None:
        """Close the listener and every connection."""
        if self._listener is not None:
            self._listener.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in list(self._links):
            link.abort("the node stops")
        self._links.clear()

    # Those who come

    def _accepted(self) -> Link:
        handshake: list[Handshake] = []  # Begun with the first frame.

        def heard(kind: int, body: bytes) -> None:
            if not handshake:
                handshake.append(Handshake(self._secrets, self._nonce(), self._hall_id, self.node))
            try:
                self._take_step(link, handshake[0].receive(kind, body))
            except Refused as refused:
                self._refuse(link, refused)

        def made(made_link: Link) -> None:
            self._links[made_link] = self._unproven[made_link] = None
            if len(self._unproven) > GREETINGS_MAX:
                self._end(next(iter(self._unproven)), CROWD)
            if made_link in self._unproven:
                made_link.on_known.append(loop.call_later(GREETING_S_MAX, self._end, made_link, SILENT))

        def lost() -> None:
            for handle in link.on_known:
                handle.cancel()
            if link in self._unproven:
                if handshake and handshake[0].asked:
                    self._count(LEFT, link)
                elif link.is_garbled:
                    self._count(GARBAGE, link)
                del self._unproven[link]
            self.forget(link)

        loop = asyncio.get_running_loop()
        link = Link(heard, made)
        link.on_lost = lost
        return link

    def _take_step(self, link: Link, step: bytes | Greeting) -> None:
        if isinstance(step, bytes):
            link.write(step)
            return
        self._check(step)
        self._known(link, step)

    def _check(self, greeting: Greeting) -> None:
        """Refuse a node that cannot belong here although it knows the secret: it may hear why."""
        reads = greeting.reads if isinstance(greeting.reads, int) else greeting.version
        if greeting.version > self.level_max:
            raise Refused(LEVEL, f"version {greeting.version} of the peers' protocol is not spoken here")
        if reads < self.level:
            told = f"the cluster is at feature level {self.level}, and node {greeting.node} knows up to {reads}"
            raise Refused(LEVEL, told)
        if greeting.purpose == FOLLOW_PURPOSE and not self.is_member(greeting.node):
            raise Refused(UNKNOWN, f"node {greeting.node} is not known here as a member")

    def _known(self, link: Link, greeting: Greeting) -> None:
        del self._unproven[link]
        for handle in link.on_known:
            handle.cancel()
        link.on_known.clear()
        link.on_lost = lambda: self.forget(link)
        link.greeted()
        link.send(WELCOME, Welcome(version=self.level, node=self.node, incarnation=self.incarnation))
        if greeting.purpose == FOLLOW_PURPOSE:
            self.on_follower(link, greeting)
        elif greeting.purpose == REQUEST_PURPOSE:
            answerer = _Answerer(self, link, greeting.node)
            link.on_frame = answerer.asked
            link.on_lost = answerer.lost
        else:
            link.send(REFUSAL, Refusal(reason=f"{greeting.purpose} is not a purpose known here"))
            link.close()

    # Those who are sent away

    def _refuse(self, link: Link, refused: Refused) -> None:
        self._count(refused.reason, link)
        self._unproven.pop(link, None)
        link.send(REFUSAL, Refusal(reason=refused.told))
        link.close(str(refused))

    def _end(self, link: Link, reason: str) -> None:
        """Without a word to the other side."""
        if link in self._unproven:
            self._count(reason, link)
            del self._unproven[link]
            link.abort(REASONS[reason])

    def _count(self, reason: str, link: Link, node: int = 0) -> None:
        """The log has a line for the first refusal of a kind, and then one in a while: strangers must not fill it."""
        self.refused[reason] += 1
        now_s = asyncio.get_running_loop().time()
        logged_s, logged = self._refusals_logged.get(reason, (-REFUSAL_LOG_S, 0))
        if now_s - logged_s >= REFUSAL_LOG_S:
            told = {"reason": REASONS[reason], "times": self.refused[reason] - logged, "address": _shown(link.peer())}
            _log.warning("a connection between nodes was refused", extra=told | ({"to_node": node} if node else {}))
            self._refusals_logged[reason] = (now_s, self.refused[reason])

    def _nonce(self) -> bytes:
        return self._entropy.bytes(NONCE_BYTES)

    def handler(self, verb: str) -> Handler | None:
        """Who answers this verb."""
        return self._handlers.get(verb)

    def may_ask(self, node: int, verb: str) -> bool:
        """True if a process that greeted with this number is among the audience of the verb."""
        audience = self._audiences.get(verb, Audience.NODES)
        if audience is Audience.MEMBERS:
            return self.is_member(node)
        return audience is Audience.GUESTS or node < GUESTS_FROM

    def handler_at_once(self, verb: str) -> AtOnce | None:
        """Who may answer it at once."""
        return self._at_once.get(verb)

    def start(self, work: Awaitable[None]) -> None:
        """Run something that ends with this object at the latest."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@final
class _Asker:
    """The requests of this node to one other, over one connection, made again when it broke."""

    def __init__(self, peers: Peers, node: int) -> None:
        self._peers = peers
        self._node = node
        self._link: Link | None = None
        self._dialling = asyncio.Lock()
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._number = 0
        self._waiting = 0
        self._loop = asyncio.get_running_loop()
        self._heard_s = -1.0  # When the last answer came over this connection, whichever,
        self._unheard_s = -1.0  # and when the first question was asked after that which was given up.

    async def ask(self, verb: str, body: bytes) -> bytes:
        if self._waiting >= self._peers.requests_max:
            raise LonghallError(Code.OVERLOADED, f"too many requests are under way to node {self._node}")
        self._waiting += 1
        try:
            link = await self._connected()
            self._number += 1
            number = self._number
            answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._asked[number] = answered
            asked_s = self._loop.time()
            try:
                link.write(encode_request(number, verb, body))
                return await answered
            except asyncio.CancelledError:
                if self._link is link and self._heard_s < asked_s:
                    self._given_up(link, asked_s)
                raise
            finally:
                self._asked.pop(number, None)
        finally:
            self._waiting -= 1

    def _given_up(self, link: Link, asked_s: float) -> None:
        """Nothing was heard since this was asked. Short questions count together: each alone would never be enough."""
        if self._unheard_s <= self._heard_s:
            self._unheard_s = asked_s
        if self._unheard_s <= self._loop.time() - SILENCE_S:
            link.abort("the other side is silent")  # The next one had better try a fresh connection.

    async def _connected(self) -> Link:
        async with self._dialling:
            if self._link is None or not self._link.is_open:
                link = await self._peers.dial(self._node, REQUEST_PURPOSE)
                link.on_frame = self._answered
                link.on_lost = lambda: self._lost(link)
                self._link = link
                self._heard_s = self._unheard_s = -1.0
                if not link.is_open:
                    raise ConnectionError(f"node {self._node} hung up: {link.why}")
            return self._link

    def _answered(self, kind: int, body: bytes) -> None:
        if kind != ANSWER:
            raise LonghallError(Code.INVALID_REQUEST, "an answer was expected")
        number, code, answer = decode_answer(body)
        self._heard_s = self._loop.time()
        future = self._asked.get(number)
        if future is None or future.done():
            return
        if code is None:
            future.set_result(answer)
        else:
            future.set_exception(LonghallError(code, answer.decode(errors="replace")))

    def _lost(self, link: Link) -> None:
        self._peers.forget(link)
        if self._link is not link:
            return
        self._link = None
        for future in self._asked.values():
            if not future.done():
                future.set_exception(ConnectionError(f"the connection to node {self._node} broke: {link.why}"))


@final
class _Answerer:
    """The requests of one other node."""

    def __init__(self, peers: Peers, link: Link, node: int) -> None:
        self._peers = peers
        self._link = link
        self._node = node
        self._running = 0

    def asked(self, kind: int, body: bytes) -> None:
        if kind != REQUEST:
            raise LonghallError(Code.INVALID_REQUEST, "a request was expected")
        number, verb, asked = decode_request(body)
        if not self._peers.may_ask(self._node, verb):
            sentence = f"{verb} is for members, and node {self._node} is not known here as one"
            self._link.write(encode_answer(number, Code.NOT_READY, sentence.encode()))
            return
        at_once = self._peers.handler_at_once(verb)
        if at_once is not None and at_once(self._node, asked, partial(self._reply, number)):
            return
        handler = self._peers.handler(verb)
        if handler is None:
            self._link.write(encode_answer(number, Code.NOT_READY, f"nobody answers {verb} here".encode()))
        elif self._running >= self._peers.requests_max:
            self._link.write(encode_answer(number, Code.OVERLOADED, b"too many requests are under way"))
        else:
            self._running += 1
            self._peers.start(self._answer(handler, number, asked))

    def _reply(self, number: int, answer: bytes) -> None:
        self._link.write(encode_answer(number, None, answer))

    def lost(self) -> None:
        self._peers.forget(self._link)
        self._peers.on_asker_lost(self._node)

    async def _answer(self, handler: Handler, number: int, asked: bytes) -> None:
        try:
            answer = encode_answer(number, None, await handler(self._node, asked))
        except LonghallError as error:
            answer = encode_answer(number, error.code, str(error).encode())
        except OSError as error:
            answer = encode_answer(number, Code.NOT_READY, str(error).encode())
        except msgspec.DecodeError as error:
            answer = encode_answer(number, Code.INVALID_REQUEST, str(error).encode())
        except Exception as error:
            _log.exception("a request of another node failed", extra={"node": self._node})
            answer = encode_answer(number, Code.NOT_READY, f"an internal error: {error!r}".encode())
        finally:
            self._running -= 1
        self._link.write(answer)
