"""One HTTP request in progress, and the interface between a connection and its server."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, final

from mypy_extensions import mypyc_attr

from longhall.front.admission import Budget

if TYPE_CHECKING:
    from longhall.front.http import HttpConnection


@final
class HttpCall:
    """One request in progress. `on_close` is called if the client disconnects before the answer is ready."""

    __slots__ = ("action", "answer", "body", "closes", "confirmed", "connection", "headers", "held_bytes", "method",
                 "on_close", "started_s", "target")  # fmt: skip

    def __init__(self, connection: HttpConnection, method: bytes, target: bytes, headers: dict[bytes, bytes]) -> None:
        self.connection = connection
        self.method = method
        self.target = target
        self.headers = headers  # By lower-case name; the values of a repeated name are joined by a comma.
        self.body = b""
        self.held_bytes = 0  # Its bytes of the memory budget.
        self.started_s = 0.0
        self.action = ""  # The name of the action, for metrics.
        self.answer: bytes | None = None
        self.closes = False
        self.confirmed = False  # The leadership was confirmed, as an answer that something does not exist needs.
        self.on_close: Callable[[], None] | None = None

    def ready(self, answer: bytes) -> None:
        """The answer is complete, head and body."""
        assert self.answer is None, "answered twice"
        self.answer = answer
        self.on_close = None
        self.connection.answered(self, len(answer))


@mypyc_attr(allow_interpreted_subclasses=True)
class HttpGate:
    """The interface of a server to its connections."""

    budget: Budget
    body_bytes_max: int

    def opened(self, connection: HttpConnection) -> bool:
        """True if the connection is accepted."""
        raise NotImplementedError

    def closed(self, connection: HttpConnection) -> None:
        """The connection is closed."""
        raise NotImplementedError

    def serve(self, call: HttpCall) -> None:
        """Handle one request; must not raise."""
        raise NotImplementedError

    def refusal(self, status: HTTPStatus, line: str) -> bytes:
        """A complete answer to a malformed request; it announces that the connection is closed."""
        raise NotImplementedError

    def observe(self, call: HttpCall, now_s: float) -> None:
        """The answer to a call is sent."""
        raise NotImplementedError
