"""What ShareFetch and ShareAcknowledge have in common: the session, the partitions of a request, acknowledgements.

A follower has no sessions: it names the leader for each partition of the request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final, final

from longhall.broker.hall import EVENT_ROOM_BYTES
from longhall.broker.partition import Partition
from longhall.broker.pending import Pending, started
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.share.acknowledgement import Batch, acknowledge, check_batches, release
from longhall.broker.share.cursors import cursor_of, lock_ms_of, open_cursor
from longhall.broker.share.target import ShareTarget
from longhall.broker.waiting import committed
from longhall.doors.kafka.brokers import brokers_of
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.placements import NO_NODE, Placements
from longhall.doors.kafka.share_sessions import Place, ShareSession
from longhall.doors.kafka.wire.messages.share_records import (
    AcknowledgementBatch,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareLeader,
    ShareNodeEndpoint,
)
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.topics.share_settings import ShareSettings

NO_LEADER: Final = -1

_log = logging.getLogger("longhall.kafka")


@final
class ShareRefusal:
    """Why a partition, or a whole request, is refused."""

    def __init__(self, error_code: int, message: str = "") -> None:
        self.error_code = error_code
        self.message = message or None


@final
class ShareExchange:
    """One request of a share member that has a session."""

    def __init__(self, door: Door, session: ShareSession, settings: ShareSettings) -> None:
        self._door = door
        self.session = session
        self.settings = settings
        self._shards: set[int] = set()  # With writes of this request.
        self.lock_ms = settings.lock_ms

    async def target(self, place: Place) -> ShareTarget | ShareRefusal:
        """A partition with its cursor and what the member holds of it."""
        found = self._partition(place)
        if isinstance(found, ShareRefusal):
            return found
        hall = self._door.hall
        queue = cursor_of(hall, self.session.group_id, place[0])
        try:
            if queue is None:
                queue = await open_cursor(hall, self.session.group_id, place[0], self.settings)
        except LonghallError as error:
            return ShareRefusal(error_of(error.code), str(error))
        self.lock_ms = min(self.lock_ms, lock_ms_of(queue, self.settings))
        return ShareTarget(found, queue, self.session.holding(place, queue.number, found.lane))

    def _partition(self, place: Place) -> Partition | ShareRefusal:
        door = self._door
        name = door.hall.topic_name(place[0])
        if not name:
            return ShareRefusal(error_of(door.unknown(True)))
        partition = door.hall.partition(name, place[1])
        if partition is None:
            return ShareRefusal(error_of(door.unknown(False)))
        if partition.elsewhere:
            return ShareRefusal(error_of(Code.NOT_LEADER))
        return partition

    async def acknowledge(
        self, place: Place, batches: Sequence[AcknowledgementBatch], may_renew: bool
    ) -> ShareRefusal | None:
        """Carry out the acknowledgements of one partition."""
        asked: list[Batch] = [(one.first_offset, one.last_offset, one.acknowledge_types) for one in batches]
        wrong = check_batches(asked, may_renew and self.settings.may_renew)
        if wrong:
            return ShareRefusal(error_of(Code.INVALID_REQUEST), wrong)
        found = self._partition(place)
        if isinstance(found, ShareRefusal):
            return found
        queue = self._queue(place, found)
        if queue is None:
            return ShareRefusal(error_of(Code.NOT_IN_FLIGHT), "The member holds no record of this partition.")
        holding = self.session.holdings[place]
        try:
            lock_ms = lock_ms_of(queue, self.settings)
            code = await acknowledge(self._door.hall, queue, holding, asked, lock_ms, self.session.consumer)
        except LonghallError as error:
            return ShareRefusal(error_of(error.code), str(error))
        self._shards.add(queue.shard.number)
        if code is None:
            return None
        return ShareRefusal(error_of(code), "The member does not hold these records any more.")

    def _queue(self, place: Place, partition: Partition) -> RunningQueue | None:
        holding = self.session.holdings.get(place)
        queue = self._door.hall.queues.get(holding.queue_number) if holding is not None else None
        return queue if queue is not None and partition.lane in queue.lanes else None

    async def committed(self) -> None:
        """Wait until everything that this request acknowledged is committed."""
        for number in self._shards:
            await committed(self._door.hall, self._door.hall.shards[number])


async def open_exchange(
    door: Door, request: ShareFetchRequest | ShareAcknowledgeRequest, connection: int
) -> ShareExchange | ShareRefusal:
    """A request whose ids `check_ids` has passed, with its session."""
    assert request.group_id is not None
    assert request.member_id is not None
    settings = await door.share_settings.of(request.group_id, door.main)
    session = door.share_sessions.find(
        request.group_id, request.member_id, request.share_session_epoch, connection, leader_epoch_of(door)
    )
    if isinstance(session, int):
        return ShareRefusal(session, "There is no such share session.")
    return ShareExchange(door, session, settings)


async def release_session(door: Door, session: ShareSession) -> None:
    """Return everything that a member holds."""
    hall = door.hall
    shards: set[int] = set()
    for holding in list(session.holdings.values()):
        queue = hall.queues.get(holding.queue_number)
        if queue is not None and holding.numbers and hall.has_room(EVENT_ROOM_BYTES // 4):
            await release(hall, queue, holding, list(holding.numbers), session.consumer)
            shards.add(queue.shard.number)
    for number in shards:
        await committed(hall, hall.shards[number])


def release_disconnected(door: Door, connection: int) -> None:
    """The connection of a member is closed: return what it holds, unless another node leads now."""
    for session in door.share_sessions.disconnected(connection):
        if session.holdings and not door.follows and session.leader_epoch == leader_epoch_of(door):
            started(release_session(door, session)).when_done(_log_failure)


def _log_failure(pending: Pending[None]) -> None:
    if pending.error is not None:
        _log.warning("records of a share member were not returned", extra={"reason": str(pending.error)})


def leader_epoch_of(door: Door) -> int:
    """The leader epoch under which leases are given out now."""
    return door.hall.shards[CATALOGUE_SHARD].epoch


@final
class LeaderNames:
    """The leaders of partitions that this node does not lead, for one response."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._placements: Placements | None = None
        self._named: set[int] = set()

    def of(self, place: Place, refusal: ShareRefusal | None) -> ShareLeader:
        """The leader of a partition that was refused with NOT_LEADER; none beside other errors."""
        hall = self._door.hall
        name = hall.topic_name(place[0])
        partition = hall.partition(name, place[1]) if name else None
        if refusal is None or refusal.error_code != error_of(Code.NOT_LEADER) or partition is None:
            return ShareLeader(leader_id=0 if refusal is None else NO_LEADER, leader_epoch=0)
        if self._placements is None:
            self._placements = Placements(hall, self._door.node_id)
        placement = self._placements.of(partition)
        if placement.leader in (NO_NODE, self._door.node_id):
            return ShareLeader(leader_id=NO_LEADER, leader_epoch=NO_LEADER)
        self._named.add(placement.leader)
        return ShareLeader(leader_id=placement.leader, leader_epoch=placement.epoch)

    def endpoints(self) -> list[ShareNodeEndpoint]:
        """The addresses of the leaders that were named."""
        if not self._named:
            return []
        return [
            ShareNodeEndpoint(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in brokers_of(self._door)
            if broker.node_id in self._named
        ]


def check_ids(group_id: str | None, member_id: str | None) -> ShareRefusal | None:
    """The refusal of a request without a group or a member."""
    if not group_id:
        return ShareRefusal(error_of(Code.INVALID_REQUEST), "The request has no group.")
    if not member_id:
        return ShareRefusal(error_of(Code.INVALID_REQUEST), "The request has no member.")
    return None


def by_topic(places: Iterable[Place]) -> dict[bytes, list[Place]]:
    """Partitions by topic, as responses have them."""
    topics: dict[bytes, list[Place]] = {}
    for place in places:
        topics.setdefault(place[0], []).append(place)
    return topics
