"""One HTTP request under way, and what a connection needs of the server behind it."""

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
    """One request under way. `on_close` is called if the client goes away before the answer is ready."""

    __slots__ = ("action", "answer", "body", "closes", "confirmed", "connection", "headers", "held_bytes", "method",
                 "on_close", "started_s", "target")  # fmt: skip

    def __init__(self, connection: HttpConnection, method: bytes, target: bytes, headers: dict[bytes, bytes]) -> None:
        self.connection = connection
        self.method = method
        self.target = target
        self.headers = headers  # By names in lower case; values of one name that came twice are joined by a comma.
        self.body = b""
        self.held_bytes = 0  # Of the budget.
        self.started_s = 0.0
        self.action = ""  # For whoever counts.
        self.answer: bytes | None = None
        self.closes = False
        self.confirmed = False  # Whoever leads was asked for, before it is said that something is not there.
        self.on_close: Callable[[], None] | None = None

    def ready(self, answer: bytes) -> None:
        """The answer is complete, head and body."""
        assert self.answer is None, "answered twice"
        self.answer = answer
        self.on_close = None
        self.connection.answered(self, len(answer))


@mypyc_attr(allow_interpreted_subclasses=True)
class HttpGate:
    """What a connection needs of its server."""

    budget: Budget
    body_bytes_max: int

    def opened(self, connection: HttpConnection) -> bool:
        """Whether the connection may stay."""
        raise NotImplementedError

    def closed(self, connection: HttpConnection) -> None:
        """It is gone."""
        raise NotImplementedError

    def serve(self, call: HttpCall) -> None:
        """Handle one request; must not raise."""
        raise NotImplementedError

    def refusal(self, status: HTTPStatus, line: str) -> bytes:
        """A whole answer to what is no proper request, saying that the connection is closed."""
        raise NotImplementedError

    def observe(self, call: HttpCall, now_s: float) -> None:
        """The answer to a call leaves now."""
        raise NotImplementedError
