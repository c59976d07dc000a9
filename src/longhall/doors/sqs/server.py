"""The SQS door: accepts connections, distinguishes the two protocols and dispatches every request to its handler.

Invariant: whatever a client sends, no exception leaves `serve`, and every request is answered once, in the protocol of
the request. When a client disconnects, only its receives are cancelled; requests that change something are completed.
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

from longhall.broker.pending import Pending, ReplyWatcher
from longhall.doors.sqs.access import denied
from longhall.doors.sqs.answers import Answers
from longhall.doors.sqs.browsers import from_page, is_loopback, refuse_pages
from longhall.doors.sqs.door import Caller, Door, Later
from longhall.doors.sqs.errors import translate
from longhall.doors.sqs.operations import MESSAGE_HANDLERS, QUEUE_HANDLERS, MessageHandler, QueueHandler
from longhall.doors.sqs.signing import Verifier, is_signed
from longhall.doors.sqs.text import decode, needs_no_check
from longhall.doors.sqs.throttling import SqsThrottling
from longhall.doors.sqs.wire import faults, json, query
from longhall.doors.sqs.wire.faults import SqsError
from longhall.doors.sqs.wire.requests import Request
from longhall.doors.sqs.wire.results import Result
from longhall.errors import LonghallError
from longhall.front.admission import Budget
from longhall.front.calls import HttpCall, HttpGate
from longhall.front.connection_registry import ConnectionRegistry
from longhall.front.http import HttpConnection, factory_of
from longhall.front.identity import ANONYMOUS, Principal, is_encrypted
from longhall.front.permissions import AccessRefused
from longhall.front.refused_requests import RefusedRequests
from longhall.front.timeouts import Timeouts
from longhall.meters import Histogram
from longhall.queues.messages import QueueView
from longhall.world.ports import Clock, Entropy, Network

BODY_BYTES_MAX: Final = 16 * 1024 * 1024  # Escaping may triple a message of the service's largest size.

_NOT_ON_QUEUES: Final = frozenset({"CreateQueue", "ListQueues"})  # Not at the URL of a queue, in the Query protocol.
_METHODS: Final = (b"GET", b"POST")

_log = logging.getLogger("longhall.sqs")


class _Operation(NamedTuple):
    """One action: the decoder of its request, and its handler, which is of one of two kinds."""

    action: str
    decode: Callable[[bytes], Request]
    on_messages: MessageHandler | None
    on_queues: QueueHandler | None
    waits: bool  # True if it may be cancelled without loss.


@final
class SqsServer(HttpGate):
    """The listener of the door, its connections, its counters and the dispatch of requests."""

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
        throttling: SqsThrottling | None = None,
    ) -> None:
        """Without `throttling` there are no rate limits."""
        self.door = door
        self._throttling = throttling
        self.budget = budget
        self.body_bytes_max = body_bytes_max
        self.connections: ConnectionRegistry[HttpConnection] = ConnectionRegistry(
            connections_max, connections_per_address_max, "sqs"
        )
        self.seconds: dict[str, Histogram] = {}
        self.failures: Counter[tuple[str, str]] = Counter()  # By action and error code.
        self._refused = RefusedRequests("sqs")
        self._clock = clock
        self._verifier = verifier
        self._on_loopback = False  # Set when the door opens.
        self._patience = timeouts or Timeouts()
        self._loop = asyncio.get_running_loop()
        self._sweeper: asyncio.TimerHandle | None = None
        self._answers = Answers(entropy.bytes(8))
        self._operations = {name: _operation(name) for name in (*MESSAGE_HANDLERS, *QUEUE_HANDLERS)}
        self._by_target = {json.TARGET_PREFIX + name.encode(): found for name, found in self._operations.items()}
        self._tell_date()

    # Start and stop

    async def open(self, network: Network, host: str, port: int) -> int:
        """Listen, and return the port."""
        self.connections.listener, bound = await network.listen(factory_of(self, self._loop), host, port)
        self._on_loopback = is_loopback(host)
        self.door.authority = f"[{host}]:{bound}" if ":" in host else f"{host}:{bound}"
        self._sweep()
        return bound

    def stop_accepting(self) -> None:
        """Take no new connections."""
        self.connections.stop_accepting()
        if self._sweeper is not None:
            self._sweeper.cancel()

    async def drain(self, seconds: float) -> None:
        """Wait for the requests in progress, except waiting receives, then close all connections."""
        await self.connections.drain(seconds)

    def _tell_date(self) -> None:
        self._answers.date = formatdate(self._clock.wall_ms() // 1000, usegmt=True).encode()

    def _sweep(self) -> None:
        """Close connections that exceed a timeout."""
        self._sweeper = self._loop.call_later(self._patience.sweep_s, self._sweep)  # First: a failure costs one sweep.
        self._tell_date()
        now_s = self._loop.time()
        for connection in list(self.connections.registered):
            if self._patience.is_over(connection, now_s):
                connection.abort()
        self.budget.drop_slow(now_s)
        self.budget.unauthenticated.drop_slow(now_s)

    # Gate

    def opened(self, connection: HttpConnection) -> bool:
        return self.connections.add(connection, self._loop.time())

    def closed(self, connection: HttpConnection) -> None:
        self.connections.remove(connection)

    def refusal(self, status: HTTPStatus, line: str) -> bytes:
        return self._answers.plain(status, line, closes=True)

    def observe(self, call: HttpCall, now_s: float) -> None:
        histogram = self.seconds.get(call.action)
        if histogram is None:
            histogram = self.seconds[call.action] = Histogram()
        histogram.observe(now_s - call.started_s)

    def serve(self, call: HttpCall) -> None:
        asks = self._asks()
        if not asks:
            call.connection.know()  # Without authentication every client counts as authenticated.
        target = call.headers.get(b"x-amz-target")
        if target is None:
            self._serve_query(call, asks)
            return
        try:
            operation = self._by_target.get(target)
            if operation is None or call.method != b"POST":
                if call.method not in _METHODS:
                    self._refuse_method(call)
                    return
                raise SqsError(faults.UNKNOWN_OPERATION, "There is no such operation.")
            principal = ANONYMOUS
            if asks:
                principal = self._verify(call)
            elif b"origin" in call.headers:  # A page cannot send the target header without an `Origin`.
                raise from_page()
            call.action = operation.action
            self._start(call, operation, operation.decode(call.body), principal, as_query=False)
        except SqsError as error:
            self.refuse(call, error, as_query=False)
        except Exception as error:
            self.fail(call, error, as_query=False)

    # The two protocols

    def _serve_query(self, call: HttpCall, asks: bool) -> None:
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
                    if path.strip(b"/"):
                        call.ready(self._answers.unknown_operation(call.closes))
                    else:
                        call.ready(self._answers.welcome(self.door, call.closes))
                    return
                raise SqsError(faults.MISSING_ACTION, "The request has neither an X-Amz-Target header nor an Action.")
            principal = ANONYMOUS
            if asks:
                principal = self._verify(call)
            else:
                refuse_pages(call.headers, self._on_loopback)
            operation = self._operations.get(action)
            if operation is None or (action in _NOT_ON_QUEUES and path.strip(b"/")):
                said = f"The action {action[:100]} is not valid for this endpoint."
                raise SqsError(faults.INVALID_ACTION, said)
            call.action = operation.action
            if "QueueUrl" not in names and path.strip(b"/"):
                pairs.append(("QueueUrl", path.decode("latin-1")))
            self._start(call, operation, query.decode_request(action, pairs), principal, as_query=True)
        except SqsError as error:
            self.refuse(call, error, as_query=True)
        except Exception as error:
            self.fail(call, error, as_query=True)

    def _refuse_method(self, call: HttpCall) -> None:
        answer = self._answers.plain(HTTPStatus.METHOD_NOT_ALLOWED, "use GET or POST", closes=call.closes)
        if call.method == b"HEAD":  # No body: the client would read it as the next response.
            answer = answer[: answer.index(b"\r\n\r\n") + 4]
        call.ready(answer)

    def _asks(self) -> bool:
        """True if requests must be signed. The first user of the directory changes it."""
        return self._verifier is not None and self._verifier.authentication.required

    def _verify(self, call: HttpCall) -> Principal:
        assert self._verifier is not None
        origin = call.connection.origin
        if origin is not None and origin.user and not is_signed(call.headers, call.target):
            found = self._verifier.of_certificate(origin)
        else:
            found = self._verifier.verify(
                call.method, call.target, call.headers, call.body, self._clock.wall_ms(), call.connection.peer
            )
        call.connection.know()
        call.connection.principal = found
        return found

    # Handling

    def _start(
        self, call: HttpCall, operation: _Operation, request: Request, principal: Principal, *, as_query: bool
    ) -> None:
        self._throttle(operation.waits)
        trace = call.headers.get(b"x-amzn-trace-id")
        origin = call.connection.origin
        caller = Caller(
            call.headers.get(b"host", b"").decode("latin-1"),
            principal,
            "" if trace is None else decode(trace) or "",
            call.connection.peer,
            "" if origin is None else "https" if origin.is_tls else "http",
            is_encrypted(origin),
            operation.action,
            not as_query and needs_no_check(call.body),
        )
        throttling = self._throttling
        if throttling is not None and throttling.rates.active:
            url = getattr(request, "queue_url", "")
            queue = self.door.name_of(url) if url else ""
            throttling.admit(operation.action, queue, request, len(call.body), caller.identity)
        if operation.on_queues is not None:
            work = operation.on_queues(self.door, request, caller)
            self.connections.track(self._loop.create_task(self._finish(call, work, as_query)))
            return
        name = self.door.name_of(_queue_url(request))
        view = self.door.service.view(name)
        if view is not None:
            self._handle(call, operation, request, caller, view, as_query)
        else:
            found = self.door.service.find(name, caller.identity)
            found.when_done(partial(self._found, call, operation, request, caller, as_query))

    def _found(
        self,
        call: HttpCall,
        operation: _Operation,
        request: Request,
        caller: Caller,
        as_query: bool,
        found: Pending[QueueView],
    ) -> None:
        """The leader's reply about the queue has arrived."""
        try:
            self._handle(call, operation, request, caller, found.result(), as_query)
        except Exception as error:
            self.fail(call, error, as_query=as_query)

    def _handle(
        self,
        call: HttpCall,
        operation: _Operation,
        request: Request,
        caller: Caller,
        view: QueueView,
        as_query: bool,
    ) -> None:
        assert operation.on_messages is not None
        outcome = operation.on_messages(self.door, view, request, caller)
        if not isinstance(outcome, Later):
            self._answer(call, outcome, as_query)
            return
        throttling = self._throttling
        if operation.waits and throttling is not None and throttling.rates.active:
            outcome = throttling.count_received(outcome, view.name, caller.identity)
        pending = outcome.pending
        if pending.known:
            # Encoded now, so that nothing can fail after the commit.
            answer = self._encode(call, outcome.finish(pending.reply), as_query)
            pending.watch(_Release(self, call, answer, as_query))
            return
        if operation.waits:
            call.on_close = pending.cancel
        pending.when_done(partial(self._finish_later, call, outcome.finish, as_query))

    def _finish_later(
        self, call: HttpCall, finish: Callable[[Any], Result], as_query: bool, done: Pending[Any]
    ) -> None:
        try:
            self._answer(call, finish(done.result()), as_query)
        except asyncio.CancelledError:
            pass  # The client has disconnected.
        except Exception as error:
            self.fail(call, error, as_query=as_query)

    def _throttle(self, receives: bool) -> None:
        if receives and self.budget.is_overdrawn:
            # Responses that clients do not read fill the memory: further messages would be leased in vain.
            raise SqsError(faults.THROTTLED, "Too much is under way; try again later.")

    async def _finish(self, call: HttpCall, outcome: Coroutine[Any, Any, Result], as_query: bool) -> None:
        try:
            self._answer(call, await outcome, as_query)
        except Exception as error:
            self.fail(call, error, as_query=as_query)

    def _answer(self, call: HttpCall, result: Result, as_query: bool) -> None:
        call.ready(self._encode(call, result, as_query))

    def _encode(self, call: HttpCall, result: Result, as_query: bool) -> bytes:
        if as_query and _wants_json(call):
            return self._answers.query_json(call.action, result, call.closes)
        if as_query:
            return self._answers.xml(call.action, result, call.closes)
        return self._answers.json(result, call.closes)

    def refuse(self, call: HttpCall, error: SqsError, *, as_query: bool) -> None:
        """Answer with an error."""
        self.failures[call.action, error.fault.code] += 1
        self._refused.note(call.action, error.fault.code, str(error), self._loop.time())
        call.ready(self._answers.error(error, as_query, call.closes, _wants_json(call)))

    def fail(self, call: HttpCall, error: BaseException, *, as_query: bool) -> None:
        """Answer with the error that a failure means in this dialect."""
        if isinstance(error, AccessRefused):
            error = denied(error, call.action, self.door)
        elif isinstance(error, LonghallError):
            error = translate(error)
        if not isinstance(error, SqsError):
            _log.error("a request failed", exc_info=error, extra={"peer": call.connection.peer, "action": call.action})
            error = SqsError(faults.INTERNAL, "The request failed for a reason on this side; its log says why.")
        self.refuse(call, error, as_query=as_query)


@final
class _Release(ReplyWatcher):
    """An encoded answer that waits for the commit of what it reports."""

    __slots__ = ("_answer", "_as_query", "_call", "_server")

    def __init__(self, server: SqsServer, call: HttpCall, answer: bytes, as_query: bool) -> None:
        self._server = server
        self._call = call
        self._answer = answer
        self._as_query = as_query

    def done(self, pending: Pending[Any]) -> None:
        if pending.error is None:
            self._call.ready(self._answer)
        else:
            self._server.fail(self._call, pending.error, as_query=self._as_query)


def _operation(name: str) -> _Operation:
    decode = partial(json.decode_request, name)
    return _Operation(name, decode, MESSAGE_HANDLERS.get(name), QUEUE_HANDLERS.get(name), name == "ReceiveMessage")


def _wants_json(call: HttpCall) -> bool:
    return call.headers.get(b"accept", b"").startswith(b"application/json")


def _queue_url(request: Any) -> str:
    """The queue URL of a request. The wire guarantees that every request about messages has one."""
    url: str = request.queue_url
    return url
