"""The Kafka door: accepts connections and passes every request to its handler.

Invariant: whatever bytes a client sends, no exception leaves `serve`. A request that cannot be understood ends its own
connection and nothing else, and so does one whose handler fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, cast, final

from longhall.broker.usage.usage_meter import ACCOUNT
from longhall.cluster.rpc.operation import Caller
from longhall.directory.accounts import DEFAULT_TENANT
from longhall.doors.kafka.authorization import AUDITED_APIS, carry_out
from longhall.doors.kafka.connection import PIECE_BYTES_MAX, SHARED_BYTES, Call, Connection, ForwardedCall, Gate
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.handlers.api_versions import refuse_version
from longhall.doors.kafka.login_guard import LoginGuard
from longhall.doors.kafka.not_leader import answer
from longhall.doors.kafka.operations import OPERATIONS, Operation
from longhall.doors.kafka.refused_responses import refused_part
from longhall.doors.kafka.share_exchange import release_disconnected
from longhall.doors.kafka.throttle import throttle
from longhall.doors.kafka.wire.apis import API, decode_request, encode_response
from longhall.doors.kafka.wire.headers import API_VERSIONS, decode_request_header
from longhall.doors.kafka.wire.schema import Message
from longhall.errors import Code, LonghallError
from longhall.front.admission import SLOW_CHECK_S, Budget
from longhall.front.connection_registry import ConnectionRegistry
from longhall.front.memory_pressure import MemoryPressure
from longhall.meters import Histogram
from longhall.world.ports import Network

FIRST_REQUEST_S: Final = 10.0  # A connection without a request by then is closed.
FRAME_S: Final = 30.0  # A request that has begun to arrive must be complete by then,
FRAME_RATE_BYTES: Final = 1024 * 1024  # and a second later for each of these that has come.
SWEEP_S: Final = 5.0
VAIN_S: Final = 1.0  # An answer that a deposed leader owes is given up after this time.
SPARE_BYTES_MIN: Final = 256 * 1024  # From here on a piece of a request is worth a buffer that is used again.
SPARE_BUFFERS_MAX: Final = 8

_log = logging.getLogger("longhall.kafka")


@final
class KafkaServer(Gate):
    """The listener with all its connections, their limits, and the dispatch of requests."""

    def __init__(
        self,
        door: Door,
        budget: Budget,
        request_bytes_max: int,
        connections_max: int,
        connections_per_address_max: int,
        idle_s: float,
        guard: LoginGuard | None = None,
    ) -> None:
        """Without a guard every client is served."""
        self.door = door
        self._guard = guard
        self.budget = budget
        self.request_bytes_max = request_bytes_max
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.connections: ConnectionRegistry[Connection] = ConnectionRegistry(
            connections_max, connections_per_address_max, "kafka"
        )
        self.seconds: dict[int, Histogram] = {}
        self._pressures = [MemoryPressure(budget, "requests")]  # Every process has this door, so it looks for all.
        if budget.unauthenticated is not budget:
            self._pressures.append(MemoryPressure(budget.unauthenticated, "unauthenticated"))
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        door.fairness.later = self._loop.call_soon
        self._spare_buffers: list[bytearray] = []
        self._is_stopping = False
        self._sweeper: asyncio.TimerHandle | None = None
        self._looker: asyncio.TimerHandle | None = None

    # Life

    async def open(self, network: Network, host: str, port: int) -> int:
        """Listen, and return the port."""
        self.connections.listener, bound = await network.listen(self.entrance, host, port)
        self._sweep()
        self._look()
        return bound

    def entrance(self) -> asyncio.BaseProtocol:
        """A new connection, for a transport that is not connected yet."""
        return cast(asyncio.BaseProtocol, Connection(self, self._loop))

    def stop_accepting(self) -> None:
        """Take no new connections: the node stops."""
        self._is_stopping = True
        self.connections.stop_accepting()
        for timer in (self._sweeper, self._looker):
            if timer is not None:
                timer.cancel()

    async def drain(self, seconds: float) -> None:
        """Wait until no request is under way, then close all connections."""
        await self.connections.drain(seconds)

    def _sweep(self) -> None:
        """Close connections that stall: no request, half a request, or silence for too long."""
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)  # First: a failure costs one sweep and no more.
        now_s = self._loop.time()
        for connection in list(self.connections.registered):
            silent_s = now_s - connection.active_s
            stalled = (
                (connection.requests == 0 and silent_s > FIRST_REQUEST_S)
                or connection.is_overdue(now_s, FRAME_S, FRAME_RATE_BYTES)
                or (connection.idle and silent_s > self._idle_s)
            )
            if stalled:
                connection.close()

    def _look(self) -> None:
        """Give up requests that hold memory and make no progress while others wait."""
        now_s = self._loop.time()
        self.budget.drop_slow(now_s)
        self.budget.unauthenticated.drop_slow(now_s)
        for pressure in self._pressures:
            pressure.look()
        self._looker = self._loop.call_later(SLOW_CHECK_S, self._look)

    def let_go(self) -> None:
        """Close the connections that wait in vain for a commit: their clients ask for metadata and try again."""
        before_s = self._loop.time() - VAIN_S
        for connection in list(self.connections.registered):
            if connection.owed_since_s < before_s:
                connection.close()

    # Gate

    def opened(self, connection: Connection) -> bool:
        connection.is_cleared = self._guard is None
        return self.connections.add(connection, self._loop.time())

    def closed(self, connection: Connection) -> None:
        self.door.fairness.forget(id(connection))
        if not self._is_stopping:  # Else the leases of share members end by themselves.
            release_disconnected(self.door, connection.number)
        self.connections.remove(connection)

    def close_outdated(self) -> None:
        """Close the connections of users that may not be logged in any more: the directory has changed."""
        guard = self._guard
        if guard is None:
            return
        for connection in list(self.connections.registered):
            if connection.is_cleared and not guard.may_go_on(connection.principal):
                connection.close()

    def serve(self, connection: Connection, frame: bytes) -> None:
        if self.door.hall.usage.meter is None:
            self._serve(connection, frame)
            return
        principal = connection.principal
        account = ACCOUNT.set((principal.tenant or DEFAULT_TENANT, principal.user, "kafka"))
        try:
            self._serve(connection, frame)
        finally:
            ACCOUNT.reset(account)

    def _serve(self, connection: Connection, frame: bytes) -> None:
        try:
            if not connection.is_cleared or self._loop.time() > connection.cleared_until_s:
                assert self._guard is not None
                if not self._guard.admit(connection, frame):
                    return
            header = decode_request_header(frame)
            operation = OPERATIONS.get(header.api_key)
            call = Call(connection, header, frame, self._loop.time())
            if operation is not None and self.door.usage is not None:
                self.door.usage.count_request(
                    connection.principal.tenant, connection.principal.user, operation.api.name
                )
            if operation is None or not operation.version_min <= header.version <= operation.version_max:
                if header.api_key != API_VERSIONS:
                    asked = {"peer": connection.peer, "api": header.api_key, "version": header.version}
                    _log.info("an API is asked for that is not offered", extra=asked)
                    connection.close()
                    return
                connection.begin(call)
                call.ready([refuse_version(header.correlation_id)])
                return
            if operation.direct is not None:
                if self.door.hall.leadership is None or not self.door.follows:
                    operation.direct(self.door, call)
                else:
                    assert operation.direct_refusal is not None
                    operation.direct_refusal(self.door, call)
            else:
                self._serve_message(operation, call)
        except LonghallError as error:  # WireError among them: the bytes make no sense.
            _log.info("a request cannot be read", extra={"peer": connection.peer, "reason": str(error)})
            connection.close()
        except Exception:
            _log.exception("a request failed", extra={"peer": connection.peer})
            connection.close()

    def take_buffer(self, size: int) -> bytearray:
        if size < SPARE_BYTES_MIN:
            return bytearray(size)
        return self._spare_buffers.pop() if self._spare_buffers else bytearray(PIECE_BYTES_MAX)

    def give_buffer(self, buffer: bytearray) -> None:
        # Memory that was touched before is much cheaper to fill than fresh pages.
        if len(buffer) == PIECE_BYTES_MAX and len(self._spare_buffers) < SPARE_BUFFERS_MAX:
            self._spare_buffers.append(buffer)

    def _serve_message(self, operation: Operation, call: Call) -> None:
        header = call.header
        request = decode_request(header.api_key, header.version, call.frame, call.at)
        call.connection.begin(call)
        outcome: Any
        if self.door.main is None and self.door.hall.leadership is None:  # A lone node answers everything itself.
            assert operation.handler is not None
            outcome = carry_out(self.door, operation.api, operation.handler, request, call)
        else:
            outcome = answer(self.door, operation, call, request)
        if isinstance(outcome, Message):
            self._answer(call, outcome)
            return
        task = self._loop.create_task(self._finish(call, outcome))
        self.connections.track(task)
        call.on_close = partial(_cancel, task)

    async def answer_forwarded(self, frame: bytes, caller: Caller) -> bytes:
        """Answer a request that another process was asked, as if its client had asked this one."""
        header = decode_request_header(frame)
        operation = OPERATIONS.get(header.api_key)
        if operation is None or operation.handler is None:
            raise LonghallError(Code.INVALID_REQUEST, f"a request of API {header.api_key} is not forwarded")
        request = decode_request(header.api_key, header.version, frame, header.at)
        forwarded = ForwardedCall(header, caller)
        outcome: Any = carry_out(self.door, operation.api, operation.handler, request, forwarded)
        message: Message = outcome if isinstance(outcome, Message) else await outcome
        return encode_response(header.correlation_id, header.api_key, header.version, message)

    async def _finish(self, call: Call, outcome: Coroutine[Any, Any, Message | bytes]) -> None:
        try:
            answer = await outcome
            if isinstance(answer, bytes):
                self._throttle(call)
                call.ready((answer,))
            else:
                self._answer(call, answer)
        except asyncio.CancelledError:
            raise
        except LonghallError as error:  # No process can answer it now; a client whose connection is closed tries again.
            _log.info("a request is not answered", extra={"peer": call.connection.peer, "reason": str(error)})
            call.connection.close()
        except Exception:
            _log.exception("a request failed", extra={"peer": call.connection.peer, "api": call.header.api_key})
            call.connection.close()

    def _answer(self, call: Call, message: Message) -> None:
        header = call.header
        refused = refused_part(message)
        if refused is not None:
            self.door.refused.note(API[header.api_key].name, refused.error, refused.reason, call.started_s)
        throttle_ms = self._throttle(call)
        if throttle_ms and hasattr(message, "throttle_time_ms"):
            cast(Any, message).throttle_time_ms = throttle_ms
        call.ready([encode_response(header.correlation_id, header.api_key, header.version, message)])

    def _throttle(self, call: Call) -> int:
        """Hold the connection back if its client is over a limit of requests; the time that the response tells."""
        limits = self.door.limits
        if limits is None or not limits.active:
            return 0
        api = API[call.header.api_key].name
        return throttle(call.connection, limits.answered(call, api, api in AUDITED_APIS))

    def observe(self, call: Call, now_s: float) -> None:
        """Count how long a request took."""
        histogram = self.seconds.get(call.header.api_key)
        if histogram is None:
            histogram = self.seconds[call.header.api_key] = Histogram()
        histogram.observe(now_s - call.started_s)


def _cancel(task: asyncio.Task[None]) -> None:
    """The client has gone away."""
    task.cancel()
