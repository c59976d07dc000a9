"""The tree in a real ZooKeeper, through kazoo.

kazoo has threads of its own; they never touch our state. Their reports are passed to the loop in order, and only there
futures are completed and watches fire.

After a lost connection the outcome of a request is unknown. kazoo counts requests as heartbeats, so it does not notice
a silent server while we send requests: when an answer is overdue, this module closes the connection.
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
from longhall.coordination.tree import Check, Create, Fired, Node, OnSession, Operation, Put

SESSION_TIMEOUT_MS: Final = 6000
SESSION_TIMEOUT_MS_MIN: Final = 1000
CONNECT_S: Final = 15.0
RECONNECT_S: Final = (0.05, 1.0)  # The first and the longest pause between attempts.

_CONFLICTS: Final = (
    refusals.BadVersionError,
    refusals.NoNodeError,
    refusals.NodeExistsError,
    refusals.NotEmptyError,
    refusals.NoChildrenForEphemeralsError,
)
# In a refused commit, the results of the operations that were not the reason.
_NOT_THE_REASON: Final = (refusals.RolledBackError, refusals.RuntimeInconsistency)

_log = logging.getLogger("longhall.coordination.zookeeper")
_quiet = logging.getLogger("longhall.coordination.kazoo")
_quiet.setLevel(logging.CRITICAL)  # The events of a connection that matter are logged here, once.


def zookeeper_coordinator(
    where: str | ZooKeeperAddress, *, session_timeout_ms: int = SESSION_TIMEOUT_MS
) -> TreeCoordinator:
    """The coordinator of a cluster node. LonghallError unless a URL is a valid `zk://...`."""
    address = parse_address(where) if isinstance(where, str) else where
    return TreeCoordinator(ZooKeeperTree(address, session_timeout_ms=session_timeout_ms))


@final
class ZooKeeperTree:
    """The client of a ZooKeeper. When ZooKeeper ends a session, kazoo begins the next one by itself."""

    def __init__(self, address: ZooKeeperAddress, *, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        assert session_timeout_ms >= SESSION_TIMEOUT_MS_MIN, "the settings enforce the bound"
        self._address = address
        self._session_s = session_timeout_ms / 1000
        self._client: Any = None
        self._closing = True
        self._state = Session.CLOSED
        self._changed = asyncio.Event()
        self._on_session: Callable[[Session], None] = _ignore
        self._overdue: asyncio.TimerHandle | None = None

    @property
    def session_id(self) -> int:
        identity = None if self._client is None else self._client.client_id
        return 0 if identity is None else int(identity[0])

    async def start(self, on_session: OnSession) -> None:
        assert self._closing, "the session has begun"
        self._on_session = on_session
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
            raise OutcomeUnknown(f"ZooKeeper at {self._address} did not answer in time; check that it runs") from None
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
                # A read of a missing value sets no watch; `exists` does.
                if fired is None or await self._ask(self._client.exists_async, self._full(path), watch) is None:
                    return None

    async def children(self, path: str, fired: Fired | None = None) -> list[str]:
        self._check_open()
        watch = None if fired is None else self._watch(fired)
        try:
            return sorted(await self._ask(self._client.get_children_async, self._full(path), watch))
        except refusals.NoNodeError:
            raise Conflict(f"{path} does not exist") from None

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
            if isinstance(result, _NOT_THE_REASON):
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
                pass  # Another node created it first.

    async def _ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Make one of kazoo's asynchronous calls and wait for its answer."""
        if self._state is not Session.CONNECTED:
            # kazoo would queue the request and send it later, long after we reported its outcome as unknown.
            raise OutcomeUnknown(f"there is no connection to ZooKeeper at {self._address}")
        future: asyncio.Future[Any] = self._loop.create_future()
        call(*arguments).rawlink(lambda result: self._on_loop(_settle, future, result))
        try:
            async with asyncio.timeout(self._session_s * 2 / 3):
                return await future
        except TimeoutError:
            self._disconnect()
            raise OutcomeUnknown(f"ZooKeeper at {self._address} does not answer") from None
        except refusals.NoNodeError:
            raise
        except (refusals.KazooException, OSError) as failure:
            raise _translated(failure, self._address) from failure

    def _check_open(self) -> None:
        if self._closing:
            raise Expired("the session is closed")

    def _disconnect(self) -> None:
        """Close the connection. kazoo then finds a server that answers, with the same session."""
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

    # Methods below are called by kazoo's threads.

    def _stop(self) -> None:
        with contextlib.suppress(refusals.WriterNotClosedException):  # The writer ends with its thread, a little later.
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
            pass  # The loop is closed.

    def _session_changed(self, session: Session) -> None:
        if session is self._state:
            return
        if session in (Session.SUSPENDED, Session.EXPIRED):
            _log.warning("the session with %s is %s", self._address, session.value)
        self._state = session
        self._changed.set()
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        if session is Session.SUSPENDED:
            self._overdue = self._loop.call_later(self._session_s, self._forget_position)
        self._on_session(session)

    def _forget_position(self) -> None:
        """Forget the position in ZooKeeper's history. A ZooKeeper that lost data or was restored refuses every client
        that has seen more than it has. After its time-out a session is over in any case, and the next read comes after
        a `sync`, so the position is no longer needed.
        """
        _log.warning("no server at %s accepts this client; it forgets its position in the history", self._address)
        self._client.last_zxid = 0


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if result.exception is not None:
        future.set_exception(result.exception)
    else:
        future.set_result(result.value)


def _translated(failure: Exception, address: ZooKeeperAddress) -> CoordinationError:
    gone = isinstance(failure, refusals.ConnectionClosedError)  # For kazoo a kind of expiry, but only a lost race.
    if isinstance(failure, refusals.SessionExpiredError) and not gone:
        return Expired("the session is over")
    if isinstance(failure, refusals.NoAuthError | refusals.AuthFailedError):
        return CoordinationError(
            f"ZooKeeper at {address} denies access: write digest:USER:PASSWORD into a file, and name it with "
            "--coordinator-auth FILE"
        )
    return OutcomeUnknown(f"{address}: {type(failure).__name__} {failure}".rstrip())


def _ignore(session: Session) -> None:
    """The callback before `start`: ignores the change."""
