"""The operations on limits of clients. The leader of the main hall carries them out; each waits for the commit."""

from __future__ import annotations

from longhall.cluster.rpc.operation import Operation
from longhall.directory.client_limits import ClientLimit, LimitChange


class ChangeLimits(Operation[None]):
    """Change the rates of one entity, all of them or none. What is not there is not removed. INVALID_REQUEST for a
    change that means nothing, OVERLOADED if there are too many limits.
    """

    change: LimitChange


class ListLimits(Operation[list[ClientLimit]]):
    """All limits, in the order of their entities' names."""
