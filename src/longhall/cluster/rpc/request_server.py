"""The requests of one other process to this one: answered by handlers, in the order in which they complete.

    handler        is given           its answer
    Handler        node and body      awaited in a task of its own
    CallHandler    node and body      a `Pending` and how its reply is encoded; no task, may be cancelled
    StreamHandler  node, body, stream items, as far as the other side has given credit

Bounds: requests in progress and their bytes, for each connection. When the connection breaks, requests that wait for
messages are cancelled, so that nothing is delivered to a lost process; requests that change something are completed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from longhall.broker.pending import Pending
from longhall.cluster.rpc.link import Link
from longhall.cluster.rpc.stream import OutgoingStream
from longhall.cluster.rpc.wire import (
    CANCEL,
    CREDIT,
    END,
    ITEM,
    REQUEST,
    STREAM,
    decode_numbered,
    decode_request,
    encode_answer,
    encode_numbered,
)
from longhall.errors import Code, LonghallError

if TYPE_CHECKING:
    from longhall.cluster.rpc.peers import Peers

BYTES_MAX: Final = 64 * 1024 * 1024  # In requests of one process in progress.
STREAMS_MAX: Final = 256  # Streams of one process.

Handler = Callable[[int, bytes], Awaitable[bytes]]
CallHandler = Callable[[int, bytes], tuple[Pending[Any], Callable[[Any], bytes]]]

_log = logging.getLogger("longhall.peers")


@final
class RequestServer:
    """One incoming connection and the requests in progress on it."""

    def __init__(self, peers: Peers, link: Link, node: int) -> None:
        self._peers = peers
        self._link = link
        self._node = node
        self._running = 0
        self._running_bytes = 0
        self._calls: dict[int, Pending[Any]] = {}
        self._streams: dict[int, OutgoingStream] = {}

    def received(self, kind: int, body: bytes) -> None:
        """Handle one frame of the other process."""
        if kind == REQUEST:
            number, verb, asked = decode_request(body)
            self._asked(number, verb, asked)
        elif kind == CANCEL:
            self._cancelled(decode_numbered(body)[0])
        elif kind == STREAM:
            number, verb, asked = decode_numbered(body)
            self._open(number, verb, asked)
        elif kind == CREDIT:
            number, _, more = decode_numbered(body)
            stream = self._streams.get(number)
            if stream is not None:
                stream.add_credit(int.from_bytes(more, "big"))
        else:
            raise LonghallError(Code.INVALID_REQUEST, "a request was expected")

    def _asked(self, number: int, verb: str, asked: bytes) -> None:
        if not self._peers.may_ask(self._node, verb):
            self._refuse(number, Code.NOT_READY, _not_for(verb, self._node))
            return
        size = len(asked)
        if self._running >= self._peers.requests_max or self._running_bytes + size > BYTES_MAX:
            self._refuse(number, Code.OVERLOADED, "too many requests are under way")
            return
        call_handler = self._peers.call_handler(verb)
        handler = self._peers.handler(verb)
        if call_handler is not None:
            self._call(call_handler, number, asked)
        elif handler is not None:
            self._running += 1
            self._running_bytes += size
            self._peers.start(self._answer(handler, number, asked))
        else:
            self._refuse(number, Code.NOT_READY, f"{verb} is not answered here")

    # Calls

    def _call(self, handler: CallHandler, number: int, asked: bytes) -> None:
        try:
            pending, encode = handler(self._node, asked)
        except Exception as error:
            self._link.write(self._failure(number, error))
            return
        size = len(asked)
        self._running += 1
        self._running_bytes += size
        self._calls[number] = pending
        pending.when_done(lambda done: self._done(number, size, done, encode))

    def _done(self, number: int, size: int, done: Pending[Any], encode: Callable[[Any], bytes]) -> None:
        self._running -= 1
        self._running_bytes -= size
        self._calls.pop(number, None)
        if done.error is not None:
            self._link.write(self._failure(number, done.error))
            return
        self._link.write(encode_answer(number, None, encode(done.result())))

    def _cancelled(self, number: int) -> None:
        pending = self._calls.get(number)
        if pending is not None:
            pending.cancel()
        stream = self._streams.pop(number, None)
        if stream is not None:
            stream.close()

    # Requests with a task each

    async def _answer(self, handler: Handler, number: int, asked: bytes) -> None:
        try:
            answer = encode_answer(number, None, await handler(self._node, asked))
        except Exception as error:
            answer = self._failure(number, error)
        finally:
            self._running -= 1
            self._running_bytes -= len(asked)
        self._link.write(answer)

    def _refuse(self, number: int, code: Code, sentence: str) -> None:
        self._link.write(encode_answer(number, code, sentence.encode()))

    def _failure(self, number: int, error: BaseException) -> bytes:
        code, sentence = self._explained(error)
        return encode_answer(number, code, sentence.encode())

    def _explained(self, error: BaseException) -> tuple[Code, str]:
        if isinstance(error, LonghallError):
            return error.code, str(error)
        if isinstance(error, asyncio.CancelledError):
            return Code.NOT_READY, "the request was cancelled"
        if isinstance(error, OSError):
            return Code.NOT_READY, str(error)
        if isinstance(error, msgspec.DecodeError):
            return Code.INVALID_REQUEST, str(error)
        _log.error("a request of another node failed", exc_info=error, extra={"node": self._node})
        return Code.NOT_READY, f"an internal error: {error!r}"

    # Streams

    def _open(self, number: int, verb: str, asked: bytes) -> None:
        handler = self._peers.stream_handler(verb)
        if handler is None or not self._peers.may_ask(self._node, verb):
            self._end(number, LonghallError(Code.NOT_READY, _not_for(verb, self._node)))
            return
        if len(self._streams) >= STREAMS_MAX or len(asked) < 4:
            self._end(number, LonghallError(Code.OVERLOADED, "too many streams are open"))
            return
        stream = OutgoingStream(
            int.from_bytes(asked[:4], "big"),
            lambda item: self._link.write(encode_numbered(ITEM, number, "", item)),
            lambda error: self._end(number, error),
        )
        self._streams[number] = stream
        try:
            handler(self._node, asked[4:], stream)
        except Exception as error:
            stream.end(LonghallError(*self._explained(error)))

    def _end(self, number: int, error: LonghallError | None) -> None:
        self._streams.pop(number, None)
        word, sentence = (error.code.value, str(error)) if error is not None else ("", "")
        self._link.write(encode_numbered(END, number, word, sentence.encode()))

    def lost(self) -> None:
        """The connection is lost: cancel the requests and streams that may be cancelled."""
        self._peers.forget(self._link)
        for pending in list(self._calls.values()):
            pending.cancel()
        for stream in list(self._streams.values()):
            stream.close()
        self._streams.clear()


def _not_for(verb: str, node: int) -> str:
    return f"{verb} is for members, and node {node} is not known here as one"
