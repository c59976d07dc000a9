"""A hall as its clients see it: its brokers, the leaders of its partitions, and a connection to each broker.

`Hall` finds the right broker for a request and retries where that can help: after a lost connection, a leader change,
or while a coordinator loads. It does not know what the requests mean: `topics`, `groups`, `transactions` and `records`
do, which are reached through it. One loop, no threads, no clock but the loop's.

A broker serves the requests of one connection in order, so a request that may block for long (a fetch, a join) uses a
line of its own: a set of connections for one caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar, Unpack, final

from longhall.client.connection import CallLimits, Connection
from longhall.client.groups import Groups
from longhall.client.login import Login
from longhall.client.records import Records
from longhall.client.refusals import Refused, Unreachable, check
from longhall.client.topics import Topics
from longhall.client.transactions import Transactions
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.cluster import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from longhall.doors.kafka.wire.schema import Message
from longhall.errors import LonghallError
from longhall.world.ports import Network

PATIENCE_MS: Final = 30_000
PORT: Final = 9092

_PAUSE_FIRST_S: Final = 0.01
_PAUSE_LAST_S: Final = 1.0

_T = TypeVar("_T")
_R = TypeVar("_R", bound=Message)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port", "host" or "[v6]:port"."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        host, port = address, str(PORT)
    return host.strip("[]"), int(port)


@final
class Hall:
    """The connections to one hall. Made by `Hall.connect`; close it when done."""

    def __init__(
        self, network: Network, address: str, client_id: str, patience_ms: int, login: Login | None = None
    ) -> None:
        self.address = address
        self.patience_ms = patience_ms
        self.topics = Topics(self)
        self.groups = Groups(self)
        self.transactions = Transactions(self)
        self.records = Records(self)
        self._network = network
        self._client_id = client_id
        self._login = login  # None for a door that asks for none.
        self._brokers: dict[int, tuple[str, int]] = {}
        self._controller = -1
        self._known: dict[str, MetadataResponseTopic] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._connections: dict[tuple[str, str, int], Connection] = {}  # By line, host and port.
        self._opening: dict[tuple[str, str, int], asyncio.Lock] = {}
        self._lines = 0
        self._closed = False

    @classmethod
    async def connect(
        cls,
        network: Network,
        address: str,
        *,
        client_id: str = "longhall",
        patience_ms: int = PATIENCE_MS,
        login: Login | None = None,
    ) -> Hall:
        """Connect to one broker and look up the others. Raises Unreachable."""
        hall = cls(network, address, client_id, patience_ms, login)
        try:
            await hall.metadata([])
        except BaseException:
            hall.close()
            raise
        return hall

    def close(self) -> None:
        self._closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Brokers.

    @property
    def brokers(self) -> dict[int, tuple[str, int]]:
        return dict(self._brokers)

    def new_line(self) -> str:
        self._lines += 1
        return f"line-{self._lines}"

    def close_line(self, line: str) -> None:
        for key in [key for key in self._connections if key[0] == line]:
            self._connections.pop(key).close()

    async def connection(self, node_id: int | None = None, line: str = "") -> Connection:
        """The connection to one broker, or to any."""
        if node_id is None:
            return await self._any()
        place = self._brokers.get(node_id)
        if place is None:
            await self.metadata([])
            place = self._brokers.get(node_id)
        if place is None:
            raise Unreachable(f"No broker {node_id} is known.")
        return await self._connection_at(place, line)

    async def _any(self) -> Connection:
        for key, connection in self._connections.items():
            if connection.is_open and not key[0]:
                return connection
        failure: Unreachable | None = None
        for place in dict.fromkeys([split_address(self.address), *self._brokers.values()]):
            try:
                return await self._connection_at(place)
            except Unreachable as refusal:
                failure = failure or refusal
        assert failure is not None
        raise failure

    async def _connection_at(self, place: tuple[str, int], line: str = "") -> Connection:
        key = (line, *place)
        async with self._opening.setdefault(key, asyncio.Lock()):
            if self._closed:
                raise Refused(42, "This hall was closed.", retriable=False)
            connection = self._connections.get(key)
            if connection is None or not connection.is_open:
                self._connections.pop(key, None)
                connection = await Connection.open(self._network, place[0], place[1], self._client_id, self._login)
                self._connections[key] = connection
            return connection

    # Metadata.

    async def metadata(self, topics: Iterable[str] | None, *, create: bool = False) -> MetadataResponse:
        """Request metadata from any broker and cache it; None means all topics, an empty list none."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        connection = await self._any()
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        answer = await connection.call(request, MetadataResponse)
        check(answer.error_code)
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._controller = answer.controller_id
        for topic in answer.topics:
            if topic.name is not None:
                if topic.error_code == 0:
                    self._known[topic.name] = topic
                else:
                    self._known.pop(topic.name, None)
        return answer

    async def topic(self, name: str, *, create: bool = False) -> MetadataResponseTopic:
        """The metadata of one topic, from the cache if it is there. Raises Refused at once if there is none."""
        known = self._known.get(name)
        if known is not None:
            return known
        for topic in (await self.metadata([name], create=create)).topics:
            if topic.name == name:
                missing = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create
                if topic.error_code != 0:
                    raise Refused(topic.error_code, f"topic {name}", retriable=False if missing else None)
                return topic
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}")

    def forget(self, topic: str) -> None:
        """Drop a topic from the cache: its leader has moved, or the topic was created again."""
        self._known.pop(topic, None)

    async def leader_of(self, name: str, partition: int, *, create: bool = False) -> int:
        for candidate in (await self.topic(name, create=create)).partitions:
            if candidate.partition_index == partition:
                if candidate.leader_id < 0:
                    self.forget(name)
                    raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"{name}-{partition}")
                return candidate.leader_id
        self.forget(name)
        raise Refused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} has no partition {partition}", retriable=False
        )

    async def controller(self) -> int:
        if self._controller not in self._brokers:
            await self.metadata([])
        return self._controller

    async def coordinator_of(self, kind: int, key: str) -> int:
        """The broker that coordinates a group or a transactional id."""
        known = self._coordinators.get((kind, key))
        if known is not None and known in self._brokers:
            return known
        connection = await self._any()
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        answer = await connection.call(request, FindCoordinatorResponse)
        if answer.coordinators:
            found = answer.coordinators[0]
            check(found.error_code, found.error_message)
            node_id, place = found.node_id, (found.host, found.port)
        else:
            check(answer.error_code, answer.error_message)
            node_id, place = answer.node_id, (answer.host, answer.port)
        self._brokers[node_id] = place
        self._coordinators[kind, key] = node_id
        return node_id

    # Calling.

    async def ask(
        self,
        node_id: int | None,
        request: Message,
        expected: type[_R],
        *,
        line: str = "",
        **limits: Unpack[CallLimits],
    ) -> _R:
        """Send one request to one broker, once."""
        connection = await self.connection(node_id, line)
        return await connection.call(request, expected, **limits)

    async def ask_coordinator(
        self,
        kind: int,
        key: str,
        request: Message,
        expected: type[_R],
        *,
        line: str = "",
        **limits: Unpack[CallLimits],
    ) -> _R:
        """Send one request to a coordinator, once. After a failure the next request looks the coordinator up again."""
        try:
            node_id = await self.coordinator_of(kind, key)
            return await self.ask(node_id, request, expected, line=line, **limits)
        except LonghallError:
            self.forget_coordinator(kind, key)
            raise

    def forget_coordinator(self, kind: int, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    async def persist(self, attempt: Callable[[], Awaitable[_T]], *, patience_ms: int | None = None) -> _T:
        """Retry an attempt until it succeeds, fails for good, or times out. Raises the last failure."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self.patience_ms if patience_ms is None else patience_ms) / 1000
        pause = _PAUSE_FIRST_S
        while True:
            try:
                return await attempt()
            except LonghallError as failure:
                if not failure.retriable or loop.time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_LAST_S)
