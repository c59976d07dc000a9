"""The requests of this process to one other process: numbered, over one connection that is reopened when it broke.

A request is written at once if the connection is open. Answers are matched by number, so they come in any order. When
the connection breaks, every outstanding request fails: whether the other side did what was asked is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, final

from longhall.cluster.rpc.link import Link
from longhall.cluster.rpc.stream import IncomingStream
from longhall.cluster.rpc.wire import (
    ANSWER,
    CANCEL,
    CREDIT,
    END,
    ITEM,
    STREAM,
    decode_answer,
    decode_numbered,
    encode_numbered,
    encode_request,
)
from longhall.errors import Code, LonghallError

if TYPE_CHECKING:
    from longhall.cluster.rpc.peers import Peers

SILENCE_S: Final = 10.0  # Without any answer while a request waits for this time the connection is dead.
REQUEST_PURPOSE: Final = "request"


class AnswerTarget(Protocol):
    """The receiver of the outcome of one request; exactly one of its methods is called."""

    def answered(self, code: Code | None, body: bytes) -> None:
        """The other side answered, or refused with a code and a sentence."""

    def lost(self, error: Exception, *, sent: bool) -> None:
        """There will be no answer. If the request was not `sent`, the other side has certainly not seen it."""


@final
class _Answer:
    """An answer that a coroutine waits for."""

    def __init__(self) -> None:
        self.future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answered(self, code: Code | None, body: bytes) -> None:
        if self.future.done():
            return
        if code is None:
            self.future.set_result(body)
        else:
            self.future.set_exception(LonghallError(code, body.decode(errors="replace")))

    def lost(self, error: Exception, *, sent: bool) -> None:
        if not self.future.done():
            self.future.set_exception(error)


@final
class RequestClient:
    """The connection to one other process, and the requests and streams in progress on it."""

    def __init__(self, peers: Peers, node: int) -> None:
        self._peers = peers
        self._node = node
        self._link: Link | None = None
        self._dialling = asyncio.Lock()
        self._targets: dict[int, AnswerTarget] = {}
        self._streams: dict[int, IncomingStream] = {}
        self._number = 0
        self._count = 0  # Requests in progress, also those that wait for the connection.
        self._loop = asyncio.get_running_loop()
        self._answered_s = -1.0  # The last answer on this connection,
        self._unanswered_s = -1.0  # and the first request after it that was given up.

    async def request(self, verb: str, body: bytes) -> bytes:
        """Send a request and wait for the answer. Cancelling the caller cancels the request."""
        self._admit()
        try:
            link = await self._connected()
            answer = _Answer()
            number = self._next_number()
            self._targets[number] = answer
            asked_s = self._loop.time()
            try:
                link.write(encode_request(number, verb, body))
                return await answer.future
            except asyncio.CancelledError:
                if self._link is link:
                    self.note_silence(asked_s)
                raise
            finally:
                self._targets.pop(number, None)
        finally:
            self._count -= 1

    def send(self, verb: str, body: bytes, target: AnswerTarget) -> Callable[[], None]:
        """Send a request without waiting. The function that is returned cancels it; an answer still follows, because
        the other side may have done what was asked by then.
        """
        self._admit()
        number = self._next_number()
        self._targets[number] = target
        if self._link is not None and self._link.is_open:
            self._link.write(encode_request(number, verb, body))
        else:
            self._peers.start(self._send_later(number, verb, body))
        return lambda: self._cancel(number)

    async def _send_later(self, number: int, verb: str, body: bytes) -> None:
        """Connect and send. If connecting fails, the other side has not seen the request."""
        try:
            link = await self._connected()
        except (OSError, TimeoutError, LonghallError, asyncio.CancelledError) as error:
            target = self._remove(number)
            if target is not None:
                reason = error if isinstance(error, Exception) else ConnectionError("this node stops")
                target.lost(reason, sent=False)
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        if number in self._targets:
            link.write(encode_request(number, verb, body))

    def _cancel(self, number: int) -> None:
        if number in self._targets and self._link is not None:
            self._link.write(encode_numbered(CANCEL, number))

    def _remove(self, number: int) -> AnswerTarget | None:
        target = self._targets.pop(number, None)
        if target is not None and not isinstance(target, _Answer):
            self._count -= 1
        return target

    async def open_stream(self, verb: str, body: bytes, credit: int) -> IncomingStream:
        """Open a stream of items. OSError if the other side cannot be reached."""
        link = await self._connected()
        number = self._next_number()
        stream = IncomingStream(credit, lambda more: self._give_credit(number, more), lambda: self._close(number))
        self._streams[number] = stream
        link.write(encode_numbered(STREAM, number, verb, credit.to_bytes(4, "big") + body))
        return stream

    def _give_credit(self, number: int, more: int) -> None:
        if number in self._streams and self._link is not None:
            self._link.write(encode_numbered(CREDIT, number, "", more.to_bytes(4, "big")))

    def _close(self, number: int) -> None:
        if self._streams.pop(number, None) is not None and self._link is not None:
            self._link.write(encode_numbered(CANCEL, number))

    def _admit(self) -> None:
        if self._count >= self._peers.requests_max:
            raise LonghallError(Code.OVERLOADED, f"too many requests are under way to node {self._node}")
        self._count += 1

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def note_silence(self, asked_s: float) -> None:
        """A request was given up. If no request has been answered since it was sent, the connection may be dead: the
        silence is measured over all requests, because one with a short timeout alone would never exceed SILENCE_S.
        """
        link = self._link
        if link is None or self._answered_s >= asked_s:
            return
        if self._unanswered_s <= self._answered_s:
            self._unanswered_s = asked_s
        if self._unanswered_s <= self._loop.time() - SILENCE_S:
            link.abort("the other side is silent")  # The next request tries a fresh connection.

    async def _connected(self) -> Link:
        async with self._dialling:
            if self._link is None or not self._link.is_open:
                link = await self._peers.dial(self._node, REQUEST_PURPOSE)
                link.on_frame = self._received
                link.on_lost = lambda: self._lost(link)
                self._link = link
                self._answered_s = self._unanswered_s = -1.0
                if not link.is_open:
                    raise ConnectionError(f"node {self._node} hung up: {link.why}")
            return self._link

    def _received(self, kind: int, body: bytes) -> None:
        if kind == ANSWER:
            number, code, answer = decode_answer(body)
            self._answered_s = self._loop.time()
            target = self._remove(number)
            if target is not None:
                target.answered(code, answer)
            return
        number, word, rest = decode_numbered(body)
        stream = self._streams.get(number)
        if kind == ITEM:
            if stream is not None:
                stream.received(rest)
        elif kind == END:
            self._streams.pop(number, None)
            if stream is not None:
                stream.ended(_error_of(word, rest) if word else None)
        else:
            raise LonghallError(Code.INVALID_REQUEST, "an answer was expected")

    def _lost(self, link: Link) -> None:
        self._peers.forget(link)
        if self._link is not link:
            return
        self._link = None
        error = ConnectionError(f"the connection to node {self._node} broke: {link.why}")
        for number in list(self._targets):
            target = self._remove(number)
            if target is not None:
                target.lost(error, sent=True)
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.ended(error)


def _error_of(word: str, body: bytes) -> LonghallError:
    try:
        code = Code(word)
    except ValueError:  # A newer process has codes that this one does not know.
        code = Code.INVALID_REQUEST
    return LonghallError(code, body.decode(errors="replace"))
