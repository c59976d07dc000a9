"""Connections between the nodes of a hall: one listener per node, and one connection for each purpose.

Every connection begins with the handshake of `authentication`, in which both sides prove the cluster's secret, and a
greeting (version, hall, node, incarnation, purpose). A node that cannot prove the secret, belongs to another hall, or
does not read the feature level that is written here, is refused and counted. Requests (`request`, `serve`) have
connections of their own, so that they never wait behind replication. Each verb has an audience: verbs that serve data
are for members that the cluster knows.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from typing import Final, final

import msgspec

from longhall.broker.feature_gates import NEWEST, OLDEST
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
from longhall.cluster.rpc.request_client import REQUEST_PURPOSE, AnswerTarget, RequestClient
from longhall.cluster.rpc.request_server import CallHandler, Handler, RequestServer
from longhall.cluster.rpc.stream import IncomingStream, StreamHandler
from longhall.cluster.rpc.wire import (
    REFUSAL,
    WELCOME,
    Greeting,
    Refusal,
    Welcome,
)
from longhall.errors import LonghallError
from longhall.world.ports import Listener, World

FOLLOW_PURPOSE: Final = "follow"
GREETING_S_MAX: Final = 5.0  # For the whole handshake.
REQUESTS_MAX: Final = 1024  # Requests in progress to one node, or from one.
GREETINGS_MAX: Final = 64  # Connections before the end of their handshake; with more of them the oldest is closed.
GUESTS_FROM: Final = 1 << 40  # Processes of other halls have numbers from here on, nodes of the hall smaller ones.
REFUSAL_LOG_S: Final = 10.0  # Between two log lines about refusals of one kind.

OnFollower = Callable[[Link, Greeting], None]

_log = logging.getLogger("longhall.peers")


class Audience(enum.Enum):
    """The processes that may use a verb. All have proven the cluster's secret."""

    MEMBERS = "members"  # Nodes that the cluster knows as members.
    NODES = "nodes"  # Also nodes that are about to join.
    GUESTS = "guests"  # Also processes of other halls of the cluster.


def _shown(peer: object) -> str:
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)


def _no_leader(link: Link, greeting: Greeting) -> None:
    link.send(REFUSAL, Refusal(reason="this node does not lead"))
    link.close()


def _any_node(node: int) -> bool:
    """The check before the assembly sets another: accepts every node."""
    return node < GUESTS_FROM


@final
class Peers:
    """The listener of one node, its connections to other nodes, and the handlers of their requests.

    Invariant: no frame but those of the handshake is handled before the handshake is complete.
    """

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
        self.addresses: dict[int, tuple[str, int]] = {}  # Of the other nodes; the assembly updates it.
        self.on_follower: OnFollower = _no_leader
        self.is_member: Callable[[int], bool] = _any_node  # True if the cluster knows a node of this number.
        self.refused = dict.fromkeys(REASONS, 0)  # Refused connections by reason.
        self.level = OLDEST  # The feature level that is written here,
        self.level_max = NEWEST  # and the newest one that is read here.
        self._network = world.peers_network
        self._entropy = world.entropy
        self._hall_id = hall_id
        self._secrets = secrets if secrets is not None else Secrets()
        self._handlers: dict[str, Handler] = {}
        self._audiences: dict[str, Audience] = {}
        self._call_handlers: dict[str, CallHandler] = {}
        self._stream_handlers: dict[str, StreamHandler] = {}
        self._listener: Listener | None = None
        self._links: dict[Link, None] = {}  # All open connections, the oldest first.
        self._unproven: dict[Link, None] = {}  # Those whose handshake is not complete.
        self._refusals_logged: dict[str, tuple[float, int]] = {}  # By reason: time and count of the last line.
        self._clients: dict[int, RequestClient] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        self._listener, port = await self._network.listen(self._accepted, host, port)
        return port

    def serve(self, verb: str, handler: Handler, audience: Audience = Audience.NODES) -> None:
        """Answer requests with this verb. A LonghallError of the handler is raised at the caller."""
        self._handlers[verb] = handler
        self._audiences[verb] = audience

    def serve_calls(self, verb: str, handler: CallHandler, audience: Audience = Audience.NODES) -> None:
        """Answer requests with this verb by a `Pending`: they need no task, and the caller may cancel them."""
        self._call_handlers[verb] = handler
        self._audiences[verb] = audience

    def serve_stream(self, verb: str, handler: StreamHandler, audience: Audience = Audience.NODES) -> None:
        """Let other processes open streams with this verb."""
        self._stream_handlers[verb] = handler
        self._audiences[verb] = audience

    async def request(self, node: int, verb: str, body: bytes, timeout_s: float) -> bytes:
        """Ask another node. OSError if it cannot be reached, TimeoutError if it does not answer in time; whether it did
        what was asked is unknown then. LonghallError(OVERLOADED) if too many requests to it are in progress.
        """
        async with asyncio.timeout(timeout_s):
            return await self._client(node).request(verb, body)

    def send(self, node: int, verb: str, body: bytes, target: AnswerTarget) -> Callable[[], None]:
        """Ask another node without a task: `target` gets the answer, or the loss of the connection. The function that
        is returned cancels the request at the other node.
        """
        return self._client(node).send(verb, body, target)

    def note_silence(self, node: int, since_s: float) -> None:
        """A request to this node, sent at `since_s`, was given up. A connection without any answer since is closed."""
        self._client(node).note_silence(since_s)

    async def open_stream(self, node: int, verb: str, body: bytes, credit: int) -> IncomingStream:
        """Open a stream of items from another node, which sends at most `credit` items more than were taken."""
        return await self._client(node).open_stream(verb, body, credit)

    def _client(self, node: int) -> RequestClient:
        client = self._clients.get(node)
        if client is None:
            client = self._clients[node] = RequestClient(self, node)
        return client

    async def dial(self, node: int, purpose: str) -> Link:
        """Connect to another node and complete the handshake. OSError if that fails."""
        address = self.addresses.get(node)
        if address is None:
            raise ConnectionError(f"the address of node {node} is not known")
        handshake = Dialer(self._secrets, self._nonce(), node, self._greeting(purpose))
        welcomed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def heard(kind: int, body: bytes) -> None:
            if welcomed.done():
                return
            try:
                frame = handshake.receive(kind, body)
            except Refused as refused:
                self._count(refused.reason, link, node)
                welcomed.set_exception(ConnectionError(f"node {node} is not authenticated: {refused}"))
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
        """Remove a lost connection."""
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

    # Incoming connections

    def _accepted(self) -> Link:
        handshake: list[Handshake] = []  # Created by the first frame.

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
        """Refuse a node that knows the secret and does not belong here. The refusal has the reason."""
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
            server = RequestServer(self, link, greeting.node)
            link.on_frame = server.received
            link.on_lost = server.lost
        else:
            link.send(REFUSAL, Refusal(reason=f"{greeting.purpose} is not a purpose known here"))
            link.close()

    # Refused connections

    def _refuse(self, link: Link, refused: Refused) -> None:
        self._count(refused.reason, link)
        self._unproven.pop(link, None)
        link.send(REFUSAL, Refusal(reason=refused.told))
        link.close(str(refused))

    def _end(self, link: Link, reason: str) -> None:
        """Refuse a connection without a reply."""
        if link in self._unproven:
            self._count(reason, link)
            del self._unproven[link]
            link.abort(REASONS[reason])

    def _count(self, reason: str, link: Link, node: int = 0) -> None:
        """Count a refusal. Log lines of one reason are rate limited, so that strangers cannot fill the log."""
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
        """The handler of this verb."""
        return self._handlers.get(verb)

    def may_ask(self, node: int, verb: str) -> bool:
        """True if a process with this number is in the audience of the verb."""
        audience = self._audiences.get(verb, Audience.NODES)
        if audience is Audience.MEMBERS:
            return self.is_member(node)
        return audience is Audience.GUESTS or node < GUESTS_FROM

    def call_handler(self, verb: str) -> CallHandler | None:
        """The handler of this verb that answers with a `Pending`."""
        return self._call_handlers.get(verb)

    def stream_handler(self, verb: str) -> StreamHandler | None:
        """The handler of streams with this verb."""
        return self._stream_handlers.get(verb)

    def start(self, work: Awaitable[None]) -> None:
        """Run work that is cancelled when this object is closed."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
