"""The Kafka door: accepts connections, cuts no corners, and gives every request to its handler.

Invariant: whatever bytes a client sends, no exception leaves `serve`. A request that cannot be understood ends its own
connection and nothing else; one that fails inside us is answered with an error where the protocol has room for one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, cast, final

from longhall.doors.kafka.connection import PIECE_BYTES_MAX, SHARED_BYTES, Call, Connection, ForwardedCall, Gate
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.handlers.api_versions import refuse_version
from longhall.doors.kafka.not_leader import answer
from longhall.doors.kafka.operations import OPERATIONS, Operation
from longhall.doors.kafka.wire.apis import decode_request, encode_response
from longhall.doors.kafka.wire.headers import API_VERSIONS, decode_request_header
from longhall.doors.kafka.wire.schema import Message
from longhall.errors import Code, LonghallError
from longhall.front.admission import SLOW_CHECK_S, Budget
from longhall.front.connection_registry import ConnectionRegistry
from longhall.meters import Histogram
from longhall.world.ports import Network

FIRST_REQUEST_S: Final = 10.0  # A connection that has asked nothing by then is closed.
FRAME_S: Final = 30.0  # A request that has begun to arrive must be whole by then,
FRAME_RATE_BYTES: Final = 1024 * 1024  # and a second later for each of these that has come.
SWEEP_S: Final = 5.0
VAIN_S: Final = 1.0  # After so long an answer that cannot be had here is not waited for.
SPARE_BYTES_MIN: Final = 256 * 1024  # From here on a piece of a request is worth a buffer that is used again.
SPARE_BUFFERS_MAX: Final = 8

_log = logging.getLogger("longhall.kafka")


@final
class KafkaServer(Gate):
    """See the module."""

    def __init__(
        self,
        door: Door,
        budget: Budget,
        request_bytes_max: int,
        connections_max: int,
        connections_per_address_max: int,
        idle_s: float,
    ) -> None:
        self.door = door
        self.budget = budget
        self.request_bytes_max = request_bytes_max
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.connections: ConnectionRegistry[Connection] = ConnectionRegistry(
            connections_max, connections_per_address_max, "kafka"
        )
        self.seconds: dict[int, Histogram] = {}
        self.failures: Counter[tuple[int, int]] = Counter()  # By API and error.
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        door.fairness.later = self._loop.call_soon
        self._spare_buffers: list[bytearray] = []
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
        """A connection that nobody has come in by yet."""
        return cast(asyncio.BaseProtocol, Connection(self, self._loop))

    def stop_accepting(self) -> None:
        """Take no new connections."""
        self.connections.stop_accepting()
        for timer in (self._sweeper, self._looker):
            if timer is not None:
                timer.cancel()

    async def drain(self, seconds: float) -> None:
        """Wait until nothing is under way, then hang up on everybody."""
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
        """Give up requests that hold memory and do not get on while others wait."""
        now_s = self._loop.time()
        self.budget.drop_slow(now_s)
        self.budget.unauthenticated.drop_slow(now_s)
        self._looker = self._loop.call_later(SLOW_CHECK_S, self._look)

    def let_go(self) -> None:
        """Hang up on whoever waits in vain: a client that is hung up on asks again, and asks who leads before."""
        before_s = self._loop.time() - VAIN_S
        for connection in list(self.connections.registered):
            if connection.owed_since_s < before_s:
                connection.close()

    # Gate

    def opened(self, connection: Connection) -> bool:
        return self.connections.add(connection, self._loop.time())

    def closed(self, connection: Connection) -> None:
        self.door.fairness.forget(id(connection))
        self.connections.remove(connection)

    def serve(self, connection: Connection, frame: bytes) -> None:
        try:
            header = decode_request_header(frame)
            operation = OPERATIONS.get(header.api_key)
            call = Call(connection, header, frame, self._loop.time())
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
            outcome = operation.handler(self.door, request, call)
        else:
            outcome = answer(self.door, operation, call, request)
        if isinstance(outcome, Message):
            self._answer(call, outcome)
            return
        task = self._loop.create_task(self._finish(call, outcome))
        self.connections.track(task)
        call.on_close = partial(_cancel, task)

    async def answer_forwarded(self, frame: bytes, address: str) -> bytes:
        """Answer a request that another process was asked, as if its client had asked this one."""
        header = decode_request_header(frame)
        operation = OPERATIONS.get(header.api_key)
        if operation is None or operation.handler is None:
            raise LonghallError(Code.INVALID_REQUEST, f"a request of API {header.api_key} is not forwarded")
        request = decode_request(header.api_key, header.version, frame, header.at)
        outcome: Any = operation.handler(self.door, request, ForwardedCall(header, address))
        message: Message = outcome if isinstance(outcome, Message) else await outcome
        return encode_response(header.correlation_id, header.api_key, header.version, message)

    async def _finish(self, call: Call, outcome: Coroutine[Any, Any, Message | bytes]) -> None:
        try:
            answer = await outcome
            if isinstance(answer, bytes):
                call.ready((answer,))
            else:
                self._answer(call, answer)
        except asyncio.CancelledError:
            raise
        except LonghallError as error:  # Nobody here can answer it; a client that is hung up on asks again.
            _log.info("a request is not answered", extra={"peer": call.connection.peer, "reason": str(error)})
            call.connection.close()
        except Exception:
            _log.exception("a request failed", extra={"peer": call.connection.peer, "api": call.header.api_key})
            call.connection.close()

    def _answer(self, call: Call, message: Message) -> None:
        header = call.header
        call.ready([encode_response(header.correlation_id, header.api_key, header.version, message)])

    def observe(self, call: Call, now_s: float) -> None:
        """Count how long a request took."""
        histogram = self.seconds.get(call.header.api_key)
        if histogram is None:
            histogram = self.seconds[call.header.api_key] = Histogram()
        histogram.observe(now_s - call.started_s)


def _cancel(task: asyncio.Task[None]) -> None:
    """Nobody waits for the answer any more."""
    task.cancel()
