"""The SQS door: accepts connections, tells the two protocols apart and gives every request to its handler.

Invariant: whatever a client sends, no exception leaves `serve`, and every request is answered once, in the protocol it
was asked in. Only receiving is cancelled when its client goes away; what changes something runs to its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple, final

from longhall.broker.waiting import Acknowledgeable, too_few
from longhall.doors.sqs.answers import Answers
from longhall.doors.sqs.browsers import from_page, is_loopback, refuse_pages
from longhall.doors.sqs.door import Caller, Door, Held
from longhall.doors.sqs.errors import translate
from longhall.doors.sqs.handing import Handed, hand, read_handed, read_told, tell, tell_fault
from longhall.doors.sqs.near import NEAR, queue_meant
from longhall.doors.sqs.operations import OPERATIONS, Handler
from longhall.doors.sqs.signing import Verifier
from longhall.doors.sqs.wire import faults, json, query
from longhall.doors.sqs.wire.faults import SqsError
from longhall.doors.sqs.wire.requests import CreateQueueRequest, Request
from longhall.doors.sqs.wire.results import Nothing, Result
from longhall.errors import LonghallError
from longhall.front.admission import Budget
from longhall.front.calls import HttpCall, HttpGate
from longhall.front.carrying import SQS, SQS_CALL, Carrier, answer_with, request_of
from longhall.front.connection_registry import ConnectionRegistry
from longhall.front.http import HttpConnection, factory_of
from longhall.front.timeouts import Timeouts
from longhall.meters import Histogram
from longhall.world.ports import Clock, Entropy, Network

BODY_BYTES_MAX: Final = 16 * 1024 * 1024  # A message of the service's largest size may triple when it is escaped.

CARRIED_LOOKED_AT_BYTES: Final = 4096  # Of a body, to find out whether it asks for messages.

_METHODS: Final = (b"GET", b"POST")

_log = logging.getLogger("longhall.sqs")


class _Operation(NamedTuple):
    action: str
    decode: Callable[[bytes], Request]
    handler: Handler
    waits: bool  # Whether nothing is lost when it is cancelled.


@final
class _Release(Acknowledgeable):
    """An answer that waits for a commit."""

    def __init__(self, server: SqsServer, call: HttpCall, answer: bytes, as_query: bool) -> None:
        self._server = server
        self._call = call
        self._answer = answer
        self._as_query = as_query

    def committed(self, value: int) -> None:
        self._call.ready(self._answer)

    def refused(self) -> None:
        self._server.refuse(self._call, translate(too_few()), as_query=self._as_query)


@final
class _Told(Acknowledgeable):
    """An answer to another worker that waits for a commit."""

    def __init__(self, done: Callable[[bytes], None], answer: bytes) -> None:
        self._done = done
        self._answer = answer

    def committed(self, value: int) -> None:
        self._done(self._answer)

    def refused(self) -> None:
        self._done(tell_fault(translate(too_few())))


@final
class SqsServer(HttpGate):
    """See the module."""

    def __init__(
        self,
        door: Door,
        budget: Budget,
        clock: Clock,
        entropy: Entropy,
        verifier: Verifier | None = None,
        connections_max: int = 16_384,
        connections_per_address_max: int = 16_384,
        body_bytes_max: int = BODY_BYTES_MAX,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.door = door
        self.budget = budget
        self.body_bytes_max = body_bytes_max
        self.connections: ConnectionRegistry[HttpConnection] = ConnectionRegistry(
            connections_max, connections_per_address_max, "sqs"
        )
        self.seconds: dict[str, Histogram] = {}
        self.failures: Counter[tuple[str, str]] = Counter()  # By action and error code.
        self.carrier: Carrier | None = None  # To whoever leads, in a cluster.
        self.near: Callable[[str], bool] = _nowhere  # Whether wings have this queue: then any node serves it.
        self.hands_over = False  # Whether it believes us who has signed: then it gets what is left to do, no more.
        self._clock = clock
        self._verifier = verifier
        self._on_loopback = False  # Known when the door is open.
        self._patience = timeouts or Timeouts()
        self._loop = asyncio.get_running_loop()
        self._sweeper: asyncio.TimerHandle | None = None
        self._answers = Answers(entropy.bytes(8))
        self._operations = {
            name: _Operation(name, partial(json.decode_request, name), handler, name == "ReceiveMessage")
            for name, handler in OPERATIONS.items()
        }
        self._by_target = {json.TARGET_PREFIX + name.encode(): found for name, found in self._operations.items()}
        self._tell_date()

    # Life

    async def open(self, network: Network, host: str, port: int) -> int:
        """Listen, and return the port."""
        self.connections.listener, bound = await network.listen(factory_of(self, self._loop), host, port)
        self._on_loopback = is_loopback(host)
        self.door.authority = f"[{host}]:{bound}" if ":" in host else f"{host}:{bound}"
        self._sweep()
        return bound

    def stop_accepting(self) -> None:
        """Take no new connections."""
        self.connections.shut()
        if self._sweeper is not None:
            self._sweeper.cancel()

    async def drain(self, seconds: float) -> None:
        """Wait until nothing is under way but waiting, then hang up on everybody."""
        await self.connections.drain(seconds)

    def _tell_date(self) -> None:
        self._answers.date = formatdate(self._clock.wall_ms() // 1000, usegmt=True).encode()

    def _sweep(self) -> None:
        """Let go of connections that stall."""
        self._sweeper = self._loop.call_later(self._patience.sweep_s, self._sweep)  # First: a failure costs one sweep.
        self._tell_date()
        now_s = self._loop.time()
        for connection in list(self.connections.guests):
            if self._patience.is_over(connection, now_s):
                connection.abort()
        self.budget.look(now_s)
        self.budget.strangers.look(now_s)

    # Gate

    def opened(self, connection: HttpConnection) -> bool:
        return self.connections.enter(connection, self._loop.time())

    def closed(self, connection: HttpConnection) -> None:
        self.connections.leave(connection)

    def refusal(self, status: HTTPStatus, line: str) -> bytes:
        return self._answers.plain(status, line, closes=True)

    def observe(self, call: HttpCall, now_s: float) -> None:
        histogram = self.seconds.get(call.action)
        if histogram is None:
            histogram = self.seconds[call.action] = Histogram()
        histogram.observe(now_s - call.started_s)

    def serve(self, call: HttpCall) -> None:
        if self._verifier is None:
            call.connection.know()  # Nobody is asked who they are: whoever speaks the protocol is known.
        target = call.headers.get(b"x-amz-target")
        carrier = self.carrier if self.carrier is not None and self.carrier.elsewhere() else None
        if carrier is not None and target in NEAR and self._is_near(call):
            carrier = None
        if carrier is not None and (target is None or not self.hands_over):
            self._carry(call, carrier, target is None)
            return
        if target is None:
            self._serve_query(call)
            return
        try:
            operation = self._by_target.get(target)
            if operation is None or call.method != b"POST":
                if call.method not in _METHODS:
                    self._refuse_method(call)
                    return
                raise SqsError(faults.UNKNOWN_OPERATION, "There is no such operation.")
            access_key = ""
            if self._verifier is not None:
                access_key = self._verify(call)
            elif b"origin" in call.headers:  # Without one no page can send a target.
                raise from_page()
            call.action = operation.action
            if carrier is not None:
                self._throttle(operation.waits)
                self._hand_over(call, carrier, operation, access_key)
                return
            self._start(call, operation, operation.decode(call.body), access_key, as_query=False)
        except SqsError as error:
            self.refuse(call, error, as_query=False)
        except Exception as error:
            self._failed(call, error, as_query=False)

    def _is_near(self, call: HttpCall) -> bool:
        """Whether it is about messages of a queue that any node may ask for."""
        name = queue_meant(call.body)
        return name is not None and self.near(name)

    # The two protocols

    def _serve_query(self, call: HttpCall) -> None:
        if call.method not in _METHODS:
            self._refuse_method(call)
            return
        path, _, query_string = call.target.partition(b"?")
        try:
            pairs = query.parse_form(query_string)
            if call.method == b"POST" and call.body:
                pairs += query.parse_form(call.body)
            names = dict(pairs)
            action = names.get("Action")
            if action is None:
                if call.method == b"GET":
                    call.ready(self._answers.welcome(self.door, call.closes))
                    return
                raise SqsError(faults.MISSING_ACTION, "The request has neither an X-Amz-Target header nor an Action.")
            access_key = ""
            if self._verifier is not None:
                access_key = self._verify(call)
            else:
                refuse_pages(call.headers, self._on_loopback)
            operation = self._operations.get(action)
            if operation is None:
                said = f"The action {action[:100]} is not valid for this endpoint."
                raise SqsError(faults.INVALID_ACTION, said)
            call.action = operation.action
            if "QueueUrl" not in names and path.strip(b"/"):
                pairs.append(("QueueUrl", path.decode("latin-1")))
            self._start(call, operation, query.decode_request(action, pairs), access_key, as_query=True)
        except SqsError as error:
            self.refuse(call, error, as_query=True)
        except Exception as error:
            self._failed(call, error, as_query=True)

    def _refuse_method(self, call: HttpCall) -> None:
        answer = self._answers.plain(HTTPStatus.METHOD_NOT_ALLOWED, "use GET or POST", closes=call.closes)
        if call.method == b"HEAD":  # Its answer is a head alone; a body would be read as the answer to the next one.
            answer = answer[: answer.index(b"\r\n\r\n") + 4]
        call.ready(answer)

    def _verify(self, call: HttpCall) -> str:
        assert self._verifier is not None
        found = self._verifier.verify(call.method, call.target, call.headers, call.body, self._clock.wall_ms())
        call.connection.know()
        return found

    # Carrying

    def _carry(self, call: HttpCall, carrier: Carrier, as_query: bool) -> None:
        asked = call.target + call.body[:CARRIED_LOOKED_AT_BYTES] if as_query else call.headers[b"x-amz-target"]
        waits = b"ReceiveMessage" in asked  # The leader must not give messages to somebody who is gone.
        try:
            # Answers that nobody takes away are in the way here, and not at the leader.
            self._throttle(b"Action=ReceiveMessage" in asked if as_query else waits)
        except SqsError as error:
            self.refuse(call, error, as_query=as_query)
        else:
            self._employ(call, self._carried(call, carrier, as_query, waits), waits)

    async def _carried(self, call: HttpCall, carrier: Carrier, as_query: bool, waits: bool) -> None:
        try:
            answer_with(call, await carrier.carry(SQS, call.connection.peer, request_of(call), waits))
        except Exception as error:
            self._failed(call, error, as_query=as_query)

    def _hand_over(self, call: HttpCall, carrier: Carrier, operation: _Operation, access_key: str) -> None:
        caller = call.headers.get(b"host", b"").decode("latin-1")
        handed = hand(Handed(operation.action, caller, access_key, call.body))
        self._employ(call, self._handed_over(call, carrier, handed, operation.waits), operation.waits)

    async def _handed_over(self, call: HttpCall, carrier: Carrier, handed: bytes, waits: bool) -> None:
        try:
            told = read_told(await carrier.carry(SQS_CALL, call.connection.peer, handed, waits))
            if told.fault is None:
                call.ready(self._answers.json_body(told.body, call.closes))
            else:
                self.refuse(call, SqsError(faults.Fault(*told.fault), told.body.decode()), as_query=False)
        except Exception as error:
            self._failed(call, error, as_query=False)

    async def answer_handed(self, handed: bytes) -> bytes:
        """Do what another worker was asked for and has checked."""
        told: asyncio.Future[bytes] = self._loop.create_future()
        left = self.begin_handed(handed, partial(_tell, told))
        return await (told if left is None else left)

    def begin_handed(self, handed: bytes, done: Callable[[bytes], None]) -> Coroutine[Any, Any, bytes] | None:
        """The same without waiting: `done` is called with the answer, unless what is returned has still to be run."""
        action = ""
        try:
            asked = read_handed(handed)
            action = asked.action
            operation = self._operations[action]
            self._throttle(operation.waits)
            outcome = operation.handler(self.door, operation.decode(asked.body), Caller(asked.host, asked.access_key))
            if isinstance(outcome, Held):
                self.door.queues.release(outcome.queue, _Told(done, _told(outcome.result)), outcome.sends)
            elif isinstance(outcome, Result):
                done(_told(outcome))
            else:
                return self._finish_handed(action, outcome)
        except Exception as error:
            done(self._told_failure(action, error))
        return None

    async def _finish_handed(self, action: str, outcome: Coroutine[Any, Any, Result]) -> bytes:
        try:
            return _told(await outcome)
        except Exception as error:
            return self._told_failure(action, error)

    def _told_failure(self, action: str, error: Exception) -> bytes:
        if isinstance(error, SqsError):
            return tell_fault(error)
        if isinstance(error, LonghallError):
            return tell_fault(translate(error))
        _log.error("a request failed", exc_info=error, extra={"action": action})
        return tell_fault(_internal())

    def _employ(self, call: HttpCall, work: Coroutine[Any, Any, None], waits: bool) -> None:
        task = self._loop.create_task(work)
        self.connections.employ(task)
        if waits:
            call.on_close = partial(_cancel, task)

    # Handling

    def _start(
        self, call: HttpCall, operation: _Operation, request: Request, access_key: str, *, as_query: bool
    ) -> None:
        self._throttle(operation.waits)
        if type(request) is CreateQueueRequest and self.door.queues.view(request.queue_name) is not None:
            if self._confirms(call, as_query):  # Found made as asked: by a leader that has heard what was deleted.
                return
        caller = Caller(call.headers.get(b"host", b"").decode("latin-1"), access_key)
        outcome = operation.handler(self.door, request, caller)
        if isinstance(outcome, Result):
            self._answer(call, outcome, as_query)
            return
        if isinstance(outcome, Held):
            # Encoded now, while its parts are at hand; and nothing is left that could fail behind the commit.
            answer = self._encode(call, outcome.result, as_query)
            self.door.queues.release(outcome.queue, _Release(self, call, answer, as_query), outcome.sends)
            return
        self._employ(call, self._finish(call, outcome, as_query), operation.waits)

    def _throttle(self, receives: bool) -> None:
        if receives and self.budget.is_overdrawn:
            # Messages that nobody takes away fill the memory; giving out more would only lease them for nothing.
            raise SqsError(faults.THROTTLED, "Too much is under way; try again later.")

    async def _finish(self, call: HttpCall, outcome: Coroutine[Any, Any, Result], as_query: bool) -> None:
        try:
            self._answer(call, await outcome, as_query)
        except SqsError as error:
            self.refuse(call, error, as_query=as_query)
        except LonghallError as error:
            self.refuse(call, translate(error), as_query=as_query)
        except Exception as error:
            self._failed(call, error, as_query=as_query)

    def _answer(self, call: HttpCall, result: Result, as_query: bool) -> None:
        call.ready(self._encode(call, result, as_query))

    def _encode(self, call: HttpCall, result: Result, as_query: bool) -> bytes:
        if as_query:
            return self._answers.xml(call.action, result, call.closes)
        return self._answers.json(result, call.closes)

    def refuse(self, call: HttpCall, error: SqsError, *, as_query: bool) -> None:
        """Answer with an error. A leader that was deposed without knowing it does not know every queue either."""
        if error.fault.code == faults.NO_SUCH_QUEUE.code and self._confirms(call, as_query):
            return
        self.failures[call.action, error.fault.code] += 1
        call.ready(self._answers.error(error, as_query, call.closes))

    def _confirms(self, call: HttpCall, as_query: bool) -> bool:
        """Whether it has still to be confirmed that this node leads; then the call is served again."""
        carrier = self.carrier
        if carrier is None or call.confirmed:
            return False
        call.confirmed = True
        if carrier.elsewhere():
            return False
        self._employ(call, self._confirm(call, carrier, as_query), False)
        return True

    async def _confirm(self, call: HttpCall, carrier: Carrier, as_query: bool) -> None:
        try:
            await carrier.confirm()
        except Exception as error:
            self._failed(call, error, as_query=as_query)
        else:
            self.serve(call)

    def _failed(self, call: HttpCall, error: Exception, *, as_query: bool) -> None:
        if isinstance(error, LonghallError):
            self.refuse(call, translate(error), as_query=as_query)
            return
        _log.error("a request failed", exc_info=error, extra={"peer": call.connection.peer, "action": call.action})
        self.refuse(call, _internal(), as_query=as_query)


def _nowhere(name: str) -> bool:
    """Without wings."""
    return False


def _told(result: Result) -> bytes:
    return tell(b"" if type(result) is Nothing else json.encode_result(result))


def _tell(told: asyncio.Future[bytes], answer: bytes) -> None:
    if not told.done():  # Whoever waited may be gone.
        told.set_result(answer)


def _internal() -> SqsError:
    return SqsError(faults.INTERNAL, "The request failed for a reason on this side; its log says why.")


def _cancel(task: asyncio.Task[None]) -> None:
    """Nobody waits for the answer any more."""
    task.cancel()
