"""The operations on limits of clients. The leader of the main hall carries them out; changes wait for the commit."""

from __future__ import annotations

import msgspec

from longhall.cluster.rpc.operation import Operation
from longhall.directory.client_limits import ClientLimit, LimitChange
from longhall.directory.rate_limits import LimitScope, RateLimit


class RateUse(msgspec.Struct, array_like=True):
    """The tokens of one bucket that one process has used since its last report."""

    bucket: str
    used: float  # As a part of what the whole limit allows in the time of the report.
    is_short: bool  # True if clients had to wait: they would have used more.


class RateShares(msgspec.Struct, array_like=True):
    """The division of limits among processes by the leader."""

    processes: int  # That serve clients, as far as the leader knows.
    shares: dict[str, float]  # By bucket: the part of the whole rate. What is not named stays as it is.


class ChangeLimits(Operation[None]):
    """Change the rates of one entity, all of them or none. What is not there is not removed. INVALID_REQUEST for a
    change that means nothing, OVERLOADED if there are too many limits.
    """

    change: LimitChange


class ListLimits(Operation[list[ClientLimit]]):
    """All limits of Kafka's client quotas, in the order of their entities' names."""


class SetRateLimit(Operation[None]):
    """Set the rates of a scope, in place of those that it has. INVALID_REQUEST for a limit that means nothing,
    OVERLOADED if there are too many.
    """

    limit: RateLimit


class RemoveRateLimit(Operation[bool]):
    """Remove the limit of a scope; False if there is none."""

    scope: LimitScope


class ListRateLimits(Operation[list[RateLimit]]):
    """All rate limits, in the order of their scopes' names."""


class ReportUse(Operation[RateShares]):
    """What a process has used of the limits that several processes share; the reply is its share of each."""

    process: str
    uses: list[RateUse]
