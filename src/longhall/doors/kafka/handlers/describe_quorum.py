"""DescribeQuorum: the replicas of the catalogue, and how far each has the log. Entries of that log are counted, not
offsets: the replication group has one log for the catalogue and for all topics.
"""

from __future__ import annotations

from typing import Final

from longhall.doors.kafka.brokers import brokers_of, controller_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.placements import Placements
from longhall.doors.kafka.wire.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponseNode,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseReplica,
    DescribeQuorumResponseTopic,
)
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.service.administration import DescribeReplication, ReplicaProgress, ReplicationProgress

METADATA_TOPIC: Final = "__cluster_metadata"


async def handle(door: Door, request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
    try:
        progress = await door.service.dispatch(DescribeReplication(), call.caller)
    except LonghallError as error:
        return DescribeQuorumResponse(error_code=error_of(error.code), error_message=str(error))
    response = DescribeQuorumResponse()
    for topic in request.topics:
        rows = [
            _describe(door, progress, topic.topic_name, partition.partition_index) for partition in topic.partitions
        ]
        response.topics.append(DescribeQuorumResponseTopic(topic_name=topic.topic_name, partitions=rows))
    for broker in brokers_of(door):
        if broker.node_id in _members(door):
            listener = DescribeQuorumResponseListener(name="CONTROLLER", host=broker.host, port=broker.port)
            response.nodes.append(DescribeQuorumResponseNode(node_id=broker.node_id, listeners=[listener]))
    return response


def _members(door: Door) -> list[int]:
    """The nodes with a replica, and those without one: all but the processes of other groups."""
    leadership = door.hall.leadership
    return [door.node_id] if leadership is None else [member.node for member in leadership.members()]


def _describe(door: Door, progress: ReplicationProgress, topic: str, number: int) -> DescribeQuorumResponsePartition:
    row = DescribeQuorumResponsePartition(partition_index=number)
    if (topic, number) != (METADATA_TOPIC, 0):
        row.error_code = error_of(Code.UNKNOWN_TOPIC)
        row.error_message = f"The only quorum is that of {METADATA_TOPIC}-0."
        return row
    placement = Placements(door.hall, door.node_id).of_shards()[CATALOGUE_SHARD]
    known = {replica.node: replica for replica in progress.replicas}
    row.leader_id = controller_of(door)
    row.leader_epoch = placement.epoch
    row.high_watermark = progress.committed
    row.current_voters = [_replica(node, known.get(node)) for node in sorted(placement.replicas)]
    row.observers = [_replica(node, known.get(node)) for node in _members(door) if node not in placement.replicas]
    return row


def _replica(node: int, progress: ReplicaProgress | None) -> DescribeQuorumResponseReplica:
    if progress is None:
        return DescribeQuorumResponseReplica(replica_id=node, log_end_offset=-1)
    return DescribeQuorumResponseReplica(
        replica_id=node,
        log_end_offset=progress.index,
        last_fetch_timestamp=progress.caught_up_ms,
        last_caught_up_timestamp=progress.caught_up_ms,
    )
