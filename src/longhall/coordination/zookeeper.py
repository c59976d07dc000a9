"""The tree in a real ZooKeeper, through kazoo.

kazoo has threads of its own; nothing of them touches our state. Whatever they report is handed to the loop, in the
order in which they report it, and only there futures are settled and watches fire.

A lost connection means that nobody knows what became of a request. kazoo counts requests as heartbeats, so a server
that has gone silent is not noticed while we ask it things: when an answer is overdue the connection is broken off.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Any, Final, final

from kazoo import exceptions as refusals
from kazoo.client import KazooClient, KazooState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL

from longhall.coordination.address import ZooKeeperAddress, parse_address
from longhall.coordination.coordinator import TreeCoordinator
from longhall.coordination.ports import ABSENT, Conflict, CoordinationError, Expired, OutcomeUnknown, Session
from longhall.coordination.tree import Check, Create, Fired, Heard, Node, Operation, Put

SESSION_TIMEOUT_MS: Final = 6000
SESSION_TIMEOUT_MS_MIN: Final = 1000
CONNECT_S: Final = 15.0
RECONNECT_S: Final = (0.05, 1.0)  # The first pause between attempts, and the longest.

_CONFLICTS: Final = (
    refusals.BadVersionError,
    refusals.NoNodeError,
    refusals.NodeExistsError,
    refusals.NotEmptyError,
    refusals.NoChildrenForEphemeralsError,
)
# Of a commit that was refused, those operations that were not the reason.
_BYSTANDERS: Final = (refusals.RolledBackError, refusals.RuntimeInconsistency)

_log = logging.getLogger("longhall.coordination.zookeeper")
_quiet = logging.getLogger("longhall.coordination.kazoo")
_quiet.setLevel(logging.CRITICAL)  # What matters of a connection is told once, by us.


def zookeeper_coordinator(url: str, *, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> TreeCoordinator:
    """For a node of a cluster. LonghallError unless the URL is `zk://...` as it should be."""
    return TreeCoordinator(ZooKeeperTree(parse_address(url), session_timeout_ms=session_timeout_ms))


@final
class ZooKeeperTree:
    """One session after another: when ZooKeeper ends one, kazoo begins the next by itself."""

    def __init__(self, address: ZooKeeperAddress, *, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        assert session_timeout_ms >= SESSION_TIMEOUT_MS_MIN, "the settings hold the bound"
        self._address = address
        self._session_s = session_timeout_ms / 1000
        self._client: Any = None
        self._closing = True
        self._state = Session.CLOSED
        self._changed = asyncio.Event()
        self._heard: Callable[[Session], None] = _nobody

    @property
    def session_id(self) -> int:
        identity = None if self._client is None else self._client.client_id
        return 0 if identity is None else int(identity[0])

    async def start(self, heard: Heard) -> None:
        assert self._closing, "it has begun"
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self._client = self._make_client()
        await asyncio.to_thread(self._client.start_async)
        try:
            async with asyncio.timeout(CONNECT_S):
                while self._state is not Session.CONNECTED:
                    self._changed.clear()
                    await self._changed.wait()
            await self.make_root()
        except TimeoutError:
            await self.close()
            raise OutcomeUnknown(f"nobody answers at {self._address}") from None
        except CoordinationError:
            await self.close()
            raise

    async def close(self) -> None:
        if not self._closing:
            self._closing = True
            await asyncio.to_thread(self._stop)
            self._session_changed(Session.CLOSED)

    async def get(self, path: str, fired: Fired | None = None) -> Node | None:
        self._check_open()
        while True:
            watch = None if fired is None else self._watch(fired)
            try:
                data, stat = await self._ask(self._client.get_async, self._full(path), watch)
                return Node(data, stat.version, stat.czxid, stat.ephemeralOwner)
            except refusals.NoNodeError:
                # Reading what is not there leaves no watch; asking whether it is there does.
                if fired is None or await self._ask(self._client.exists_async, self._full(path), watch) is None:
                    return None

    async def children(self, path: str, fired: Fired | None = None) -> list[str]:
        self._check_open()
        watch = None if fired is None else self._watch(fired)
        try:
            return sorted(await self._ask(self._client.get_children_async, self._full(path), watch))
        except refusals.NoNodeError:
            raise Conflict(f"{path} is not there") from None

    async def commit(self, *operations: Operation) -> list[int]:
        self._check_open()
        return await self._commit([(operation, self._full(operation.path)) for operation in operations])

    async def sync(self) -> None:
        self._check_open()
        await self._ask(self._client.sync_async, self._full("/"))

    async def _commit(self, operations: list[tuple[Operation, str]]) -> list[int]:
        transaction = self._client.transaction()
        for operation, path in operations:
            if isinstance(operation, Create):
                transaction.create(path, operation.data, ephemeral=operation.ephemeral)
            elif isinstance(operation, Put):
                transaction.set_data(path, operation.data, version=operation.version)
            elif isinstance(operation, Check):
                transaction.check(path, version=operation.version)
            else:
                transaction.delete(path, version=operation.version)
        results = await self._ask(transaction.commit_async)
        versions: list[int] = []
        for (operation, path), result in zip(operations, results, strict=True):
            if isinstance(result, _CONFLICTS):
                raise Conflict(f"{path}: {type(result).__name__}")
            if isinstance(result, _BYSTANDERS):
                continue
            if isinstance(result, Exception):
                raise _translated(result, self._address)
            if isinstance(operation, Create):
                versions.append(0)
            else:
                versions.append(result.version if isinstance(operation, Put) else ABSENT)
        return versions

    def _make_client(self) -> Any:
        protection: dict[str, Any] = {}
        if self._address.user:
            protection["auth_data"] = [("digest", f"{self._address.user}:{self._address.password}")]
            protection["default_acl"] = CREATOR_ALL_ACL
        client = KazooClient(
            hosts=self._address.hosts,
            timeout=self._session_s,
            connection_retry=KazooRetry(max_tries=-1, delay=RECONNECT_S[0], max_delay=RECONNECT_S[1]),
            logger=_quiet,
            **protection,
        )
        client.add_listener(self._state_changed)
        return client

    async def make_root(self) -> None:
        parts = self._address.root.split("/")[1:]
        for depth in range(1, len(parts) + 1):
            path = "/" + "/".join(parts[:depth])
            try:
                if await self._ask(self._client.exists_async, path) is None:
                    await self._commit([(Create(path), path)])
            except Conflict:
                pass  # Another node was quicker.

    async def _ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Make one of kazoo's asynchronous calls and wait for its answer."""
        if self._state is not Session.CONNECTED:
            # kazoo would keep the request and send it when it likes, long after we gave an answer.
            raise OutcomeUnknown(f"there is no connection to {self._address}")
        future: asyncio.Future[Any] = self._loop.create_future()
        call(*arguments).rawlink(lambda result: self._on_loop(_settle, future, result))
        try:
            async with asyncio.timeout(self._session_s * 2 / 3):
                return await future
        except TimeoutError:
            self._break_off()
            raise OutcomeUnknown(f"{self._address} does not answer") from None
        except refusals.NoNodeError:
            raise
        except (refusals.KazooException, OSError) as failure:
            raise _translated(failure, self._address) from failure

    def _check_open(self) -> None:
        if self._closing:
            raise Expired("the session is closed")

    def _break_off(self) -> None:
        """kazoo then finds a server that answers, with the same session."""
        connection = getattr(self._client._connection, "_socket", None)
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _full(self, path: str) -> str:
        return (self._address.root + path.rstrip("/")) or "/"

    def _watch(self, fired: Fired) -> Callable[[object], None]:
        def on_event(event: object) -> None:
            self._on_loop(fired)

        return on_event

    # From here on, what kazoo's threads call.

    def _stop(self) -> None:
        with contextlib.suppress(refusals.WriterNotClosedException):  # It ends with its thread, a little later.
            self._client.stop()
        self._client.close()

    def _state_changed(self, state: str) -> None:
        session = {
            KazooState.CONNECTED: Session.CONNECTED,
            KazooState.SUSPENDED: Session.SUSPENDED,
            KazooState.LOST: Session.CLOSED if self._closing else Session.EXPIRED,
        }[state]
        self._on_loop(self._session_changed, session)

    def _on_loop(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            pass  # The loop is closed: there is nobody left to tell.

    def _session_changed(self, session: Session) -> None:
        if session is self._state:
            return
        if session in (Session.SUSPENDED, Session.EXPIRED):
            _log.warning("the session with %s is %s", self._address, session.value)
        self._state = session
        self._changed.set()
        self._heard(session)


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if result.exception is not None:
        future.set_exception(result.exception)
    else:
        future.set_result(result.value)


def _translated(failure: Exception, address: ZooKeeperAddress) -> CoordinationError:
    gone = isinstance(failure, refusals.ConnectionClosedError)  # A kind of expiry for kazoo, but only a lost race.
    if isinstance(failure, refusals.SessionExpiredError) and not gone:
        return Expired("the session is over")
    if isinstance(failure, refusals.NoAuthError | refusals.AuthFailedError):
        return CoordinationError(f"{address} does not let us: name user and password as zk://user:password@host/path")
    return OutcomeUnknown(f"{address}: {type(failure).__name__} {failure}".rstrip())


def _nobody(session: Session) -> None:
    """Nobody listens yet."""
