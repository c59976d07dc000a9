"""Share sessions: which partitions a share member reads at this broker, and what it holds of them.

    epoch of a request    the session
    0                     is opened; what the member holds from an earlier one stays its own
    the expected one      goes on, and expects the next one
    another               INVALID_SHARE_SESSION_EPOCH
    not 0, none open      SHARE_SESSION_NOT_FOUND: the client opens one
    -1                    is closed after this request; what the member holds is returned

A session belongs to the connection of its last request: when that closes, the session does. A session from before
another leader was elected is gone, because leases that were not committed may be gone as well. The number of sessions
is bounded. Nothing here is durable.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.share.holdings import Holding
from longhall.doors.kafka.wire.error_codes import ErrorCode

INITIAL: Final = 0
FINAL: Final = -1
SESSIONS_MAX: Final = 10_000
PARTITIONS_MAX: Final = 10_000  # Of one session.
EPOCH_MAX: Final = 0x7FFFFFFF


Place = tuple[bytes, int]  # Topic id and partition.


@final
class ShareSession:
    """The session of one member."""

    def __init__(self, group_id: str, member_id: str, leader_epoch: int) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.leader_epoch = leader_epoch
        self.epoch = 1  # That the next request must have.
        self.connection = 0
        self.partitions: dict[Place, None] = {}
        self.holdings: dict[Place, Holding] = {}

    @property
    def consumer(self) -> str:
        """The identity of the member in audit records."""
        return f"{self.group_id}/{self.member_id}"

    def holding(self, place: Place, queue_number: int, lane: int) -> Holding:
        """What the member holds of a partition. Another queue than before begins with nothing."""
        held = self.holdings.get(place)
        if held is None or held.queue_number != queue_number or held.lane != lane:
            held = self.holdings[place] = Holding(queue_number, lane)
        return held

    def turn(self, served: Place) -> None:
        """Serve the other partitions first next time."""
        if served in self.partitions:
            del self.partitions[served]
            self.partitions[served] = None


@final
class ShareSessions:
    """The share sessions of a broker."""

    def __init__(self) -> None:
        self._by_member: dict[tuple[str, str], ShareSession] = {}

    def __len__(self) -> int:
        return len(self._by_member)

    def find(self, group_id: str, member_id: str, epoch: int, connection: int, leader_epoch: int) -> ShareSession | int:
        """The session for a request, opened if the epoch asks for it; else the error."""
        key = (group_id, member_id)
        known = self._by_member.get(key)
        if known is not None and known.leader_epoch != leader_epoch:
            del self._by_member[key]
            known = None
        if epoch == INITIAL:
            if known is None and len(self._by_member) >= SESSIONS_MAX:
                return ErrorCode.SHARE_SESSION_LIMIT_REACHED
            session = self._by_member[key] = ShareSession(group_id, member_id, leader_epoch)
            if known is not None:
                session.holdings = known.holdings
            session.connection = connection
            return session
        if known is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch != FINAL:
            if epoch != known.epoch:
                return ErrorCode.INVALID_SHARE_SESSION_EPOCH
            known.epoch = known.epoch + 1 if known.epoch < EPOCH_MAX else 1
        known.connection = connection
        return known

    def close(self, session: ShareSession) -> None:
        """Forget a session."""
        self._by_member.pop((session.group_id, session.member_id), None)

    def disconnected(self, connection: int) -> list[ShareSession]:
        """Forget the sessions of a connection, and return them."""
        gone = [session for session in self._by_member.values() if session.connection == connection]
        for session in gone:
            self.close(session)
        return gone
