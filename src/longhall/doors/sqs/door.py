"""What a handler of the SQS door may use: the queues, and how they are called from outside."""

from __future__ import annotations

import re
from typing import final

from longhall.doors.sqs.addresses import queue_of_url
from longhall.doors.sqs.keys import Keys
from longhall.doors.sqs.limits import SqsLimits
from longhall.doors.sqs.recent import RecentNames
from longhall.doors.sqs.verbs import Queues
from longhall.doors.sqs.wire.faults import NO_SUCH_QUEUE, SqsError
from longhall.doors.sqs.wire.results import Result
from longhall.queues.messages import QueueView

URLS_KNOWN_MAX = 4_096

ACCOUNT = "000000000000"
REGION = "us-east-1"

_HOST = re.compile(r"[A-Za-z0-9.:\[\]_-]{1,255}")


@final
class Door:
    """Handed to every handler."""

    def __init__(
        self,
        queues: Queues,
        region: str = REGION,
        account: str = ACCOUNT,
        limits: SqsLimits | None = None,
        keys: Keys | None = None,
    ) -> None:
        self.queues = queues
        self.region = region
        self.account = account
        self.limits = limits or SqsLimits()
        self.keys = keys
        self.names = RecentNames()
        self.scheme = "http"
        self.authority = ""  # Known when the door is open: host and port for clients that name none.
        self._names: dict[str, str] = {}  # What some URLs mean, since every request names one.

    def queue(self, url: str) -> QueueView:
        """The queue that a request is about. Raises SqsError if there is none."""
        name = self._names.get(url)
        if name is None:
            name = queue_of_url(url)
            if len(self._names) >= URLS_KNOWN_MAX:
                self._names.clear()
            self._names[url] = name
        view = self.queues.view(name)
        if view is None:
            raise no_such_queue()
        return view

    def unlocked(self, url: str) -> QueueView:
        """The same, for a request that gives or takes messages: the queue's key must be usable. Raises SqsError."""
        view = self.queue(url)
        if self.keys is not None:
            self.keys.check(view.settings)
        return view

    def url(self, name: str, host: str) -> str:
        """A queue's URL as seen by somebody who calls us `host`."""
        authority = host if host and _HOST.fullmatch(host) else self.authority
        return f"{self.scheme}://{authority}/{self.account}/{name}"

    def arn(self, name: str) -> str:
        """A queue's ARN."""
        return f"arn:aws:sqs:{self.region}:{self.account}:{name}"


@final
class Held:
    """A result that is told when everything done to this queue so far is committed; of a send, acknowledged."""

    __slots__ = ("queue", "result", "sends")

    def __init__(self, queue: str, result: Result, sends: bool = False) -> None:
        self.queue = queue
        self.result = result
        self.sends = sends


@final
class Caller:
    """Who asks: what a handler may know of the connection."""

    __slots__ = ("access_key", "host")

    def __init__(self, host: str, access_key: str) -> None:
        self.host = host
        self.access_key = access_key


def no_such_queue() -> SqsError:
    """The refusal of a request about a queue that is not there."""
    return SqsError(NO_SUCH_QUEUE, "The specified queue does not exist.")
