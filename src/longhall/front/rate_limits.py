"""What clients use, against the rate limits of the directory: one bucket for each limited scope and rate.

A request counts in every limit that is for it. Of the limits with the same parts the most specific one counts: a name
comes before EVERY, and an earlier part (tenant, user, queue, operation, address) before a later one.

    limit                       its bucket is shared by
    tenant acme                 all clients of the tenant acme
    tenant acme, send           what these send
    user *                      the clients of each user without a limit of its own, user by user
    queue jobs                  all clients of the queue or topic jobs

A client without authentication has the tenant `default` and the user ANONYMOUS. Without limits `active` is False, and
nothing else is asked. A door charges what it has accepted, and asks before it accepts or after it, as its protocol
wants: `front.pace` for doors that hold a connection back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Final, NamedTuple, final

from longhall.cluster.rpc.operation import Caller
from longhall.directory.accounts import DEFAULT_TENANT
from longhall.directory.directory import Directory, DirectoryObserver
from longhall.directory.events import DirectoryChanged
from longhall.directory.rate_limits import (
    BYTES,
    EVERY,
    MESSAGES,
    PARTS,
    RATE_LIMIT_KIND,
    RATES,
    REQUESTS,
    LimitScope,
    RateLimit,
    decode_rate_limit,
    scope_name,
)
from longhall.errors import Code, LonghallError
from longhall.front.client_limits import ANONYMOUS_USER
from longhall.front.identity import ANONYMOUS_KIND
from longhall.front.rate_buckets import RateBucket, RateBuckets

REMEMBERED_MAX: Final = 10_000  # Requests whose buckets are remembered: by client, operation and queue.

_Shape = tuple[str, ...]  # The parts that a limit has.
_Key = tuple[str, str, str, str, str]


class Buckets(NamedTuple):
    """The buckets of a request, by what they count."""

    of_bytes: tuple[RateBucket, ...]
    of_messages: tuple[RateBucket, ...]
    of_requests: tuple[RateBucket, ...]

    def all(self) -> Iterator[RateBucket]:
        """Every bucket."""
        yield from self.of_bytes
        yield from self.of_messages
        yield from self.of_requests


class Allowance(NamedTuple):
    """The tightest limit of a request, for clients that want to know how much is left."""

    bucket: str
    a_second: int
    left: int
    wait_ms: int  # Until the bucket is out of debt.


class RateLimited(LonghallError):
    """A request that is refused because its client has used a limit up."""

    def __init__(self, allowance: Allowance) -> None:
        super().__init__(
            Code.OVER_QUOTA, f"the limit '{allowance.bucket}' is used up; try again in {allowance.wait_ms} ms"
        )
        self.allowance = allowance

    @property
    def wait_ms(self) -> int:
        """The time for which the client should wait."""
        return self.allowance.wait_ms


@final
class RateLimits(DirectoryObserver):
    """The rate limits as one process counts them."""

    def __init__(self, directory: Directory, buckets: RateBuckets, now_ms: Callable[[], int]) -> None:
        """`now_ms` is a clock that never jumps; all that use the same buckets have the same one."""
        self.active = False
        self.throttled: Counter[tuple[str, str]] = Counter()  # Requests that were refused or held back, by door and
        # class of operation.
        self._now_ms = now_ms
        self._directory = directory
        self._buckets = buckets
        self._limits: dict[LimitScope, RateLimit] = {}
        self._shapes: list[_Shape] = []
        self._remembered: dict[_Key, Buckets] = {}
        self._generation = buckets.generation
        directory.observers.append(self)
        self._load()

    def directory_changed(self, event: DirectoryChanged) -> None:
        changed = any(one.kind == RATE_LIMIT_KIND for one in event.put)
        if changed or any(kind == RATE_LIMIT_KIND for kind, _ in event.removed):
            self._load()

    def charge(
        self,
        caller: Caller,
        operation: str,
        queue: str,
        *,
        size_bytes: int = 0,
        messages: int = 0,
        requests: int = 1,
    ) -> None:
        """Count what a client was granted. A queue without a name is no queue."""
        found, now_ms = self._find(caller, operation, queue), self._now_ms()
        _take(found.of_bytes, size_bytes, now_ms)
        _take(found.of_messages, messages, now_ms)
        _take(found.of_requests, requests, now_ms)

    def debt_ms(self, caller: Caller, operation: str, queue: str) -> int:
        """How long the client has to wait before the next request of this kind, in milliseconds; 0: not at all."""
        now_ms = self._now_ms()
        return max([bucket.debt_ms(now_ms) for bucket in self._find(caller, operation, queue).all()], default=0)

    def admit(self, door: str, caller: Caller, operation: str, queue: str) -> None:
        """Raises RateLimited while the client is in debt: for doors that refuse."""
        if not self.debt_ms(caller, operation, queue):
            return
        allowance = self.allowance(caller, operation, queue)
        if allowance is not None and allowance.wait_ms:  # The debt may have ended with the millisecond.
            self.note_throttled(door, operation)
            raise RateLimited(allowance)

    def allowance(self, caller: Caller, operation: str, queue: str) -> Allowance | None:
        """The limit of which the least is left; None if the request has none."""
        now_ms = self._now_ms()
        found = [
            Allowance(bucket.name, bucket.a_second, bucket.left(now_ms), bucket.debt_ms(now_ms))
            for bucket in self._find(caller, operation, queue).all()
        ]
        return min(found, key=lambda one: (-one.wait_ms, one.left / one.a_second), default=None)

    def note_throttled(self, door: str, operation: str) -> None:
        """A client was refused or made to wait."""
        self.throttled[door, operation] += 1

    def _find(self, caller: Caller, operation: str, queue: str) -> Buckets:
        """The buckets of a request."""
        key = (_tenant(caller), _user(caller), queue, operation, caller.address)
        if self._generation != self._buckets.generation:
            self._generation = self._buckets.generation
            self._remembered.clear()
        found = self._remembered.get(key)
        if found is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            found = self._match(dict(zip(PARTS, key, strict=True)))
            self._remembered[key] = found
        return found

    def _match(self, request: dict[str, str]) -> Buckets:
        by_rate: dict[str, list[RateBucket]] = {rate: [] for rate in RATES}
        for shape in self._shapes:
            if any(not request[part] for part in shape):
                continue  # A limit of queues is not for what has none.
            sharing = scope_name(LimitScope(**{part: request[part] for part in shape}))
            for rate in RATES:
                limit = self._most_specific(shape, request, rate)
                if limit is not None:
                    by_rate[rate].append(self._buckets.find(f"{rate} {sharing}", limit.rates[rate]))
        return Buckets(tuple(by_rate[BYTES]), tuple(by_rate[MESSAGES]), tuple(by_rate[REQUESTS]))

    def _most_specific(self, shape: _Shape, request: dict[str, str], rate: str) -> RateLimit | None:
        for names in product(*((request[part], EVERY) for part in shape)):
            limit = self._limits.get(LimitScope(**dict(zip(shape, names, strict=True))))
            if limit is not None and rate in limit.rates:
                return limit
        return None

    def _load(self) -> None:
        found = [decode_rate_limit(name, value) for name, value in self._directory.entries_of(RATE_LIMIT_KIND).items()]
        self._limits = {limit.scope: limit for limit in found if limit is not None and limit.rates}
        shapes = {tuple(part for part in PARTS if getattr(scope, part) is not None) for scope in self._limits}
        self._shapes = sorted(shapes)
        self._remembered.clear()
        self.active = bool(self._limits)


def unlimited() -> RateLimits:
    """No limits, for a door of its own."""
    return RateLimits(Directory(), RateBuckets(), lambda: 0)


def _take(buckets: tuple[RateBucket, ...], count: int, now_ms: int) -> None:
    if count:
        for bucket in buckets:
            bucket.take(count, now_ms)


def _tenant(caller: Caller) -> str:
    return caller.tenant or DEFAULT_TENANT


def _user(caller: Caller) -> str:
    # The name of an anonymous client is one that nobody has checked.
    return ANONYMOUS_USER if caller.kind == ANONYMOUS_KIND else caller.identity
