"""ElectLeaders: the preferred replica becomes the leader, if it is in sync.

| election | leader | answer |
|---|---|---|
| preferred | the preferred replica | ELECTION_NOT_NEEDED |
| preferred | another one, and the preferred replica is alive and in sync | the leadership is transferred |
| preferred | another one, and the preferred replica is not | PREFERRED_LEADER_NOT_AVAILABLE |
| preferred, in a wing | another one | PREFERRED_LEADER_NOT_AVAILABLE: the wing makes way for it by itself |
| unclean | any | ELECTION_NOT_NEEDED |
| unclean | none | ELIGIBLE_LEADERS_NOT_AVAILABLE: only an operator may lose messages |

All partitions of the hall have one leader, so they share one transfer. The answer comes when this node has heard of the
new leader. A leader that was deposed closes its connections a moment later: a client whose answer is lost repeats the
request, and no election is needed then.
"""

from __future__ import annotations

import asyncio
from typing import Final

from longhall.cluster.rpc.operation import Caller
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.placements import NO_NODE, Placement, Placements
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.topics import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.service.administration import TransferLeadership

PREFERRED: Final = 0
UNCLEAN: Final = 1
TRANSFER_S_MAX: Final = 30.0
LOOK_S: Final = 0.002  # A leader that was deposed soon closes its connections.

Refusal = tuple[int, str | None]


async def handle(door: Door, request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(error_code=error_of(Code.INVALID_REQUEST))
    everything = request.topic_partitions is None
    wanted = (
        [(name, list(range(len(route)))) for name, route in sorted(door.hall.routes.items())]
        if request.topic_partitions is None
        else [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    )
    deadline_s = min(max(request.timeout_ms, 0) / 1000, TRANSFER_S_MAX)
    election = _Election(door, request.election_type == UNCLEAN, call.caller, deadline_s)
    response = ElectLeadersResponse()
    for name, numbers in wanted:
        rows = [await election.of(name, number) for number in numbers]
        if everything:  # Then partitions that are well are left out.
            rows = [row for row in rows if row.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        if rows or not everything:
            response.replica_election_results.append(ElectLeadersResponseTopic(topic=name, partition_result=rows))
    return response


class _Election:
    """The elections of one request."""

    def __init__(self, door: Door, is_unclean: bool, caller: Caller, timeout_s: float) -> None:
        self._door = door
        self._is_unclean = is_unclean
        self._caller = caller
        self._timeout_s = timeout_s
        self._placements = Placements(door.hall, door.node_id)
        self._transferred: Refusal | None = None  # The outcome of the hall's transfer, once it was tried.

    async def of(self, name: str, number: int) -> ElectLeadersResponsePartition:
        partition = self._door.hall.partition(name, number)
        if partition is None:
            refusal: Refusal = (error_of(Code.UNKNOWN_TOPIC), "There is no such partition.")
        else:
            refusal = await self._elect(self._placements.of(partition), partition.elsewhere)
        code, message = refusal
        return ElectLeadersResponsePartition(partition_id=number, error_code=code, error_message=message)

    async def _elect(self, placement: Placement, in_wing: bool) -> Refusal:
        if self._is_unclean:
            if placement.leader != NO_NODE:
                return ErrorCode.ELECTION_NOT_NEEDED, "The partition has a leader."
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, (
                "No replica in sync is alive. An unclean election loses messages, so an operator decides: "
                "longhall cluster recover --unclean NODE"
            )
        preferred = placement.replicas[0] if placement.replicas else NO_NODE
        if placement.leader == preferred != NO_NODE:
            return ErrorCode.ELECTION_NOT_NEEDED, "The leader is the preferred one."
        if preferred not in placement.in_sync or preferred in placement.offline:
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"Broker {preferred}, the preferred one, is not in sync."
        if in_wing:
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"The wing makes way for broker {preferred} by itself."
        if self._transferred is None:
            self._transferred = await self._transfer(preferred)
        return self._transferred

    async def _transfer(self, preferred: int) -> Refusal:
        leadership = self._door.hall.leadership
        assert leadership is not None, "a lone node is the preferred leader"
        try:
            await self._door.service.dispatch(TransferLeadership(preferred), self._caller)
        except LonghallError as error:
            return error_of(error.code), str(error)
        for _ in range(int(self._timeout_s / LOOK_S)):
            if leadership.leader_node(CATALOGUE_SHARD) == preferred:
                return 0, None
            await asyncio.sleep(LOOK_S)
        return error_of(Code.TIMED_OUT), f"Broker {preferred} does not lead yet."
