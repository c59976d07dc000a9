"""What a node answers that keeps a hall and does not lead it: where to go, or what the leader said.

| asked | answered |
|---|---|
| what exists | carried to the leader, which knows the newest; if it does not answer soon, from here |
| who is there, where to go | from here |
| changes of topics, a number for a producer | carried to the leader, which answers as if it had been asked |
| records, offsets, producers of partitions | NOT_LEADER_OR_FOLLOWER: the client asks for metadata and goes there |
| groups and transactions | NOT_COORDINATOR: the client looks for the coordinator and goes there |
| lists of groups and transactions | nothing: whoever wants them asks every node, and the leader has them |

The process of a wing answers what is about the records that it keeps, and as above while it does not lead. Everything
else is the main hall's to answer, and is carried there; what it says is what the client gets.

Everything but Produce and Fetch gets the decoded message. It knows nothing of how a request is carried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.handlers.describe_configs import TOPIC
from longhall.doors.kafka.wire.fetch import FetchedPart, encode_fetch_response, parse_fetch
from longhall.doors.kafka.wire.messages import commits, group_admin, groups, offsets, transaction_admin, transactions
from longhall.doors.kafka.wire.messages.configs import DescribeConfigsRequest
from longhall.doors.kafka.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from longhall.doors.kafka.wire.produce import encode_produce_response, parse_produce
from longhall.doors.kafka.wire.schema import Message
from longhall.errors import Code

NOT_LEADER: Final = error_of(Code.NOT_LEADER)
NOT_COORDINATOR: Final = error_of(Code.NOT_COORDINATOR)
COORDINATOR_NOT_AVAILABLE: Final = 15
METADATA: Final = 3
INIT_PRODUCER_ID: Final = 22
DESCRIBE_CONFIGS: Final = 32
DESCRIBE_TOPICS: Final = 75
MANY_FROM: Final = 4  # Of AddPartitionsToTxn.
MANY_GROUPS_FROM: Final = 8  # Of OffsetFetch.


# What is carried


def _describe_configs(door: Door, request: DescribeConfigsRequest) -> bool:
    return all(resource.resource_type == TOPIC for resource in request.resources)


def _init_producer(door: Door, request: InitProducerIdRequest) -> bool:
    return request.transactional_id is None


def _always(door: Door, request: Message) -> bool:
    return True


CARRIED: Final[dict[int, Callable[[Door, Any], bool]]] = {
    METADATA: _always,
    19: _always,  # CreateTopics
    20: _always,  # DeleteTopics
    INIT_PRODUCER_ID: _init_producer,
    DESCRIBE_CONFIGS: _describe_configs,
    33: _always,  # AlterConfigs
    37: _always,  # CreatePartitions
    44: _always,  # IncrementalAlterConfigs
    DESCRIBE_TOPICS: _always,
}

# What is known here too: without an answer in this time, that is what is told. It may be a moment old.
KNOWN_HERE: Final = frozenset({METADATA, DESCRIBE_CONFIGS, DESCRIBE_TOPICS})
PATIENCE_S: Final = 1.0


# What a wing answers itself

OF_A_WING: Final = frozenset(
    {
        2,  # ListOffsets
        16,  # ListGroups: there are none, and whoever wants them asks every broker. Carried, each would come twice.
        18,  # ApiVersions
        21,  # DeleteRecords
        23,  # OffsetForLeaderEpoch
        35,  # DescribeLogDirs: asked of a broker, about that broker
        61,  # DescribeProducers
        66,  # ListTransactions: likewise as groups
    }
)


def is_for_main(door: Door, api_key: int, request: Message) -> bool:
    """Whether the main hall answers this instead of the wing that was asked."""
    if isinstance(request, DescribeConfigsRequest):
        return _describe_configs(door, request)  # Of brokers: about the one that was asked.
    return api_key not in OF_A_WING


# What is refused: a message in, a message out


def _list_offsets(request: offsets.ListOffsetsRequest, version: int) -> Message:
    return offsets.ListOffsetsResponse(
        topics=[
            offsets.ListOffsetsResponseTopic(
                name=topic.name,
                partitions=[
                    offsets.ListOffsetsResponsePartition(partition_index=part.partition_index, error_code=NOT_LEADER)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _epoch_ends(request: offsets.OffsetForLeaderEpochRequest, version: int) -> Message:
    return offsets.OffsetForLeaderEpochResponse(
        topics=[
            offsets.OffsetForLeaderEpochResponseTopic(
                topic=topic.topic,
                partitions=[
                    offsets.OffsetForLeaderEpochResponsePartition(partition=part.partition, error_code=NOT_LEADER)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete_records(request: offsets.DeleteRecordsRequest, version: int) -> Message:
    return offsets.DeleteRecordsResponse(
        topics=[
            offsets.DeleteRecordsResponseTopic(
                name=topic.name,
                partitions=[
                    offsets.DeleteRecordsResponsePartition(
                        partition_index=part.partition_index, low_watermark=-1, error_code=NOT_LEADER
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _describe_producers(request: transaction_admin.DescribeProducersRequest, version: int) -> Message:
    return transaction_admin.DescribeProducersResponse(
        topics=[
            transaction_admin.DescribeProducersResponseTopic(
                name=topic.name,
                partitions=[
                    transaction_admin.DescribeProducersResponsePartition(partition_index=number, error_code=NOT_LEADER)
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _write_markers(request: transactions.WriteTxnMarkersRequest, version: int) -> Message:
    return transactions.WriteTxnMarkersResponse(
        markers=[
            transactions.WriteTxnMarkersResponseMarker(
                producer_id=marker.producer_id,
                topics=[
                    transactions.WriteTxnMarkersResponseTopic(
                        name=topic.name,
                        partitions=[
                            transactions.WriteTxnMarkersResponsePartition(partition_index=number, error_code=NOT_LEADER)
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _offset_commit(request: commits.OffsetCommitRequest, version: int) -> Message:
    return commits.OffsetCommitResponse(
        topics=[
            commits.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    commits.OffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=NOT_COORDINATOR
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset_fetch(request: commits.OffsetFetchRequest, version: int) -> Message:
    if version >= MANY_GROUPS_FROM:
        return commits.OffsetFetchResponse(
            groups=[
                commits.OffsetFetchResponseGroup(group_id=group.group_id, error_code=NOT_COORDINATOR)
                for group in request.groups
            ]
        )
    return commits.OffsetFetchResponse(
        error_code=NOT_COORDINATOR,
        topics=[
            commits.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    commits.OffsetFetchResponsePartition(
                        partition_index=number, committed_offset=-1, error_code=NOT_COORDINATOR
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )


def _join(request: groups.JoinGroupRequest, version: int) -> Message:
    protocol_name = "" if version < 7 else None
    return groups.JoinGroupResponse(
        error_code=NOT_COORDINATOR, generation_id=-1, protocol_name=protocol_name, member_id=request.member_id
    )


def _describe_groups(request: group_admin.DescribeGroupsRequest, version: int) -> Message:
    return group_admin.DescribeGroupsResponse(
        groups=[
            group_admin.DescribeGroupsResponseGroup(group_id=name, error_code=NOT_COORDINATOR)
            for name in request.groups
        ]
    )


def _delete_groups(request: group_admin.DeleteGroupsRequest, version: int) -> Message:
    return group_admin.DeleteGroupsResponse(
        results=[
            group_admin.DeleteGroupsResponseGroup(group_id=name, error_code=NOT_COORDINATOR)
            for name in request.groups_names
        ]
    )


def _add_partitions(request: transactions.AddPartitionsToTxnRequest, version: int) -> Message:
    if version >= MANY_FROM:
        return transactions.AddPartitionsToTxnResponse(error_code=NOT_COORDINATOR)
    return transactions.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            transactions.AddPartitionsToTxnResponseTopic(
                name=topic.name,
                results_by_partition=[
                    transactions.AddPartitionsToTxnResponsePartition(
                        partition_index=number, partition_error_code=NOT_COORDINATOR
                    )
                    for number in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def _txn_commit(request: transactions.TxnOffsetCommitRequest, version: int) -> Message:
    return transactions.TxnOffsetCommitResponse(
        topics=[
            transactions.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    transactions.TxnOffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=NOT_COORDINATOR
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _describe_transactions(request: transaction_admin.DescribeTransactionsRequest, version: int) -> Message:
    return transaction_admin.DescribeTransactionsResponse(
        transaction_states=[
            transaction_admin.DescribeTransactionsResponseTransaction(transactional_id=name, error_code=NOT_COORDINATOR)
            for name in request.transactional_ids
        ]
    )


REFUSED: Final[dict[int, Callable[[Any, int], Message]]] = {
    2: _list_offsets,
    8: _offset_commit,
    9: _offset_fetch,
    11: _join,
    12: lambda request, version: groups.HeartbeatResponse(error_code=NOT_COORDINATOR),
    13: lambda request, version: groups.LeaveGroupResponse(error_code=NOT_COORDINATOR),
    14: lambda request, version: groups.SyncGroupResponse(error_code=NOT_COORDINATOR),
    15: _describe_groups,
    16: lambda request, version: group_admin.ListGroupsResponse(),
    21: _delete_records,
    INIT_PRODUCER_ID: lambda request, version: InitProducerIdResponse(
        error_code=NOT_COORDINATOR if request.transactional_id is not None else COORDINATOR_NOT_AVAILABLE,
        producer_id=-1,
        producer_epoch=-1,
    ),
    23: _epoch_ends,
    24: _add_partitions,
    25: lambda request, version: transactions.AddOffsetsToTxnResponse(error_code=NOT_COORDINATOR),
    26: lambda request, version: transactions.EndTxnResponse(error_code=NOT_COORDINATOR),
    27: _write_markers,
    28: _txn_commit,
    42: _delete_groups,
    47: lambda request, version: commits.OffsetDeleteResponse(error_code=NOT_COORDINATOR),
    61: _describe_producers,
    65: _describe_transactions,
    66: lambda request, version: transaction_admin.ListTransactionsResponse(),
}


# Produce and Fetch, whose frames are read by hand


def refuse_produce(door: Door, call: Call) -> None:
    """Every batch belongs elsewhere."""
    header = call.header
    request = parse_produce(call.frame, call.at, header.version)
    call.frame = b""
    door.hall.traffic.sends += 1
    if not request.acks:
        call.connection.close()  # Without answers this is the only way to tell.
        return
    call.connection.begin(call)
    for part in request.parts:
        part.error_code = NOT_LEADER
    call.ready((encode_produce_response(header.correlation_id, header.version, request.parts),))


def refuse_fetch(door: Door, call: Call) -> None:
    """Every partition is read elsewhere."""
    header = call.header
    request = parse_fetch(call.frame, call.at, header.version)
    call.frame = b""
    call.connection.begin(call)
    door.hall.traffic.fetches += 1
    parts = [
        FetchedPart(part.topic, part.topic_id, part.partition, NOT_LEADER, -1, -1, -1, None, [])
        for part in request.parts
    ]
    call.ready(encode_fetch_response(header.correlation_id, header.version, 0, 0, 0, parts))


REFUSED_DIRECT: Final[dict[int, Callable[[Door, Call], None]]] = {0: refuse_produce, 1: refuse_fetch}
