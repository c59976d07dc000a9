"""How much clients have transferred, against the limits of the directory: one token bucket a limited client.

The most specific entity with the rate decides, as in Kafka. U is the user, C the client id, * the default:

    entity        the bucket is shared by
    U and C       the connections of this user with this client id
    U and *       the same
    U             all connections of the user
    * and C       the connections of this user with this client id
    * and *       the same
    *             all connections of the user
    C             all connections with this client id, of any user
    * (client id) the same

A transfer is charged after it was accepted, and a bucket in debt says how long the client has to wait: see
`front.rate_buckets`, which also says how several processes share a bucket. Without limits `active` is False, and
nothing else is asked. A client without authentication has the user ANONYMOUS, as in Kafka. Time is an argument.
"""

from __future__ import annotations

from typing import Final, final

from longhall.directory.client_limits import (
    CONSUME,
    DEFAULT,
    LIMIT_KIND,
    PRODUCE,
    LimitEntity,
    decode_limit,
    entry_name,
)
from longhall.directory.directory import Directory, DirectoryObserver
from longhall.directory.events import DirectoryChanged
from longhall.front.identity import Principal
from longhall.front.rate_buckets import RateBucket, RateBuckets

ANONYMOUS_USER: Final = "ANONYMOUS"

Rates = dict[LimitEntity, int]


@final
class ClientLimits(DirectoryObserver):
    """The limits of all clients of one process."""

    def __init__(self, directory: Directory, buckets: RateBuckets) -> None:
        self.active = False
        self.throttled = 0  # Requests whose client was made to wait.
        self._directory = directory
        self._rates: dict[str, Rates] = {PRODUCE: {}, CONSUME: {}}
        self._buckets = buckets
        directory.observers.append(self)
        self._load()

    def directory_changed(self, event: DirectoryChanged) -> None:
        changed = any(one.kind == LIMIT_KIND for one in event.put)
        if changed or any(kind == LIMIT_KIND for kind, _ in event.removed):
            self._load()

    def produced(self, principal: Principal, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        """Charge a produce request; the milliseconds that the client has to wait, 0 if it need not."""
        return self._charge(PRODUCE, principal, client_id, size_bytes, now_ms)

    def consumed(self, principal: Principal, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        """Charge what a client gets; the milliseconds that it has to wait, 0 if it need not. 0 bytes only ask."""
        return self._charge(CONSUME, principal, client_id, size_bytes, now_ms)

    def _charge(self, rate: str, principal: Principal, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        bucket = self._bucket(rate, principal, client_id or "")
        if bucket is None:
            return 0
        if size_bytes:
            bucket.take(size_bytes, now_ms)
        debt_ms = bucket.debt_ms(now_ms)
        if debt_ms:
            self.throttled += 1
        return debt_ms

    def _bucket(self, rate: str, principal: Principal, client_id: str) -> RateBucket | None:
        """The bucket that counts for a client; None if no limit is for it."""
        user = ANONYMOUS_USER if principal.is_anonymous else principal.user
        rates = self._rates[rate]
        if not rates:
            return None
        for entity, sharing in _entities(user, client_id):
            a_second = rates.get(entity)
            if a_second is None:
                continue
            return self._buckets.find(f"{rate} {entry_name(sharing)}", a_second)
        return None

    def _load(self) -> None:
        rates: dict[str, Rates] = {PRODUCE: {}, CONSUME: {}}
        for name, value in self._directory.entries_of(LIMIT_KIND).items():
            limit = decode_limit(name, value)
            for rate, a_second in limit.rates.items() if limit is not None else ():
                assert limit is not None
                rates[rate][limit.entity] = a_second
        self._rates = rates
        self.active = any(rates.values())


def _entities(user: str, client_id: str) -> tuple[tuple[LimitEntity, LimitEntity], ...]:
    """The entities that may limit a client, the most specific first; with each the clients that share its bucket."""
    both, alone, program = LimitEntity(user, client_id), LimitEntity(user), LimitEntity(None, client_id)
    found = [
        (both, both),
        (LimitEntity(user, DEFAULT), both),
        (alone, alone),
        (LimitEntity(DEFAULT, client_id), both),
        (LimitEntity(DEFAULT, DEFAULT), both),
        (LimitEntity(DEFAULT), alone),
        (program, program),
        (LimitEntity(None, DEFAULT), program),
    ]
    return tuple(found)
