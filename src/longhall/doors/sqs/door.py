"""The context of the SQS handlers: the service, and the external names of queues."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, final

from longhall.broker.pending import Pending
from longhall.cluster.rpc.operation import Caller as ServiceCaller
from longhall.doors.sqs.addresses import queue_of_url
from longhall.doors.sqs.limits import SendRate, SqsLimits
from longhall.doors.sqs.wire.faults import THROTTLED, SqsError
from longhall.doors.sqs.wire.results import Result
from longhall.front.identity import Principal, caller_of
from longhall.queues.messages import QueueView
from longhall.service.queue_operations import DescribeQueue
from longhall.service.router import Router
from longhall.world.ports import Clock

URLS_KNOWN_MAX = 4_096

ACCOUNT = "000000000000"
REGION = "us-east-1"
ANONYMOUS_CALLER = ServiceCaller(door="sqs")

_HOST = re.compile(r"[A-Za-z0-9.:\[\]_-]{1,255}")


@final
class Door:
    """The service, the limits and the address of the door, for every handler."""

    def __init__(
        self,
        service: Router,
        region: str = REGION,
        account: str = ACCOUNT,
        limits: SqsLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.service = service
        self.region = region
        self.account = account
        self.limits = limits or SqsLimits()
        self._clock = clock
        self._sends = SendRate(self.limits.fifo_sends_max)
        self.scheme = "http"
        self.authority = ""  # Set when the door opens: host and port for clients without a `Host` header.
        self._names: dict[str, str] = {}  # A cache of queue names by URL, because every request has one.

    def name_of(self, url: str) -> str:
        """The name of the queue that a URL names. Raises SqsError."""
        name = self._names.get(url)
        if name is None:
            name = queue_of_url(url)
            if len(self._names) >= URLS_KNOWN_MAX:
                self._names.clear()
            self._names[url] = name
        return name

    async def queue(self, url: str, caller: Caller) -> QueueView:
        """The queue of a request, as its leader knows it. UNKNOWN_QUEUE if there is none."""
        return await self.service.call(DescribeQueue(self.name_of(url)), caller.identity)

    def check_rate(self, view: QueueView, groups: Iterable[str]) -> None:
        """Raises SqsError if a FIFO queue has had its sends of this second: together, or in one of these groups if its
        limit is `perMessageGroupId`.
        """
        if not self.limits.fifo_sends_max or self._clock is None or not view.settings.fifo:
            return
        by_group = view.settings.door.get("FifoThroughputLimit") == "perMessageGroupId"
        if not self._sends.admits(view.name, groups if by_group else ("",), self._clock.monotonic_ms()):
            raise SqsError(THROTTLED, "The request was denied due to request throttling.")

    def url(self, name: str, caller: Caller) -> str:
        """A queue's URL for a client, as the client reaches this door."""
        authority = caller.host if caller.host and _HOST.fullmatch(caller.host) else self.authority
        return f"{caller.scheme or self.scheme}://{authority}/{self.account}/{name}"

    def arn(self, name: str) -> str:
        """A queue's ARN."""
        return f"arn:aws:sqs:{self.region}:{self.account}:{name}"


@final
class Later:
    """A pending reply of the service, and the function that makes the result from it."""

    __slots__ = ("finish", "pending")

    def __init__(self, pending: Pending[Any], finish: Callable[[Any], Result]) -> None:
        self.pending = pending
        self.finish = finish


@final
class Caller:
    """The client of a request, as a handler sees it."""

    __slots__ = ("host", "identity", "is_allowed_text", "scheme", "sender", "trace")

    def __init__(
        self,
        host: str,
        principal: Principal,
        trace: str = "",
        address: str = "",
        scheme: str = "",
        is_tls: bool = False,
        action: str = "",
        is_allowed_text: bool = False,
    ) -> None:
        self.host = host
        self.is_allowed_text = is_allowed_text  # No string of the request needs a look at its characters.
        self.scheme = scheme  # Of its connection: a balancer may have ended TLS; empty for that of the door.
        self.sender = principal.user  # The attribute SenderId of messages.
        self.trace = trace  # The trace of which the request is a part: the header X-Amzn-Trace-Id.
        self.identity = (
            ANONYMOUS_CALLER if principal.is_anonymous else caller_of(principal, address, is_tls, action, "sqs")
        )
