"""Fair shares of the throughput of a process: tenants and topics with much traffic take turns with the others.

A lane is a topic to which Kafka producers send, or all calls of one tenant (`front.fair_calls`); it holds the bytes
that are under way and not committed. Commits have one order, so the lane that holds most has most of the throughput,
and the other lanes wait for it. While several lanes are busy and hold more than a window together, those who use a lane
over its share wait until it holds less. A lane alone may hold as much as the memory budget allows.

    held by all lanes < WINDOW_BYTES            nobody waits
    held by a tenant < WINDOW_BYTES / busy      nobody of this tenant waits, if others are busy too
    tenants, which is its share
    the lane is that of calls                   they wait if there are several busy tenants
    held by a topic < the tenant's share /      the connections of this lane are read
    its busy lanes
    otherwise                                   they wait, and resume one after another

So a tenant with many topics, or many connections, gets no more than one with few.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

WINDOW_BYTES: Final = 16 * 1024 * 1024  # More than two rounds commit, so that the disk is never idle in vain.
SHARE_BYTES_MIN: Final = 256 * 1024
BUSY_S: Final = 1.0  # A lane is busy while it holds bytes, and for this time afterwards.

Resume = Callable[[], None]


@final
class BusyTenant:
    """One tenant with traffic."""

    __slots__ = ("held_bytes", "lanes")

    def __init__(self) -> None:
        self.held_bytes = 0
        self.lanes = 0


@final
class Lane:
    """The sends of one tenant to one topic, or its calls, and the waits until they are within its share."""

    __slots__ = ("has_calls", "held_bytes", "seen_s", "tenant", "tenant_name", "waiting")

    def __init__(self, tenant: BusyTenant, tenant_name: str, has_calls: bool) -> None:
        self.tenant = tenant
        self.tenant_name = tenant_name
        self.has_calls = has_calls
        self.held_bytes = 0
        self.seen_s = 0.0
        self.waiting: dict[int, Resume] = {}  # By the id of the connection or call, in the order of arrival.


@final
class Fairness:
    """The busy lanes of a process. Invariant: `held_bytes` is the sum over all lanes. Times are the event loop's."""

    def __init__(self) -> None:
        self.later: Callable[[Resume], object] = _at_once  # Schedules the resumption of connections after the commit.
        self.held_bytes = 0
        self.waits = 0  # How many times a connection or a call had to wait.
        self._tenants: dict[str, BusyTenant] = {}
        self._lanes: dict[str, Lane] = {}
        self._awaited: dict[str, Lane] = {}  # The lanes that connections wait for.
        self._swept_s = 0.0
        self._resuming = False

    @property
    def lanes(self) -> int:
        """The number of busy lanes."""
        return len(self._lanes)

    @property
    def is_contended(self) -> bool:
        """False if no tenant has to wait."""
        return self.held_bytes >= WINDOW_BYTES or bool(self._awaited)

    def lane(self, name: str) -> Lane | None:
        """The lane of this name, if it is busy."""
        return self._lanes.get(name)

    def hold(self, name: str, size_bytes: int, now_s: float, tenant: str = "", has_calls: bool = False) -> Lane:
        """Count bytes that are under way in a lane. The caller gives them back with `release`. The lanes of two tenants
        have two names.
        """
        if now_s - self._swept_s >= BUSY_S:
            self._sweep(now_s)
        lane = self._lanes.get(name)
        if lane is None:
            busy = self._tenants.get(tenant)
            if busy is None:
                busy = self._tenants[tenant] = BusyTenant()
            busy.lanes += 1
            lane = self._lanes[name] = Lane(busy, tenant, has_calls)
        lane.seen_s = now_s
        lane.held_bytes += size_bytes
        lane.tenant.held_bytes += size_bytes
        self.held_bytes += size_bytes
        return lane

    def release(self, lane: Lane, size_bytes: int) -> None:
        """The bytes are committed, or the append failed."""
        lane.held_bytes -= size_bytes
        lane.tenant.held_bytes -= size_bytes
        self.held_bytes -= size_bytes
        if self._awaited and not self._resuming:
            self._resuming = True
            self.later(self._resume)

    def is_over_share(self, lane: Lane) -> bool:
        """True if the lane holds its share or more, so that its users should wait."""
        if self.held_bytes < WINDOW_BYTES or len(self._lanes) < 2:
            return False
        tenant = lane.tenant
        share_bytes = WINDOW_BYTES // len(self._tenants)
        if len(self._tenants) > 1 and tenant.held_bytes < share_bytes:
            return False
        if lane.has_calls:
            return len(self._tenants) > 1
        return lane.held_bytes >= max(share_bytes // tenant.lanes, SHARE_BYTES_MIN)

    def wait(self, name: str, lane: Lane, key: int, resume: Resume) -> None:
        """Call `resume` once when the lane is within its share."""
        self.waits += 1
        lane.waiting[key] = resume
        self._awaited[name] = lane

    def forget(self, key: int) -> None:
        """Cancel the waits of a connection."""
        for name in list(self._awaited):
            lane = self._awaited[name]
            lane.waiting.pop(key, None)
            if not lane.waiting:
                del self._awaited[name]

    def _resume(self) -> None:
        """Resume one connection of each lane within its share, in turns, while there is one."""
        try:
            again = True
            while again:
                again = False
                for name in list(self._awaited):
                    lane = self._awaited[name]
                    if self.is_over_share(lane):
                        continue
                    key = next(iter(lane.waiting))
                    resume = lane.waiting.pop(key)
                    if not lane.waiting:
                        del self._awaited[name]
                    resume()
                    again = True
        finally:
            self._resuming = False

    def _sweep(self, now_s: float) -> None:
        """Remove lanes without traffic."""
        self._swept_s = now_s
        for name in [
            name
            for name, lane in self._lanes.items()
            if not lane.held_bytes and not lane.waiting and lane.seen_s < now_s - BUSY_S
        ]:
            lane = self._lanes.pop(name)
            lane.tenant.lanes -= 1
            if not lane.tenant.lanes:
                del self._tenants[lane.tenant_name]


def _at_once(resume: Resume) -> None:
    resume()
