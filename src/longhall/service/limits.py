"""Limits of clients, carried out by the leader of the hall: each change is one event of the directory.

The leader also divides the limits between the processes that serve clients (`service.rate_division`); that is state in
memory, which a new leader gathers again from the next reports.
"""

from __future__ import annotations

from typing import final

from longhall.broker.hall import Hall
from longhall.broker.waiting import committed
from longhall.cluster.rpc.operation import Caller
from longhall.directory.client_limits import (
    LIMIT_KIND,
    LIMITS_MAX,
    ClientLimit,
    check_change,
    decode_limit,
    encode_rates,
    entry_name,
)
from longhall.directory.events import DirectoryEntry
from longhall.directory.rate_limits import (
    RATE_LIMIT_KIND,
    RATE_LIMITS_MAX,
    RateLimit,
    check_rate_limit,
    decode_rate_limit,
    encode_rate_limit,
    scope_name,
)
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.service import limit_operations as ops
from longhall.service.accounts import commit_entries
from longhall.service.local import LocalBroker
from longhall.service.rate_division import RateDivision


@final
class LimitService:
    """The operations of `limit_operations` on one hall."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._division = RateDivision()

    def register(self, broker: LocalBroker) -> None:
        """Carry out these operations in this process."""
        broker.also(ops.ChangeLimits, self._change)
        broker.also(ops.ListLimits, self._list)
        broker.also(ops.SetRateLimit, self._set_rate)
        broker.also(ops.RemoveRateLimit, self._remove_rate)
        broker.also(ops.ListRateLimits, self._list_rates)
        broker.also(ops.ReportUse, self._report)

    async def _change(self, op: ops.ChangeLimits, caller: Caller) -> None:
        change = op.change
        check_change(change)
        stored = self._hall.catalogue.directory.entries_of(LIMIT_KIND)
        name = entry_name(change.entity)
        before = decode_limit(name, stored[name]) if name in stored else None
        rates = {**(before.rates if before is not None else {}), **change.put}
        for key in change.removed:
            rates.pop(key, None)
        if not rates:
            await commit_entries(self._hall, [], [(LIMIT_KIND, name)])
            return
        if name not in stored and len(stored) >= LIMITS_MAX:
            raise LonghallError(Code.OVERLOADED, f"there are at most {LIMITS_MAX} limits of clients")
        await commit_entries(self._hall, [DirectoryEntry(LIMIT_KIND, name, encode_rates(rates))])

    async def _list(self, op: ops.ListLimits, caller: Caller) -> list[ClientLimit]:
        stored = self._hall.catalogue.directory.entries_of(LIMIT_KIND)
        found = [decode_limit(name, value) for name, value in sorted(stored.items())]
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        return [one for one in found if one is not None]

    async def _set_rate(self, op: ops.SetRateLimit, caller: Caller) -> None:
        check_rate_limit(op.limit)
        stored = self._hall.catalogue.directory.entries_of(RATE_LIMIT_KIND)
        name = scope_name(op.limit.scope)
        if name not in stored and len(stored) >= RATE_LIMITS_MAX:
            raise LonghallError(Code.OVERLOADED, f"there are at most {RATE_LIMITS_MAX} rate limits")
        await commit_entries(self._hall, [DirectoryEntry(RATE_LIMIT_KIND, name, encode_rate_limit(op.limit))])

    async def _remove_rate(self, op: ops.RemoveRateLimit, caller: Caller) -> bool:
        name = scope_name(op.scope)
        if name not in self._hall.catalogue.directory.entries_of(RATE_LIMIT_KIND):
            return False
        await commit_entries(self._hall, [], [(RATE_LIMIT_KIND, name)])
        return True

    async def _list_rates(self, op: ops.ListRateLimits, caller: Caller) -> list[RateLimit]:
        stored = self._hall.catalogue.directory.entries_of(RATE_LIMIT_KIND)
        found = [decode_rate_limit(name, value) for name, value in sorted(stored.items())]
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        return [one for one in found if one is not None]

    async def _report(self, op: ops.ReportUse, caller: Caller) -> ops.RateShares:
        return self._division.divide(op.process, op.uses, self._hall.world.clock.monotonic_ms())
