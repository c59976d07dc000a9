"""Rate limits over HTTP: 429 with the time to wait, and in every response how much is left.

    Retry-After: 3                                               seconds, rounded up; in refusals only
    RateLimit-Policy: "requests_a_second tenant=acme";q=100;w=1  the tightest limit of the request, and its rate
    RateLimit: "requests_a_second tenant=acme";r=40;t=0          what is left of it here, and when there is more

The class of a request is that of its route. Health checks of the management API count in no limit. With several
processes `r` is what is left of this process's share.
"""

from __future__ import annotations

from typing import Final, final

from longhall.console.api.asked import Asked
from longhall.directory.rate_limits import MANAGE, RECEIVE, SEND, SETTLE
from longhall.front.rate_limits import Allowance, RateLimits

DOOR: Final = "http"
QUEUE_PATHS: Final = "queues/*"  # Their first name is a queue,
VHOST_QUEUE_PATHS: Final = "queues/*/*"  # in the management API their second.


@final
class ApiThrottling:
    """The rate limits of one process, as an API enforces them."""

    def __init__(self, rates: RateLimits) -> None:
        self.rates = rates

    def of(self, limited_as: str, gives: bool, path: str, asked: Asked) -> LimitedRequest:
        """A request as its limits see it."""
        operation = limited_as or (RECEIVE if gives else MANAGE)
        queue = asked.names[0] if path.startswith(QUEUE_PATHS) and not path.startswith(VHOST_QUEUE_PATHS) else ""
        return LimitedRequest(self.rates, operation, queue, asked)


@final
class LimitedRequest:
    """One request that counts in limits."""

    def __init__(self, rates: RateLimits, operation: str, queue: str, asked: Asked) -> None:
        self._rates = rates
        self._operation = operation
        self._queue = queue
        self._asked = asked

    def admit(self) -> None:
        """Raises RateLimited if the client has to wait; else the request is counted."""
        self._rates.admit(DOOR, self._asked.caller, self._operation, self._queue)
        size_bytes = 0 if self._operation == RECEIVE else len(self._asked.body)
        self._rates.charge(self._asked.caller, self._operation, self._queue, size_bytes=size_bytes)

    def charge(self, reply: object, size_bytes: int) -> None:
        """Count the messages of the reply and, if they are received, its size."""
        messages = len(getattr(reply, "messages", None) or getattr(reply, "results", None) or ())
        if not messages and self._operation == SEND:
            messages = 1
        if self._operation in (SEND, RECEIVE, SETTLE):
            received_bytes = size_bytes if self._operation == RECEIVE else 0
            self._rates.charge(
                self._asked.caller,
                self._operation,
                self._queue,
                size_bytes=received_bytes,
                messages=messages,
                requests=0,
            )

    def headers(self, refused: Allowance | None = None) -> str:
        """The header lines of the response; without a limit none."""
        found = refused or self._rates.allowance(self._asked.caller, self._operation, self._queue)
        if found is None:
            return ""
        wait_s = -(-found.wait_ms // 1000)
        lines = f'RateLimit-Policy: "{found.bucket}";q={found.a_second};w=1\r\n'
        lines += f'RateLimit: "{found.bucket}";r={found.left};t={wait_s}\r\n'
        return lines + (f"Retry-After: {max(wait_s, 1)}\r\n" if refused is not None else "")
