"""The table of what the Kafka door offers: one row an API.

A row has the handler, what a node does that does not lead the hall, and whether the process of another replication
group answers the API itself. Key, name and versions come from the wire: every version that has a codec is offered.

`direct` handlers read the frame themselves, for speed. The others get the decoded message and return the response, now
or as a coroutine.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    partition_reassignments,
    produce,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    share_group_offsets,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from longhall.doors.kafka.wire.apis import API, Api
from longhall.doors.kafka.wire.messages.configs import (
    AlterConfigsRequest,
    ConfigResourceType,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from longhall.doors.kafka.wire.messages.transactions import InitProducerIdRequest


class Follower(Enum):
    """What a node that does not lead the hall does with a request."""

    ANSWERS = "answers from its own state"
    ASKS = "asks the leader; without an answer it refuses the change"
    ASKS_OR_ANSWERS = "asks the leader, which has the newest state; without an answer it answers from its own"
    HAS_BLOCK = (
        "answers from a block of ids that the leader has reserved for it; below the feature level of blocks it asks "
        "the leader, and without an answer refuses with COORDINATOR_NOT_AVAILABLE"
    )
    NOT_LEADER = "refuses with NOT_LEADER_OR_FOLLOWER: the client asks for metadata and goes to the leader"
    NOT_COORDINATOR = "refuses with NOT_COORDINATOR: the client looks for the coordinator and goes there"
    EMPTY = "answers with an empty list: clients that want the list ask every broker, and the leader has the rows"


class Operation(NamedTuple):
    """One row. A column that depends on the request is a function of it."""

    api: Api
    version_min: int
    version_max: int
    handler: Callable[[Door, Any, Any], Any] | None
    direct: Callable[[Door, Call], None] | None
    direct_refusal: Callable[[Door, Call], None] | None
    follower: Follower | Callable[[Any], Follower]
    in_group: bool | Callable[[Any], bool]

    def follower_of(self, request: Any) -> Follower:
        """What a node that does not lead does with this request."""
        return self.follower if isinstance(self.follower, Follower) else self.follower(request)

    def is_for_group(self, request: Any) -> bool:
        """True if the process of another replication group answers this request; the main hall answers all others."""
        return self.in_group if isinstance(self.in_group, bool) else self.in_group(request)


def _of_topics(request: DescribeConfigsRequest | AlterConfigsRequest | IncrementalAlterConfigsRequest) -> bool:
    shared = (ConfigResourceType.TOPIC, ConfigResourceType.GROUP)
    return all(resource.resource_type in shared for resource in request.resources)


def _of_brokers(request: DescribeConfigsRequest | AlterConfigsRequest | IncrementalAlterConfigsRequest) -> bool:
    """Settings of a broker are a matter of the broker that was asked."""
    return not _of_topics(request)


def _describe_configs(request: DescribeConfigsRequest) -> Follower:
    return Follower.ASKS_OR_ANSWERS if _of_topics(request) else Follower.ANSWERS


def _alter_configs(request: AlterConfigsRequest | IncrementalAlterConfigsRequest) -> Follower:
    return Follower.ASKS if _of_topics(request) else Follower.ANSWERS


def _init_producer_id(request: InitProducerIdRequest) -> Follower:
    return Follower.HAS_BLOCK if _without_transactions(request) else Follower.NOT_COORDINATOR


def _without_transactions(request: InitProducerIdRequest) -> bool:
    return request.transactional_id is None


_API_OF_NAME: Final = {api.name: api for api in API.values()}


def _row(
    name: str,
    handler: Callable[[Door, Any, Any], Any],
    follower: Follower | Callable[[Any], Follower],
    in_group: bool | Callable[[Any], bool] = False,
) -> Operation:
    api = _API_OF_NAME[name]
    return Operation(api, api.version_min, api.version_max, handler, None, None, follower, in_group)


def _direct(name: str, handler: Callable[[Door, Call], None], refusal: Callable[[Door, Call], None]) -> Operation:
    """A row of records: they are in the log that this process has, and the leader of that log alone serves them."""
    api = _API_OF_NAME[name]
    return Operation(api, api.version_min, api.version_max, None, handler, refusal, Follower.NOT_LEADER, True)


_ROWS: Final = (
    _direct("Produce", produce.handle, produce.refuse),
    _direct("Fetch", fetch.handle, fetch.refuse),
    _row("ListOffsets", list_offsets.handle, Follower.NOT_LEADER, in_group=True),
    _row("Metadata", metadata.handle, Follower.ASKS_OR_ANSWERS),
    _row("OffsetCommit", offset_commit.handle, Follower.NOT_COORDINATOR),
    _row("OffsetFetch", offset_fetch.handle, Follower.NOT_COORDINATOR),
    _row("FindCoordinator", find_coordinator.handle, Follower.ANSWERS),
    _row("JoinGroup", join_group.handle, Follower.NOT_COORDINATOR),
    _row("Heartbeat", heartbeat.handle, Follower.NOT_COORDINATOR),
    _row("LeaveGroup", leave_group.handle, Follower.NOT_COORDINATOR),
    _row("SyncGroup", sync_group.handle, Follower.NOT_COORDINATOR),
    _row("DescribeGroups", describe_groups.handle, Follower.NOT_COORDINATOR),
    _row("ListGroups", list_groups.handle, Follower.EMPTY, in_group=True),
    _row("SaslHandshake", sasl_handshake.handle, Follower.ANSWERS, in_group=True),
    _row("ApiVersions", api_versions.handle, Follower.ANSWERS, in_group=True),
    _row("CreateTopics", create_topics.handle, Follower.ASKS),
    _row("DeleteTopics", delete_topics.handle, Follower.ASKS),
    _row("DeleteRecords", delete_records.handle, Follower.NOT_LEADER, in_group=True),
    _row("InitProducerId", init_producer_id.handle, _init_producer_id, in_group=_without_transactions),
    _row("OffsetForLeaderEpoch", offset_for_leader_epoch.handle, Follower.NOT_LEADER, in_group=True),
    _row("AddPartitionsToTxn", add_partitions_to_txn.handle, Follower.NOT_COORDINATOR),
    _row("AddOffsetsToTxn", add_offsets_to_txn.handle, Follower.NOT_COORDINATOR),
    _row("EndTxn", end_txn.handle, Follower.NOT_COORDINATOR),
    _row("WriteTxnMarkers", write_txn_markers.handle, Follower.NOT_LEADER, in_group=True),
    _row("TxnOffsetCommit", txn_offset_commit.handle, Follower.NOT_COORDINATOR),
    _row("DescribeAcls", describe_acls.handle, Follower.ANSWERS),
    _row("CreateAcls", create_acls.handle, Follower.ANSWERS),
    _row("DeleteAcls", delete_acls.handle, Follower.ANSWERS),
    _row("DescribeConfigs", describe_configs.handle, _describe_configs, in_group=_of_brokers),
    _row("AlterConfigs", alter_configs.handle, _alter_configs, in_group=_of_brokers),
    _row("AlterReplicaLogDirs", alter_replica_log_dirs.handle, Follower.ANSWERS, in_group=True),
    _row("DescribeLogDirs", describe_log_dirs.handle, Follower.ANSWERS, in_group=True),
    _row("SaslAuthenticate", sasl_authenticate.handle, Follower.ANSWERS, in_group=True),
    _row("CreatePartitions", create_partitions.handle, Follower.ASKS),
    _row("DeleteGroups", delete_groups.handle, Follower.NOT_COORDINATOR),
    _row("ElectLeaders", elect_leaders.handle, Follower.ANSWERS),
    _row("IncrementalAlterConfigs", alter_configs.handle_incremental, _alter_configs, in_group=_of_brokers),
    _row("AlterPartitionReassignments", partition_reassignments.handle_alter, Follower.ASKS),
    _row("ListPartitionReassignments", partition_reassignments.handle_list, Follower.ASKS_OR_ANSWERS),
    _row("OffsetDelete", offset_delete.handle, Follower.NOT_COORDINATOR),
    _row("DescribeClientQuotas", describe_client_quotas.handle, Follower.ANSWERS),
    _row("AlterClientQuotas", alter_client_quotas.handle, Follower.ANSWERS),
    _row("DescribeUserScramCredentials", describe_user_scram_credentials.handle, Follower.ANSWERS),
    _row("AlterUserScramCredentials", alter_user_scram_credentials.handle, Follower.ANSWERS),
    _row("DescribeQuorum", describe_quorum.handle, Follower.ANSWERS),
    _row("DescribeCluster", describe_cluster.handle, Follower.ANSWERS),
    _row("DescribeProducers", describe_producers.handle, Follower.NOT_LEADER, in_group=True),
    _row("DescribeTransactions", describe_transactions.handle, Follower.NOT_COORDINATOR),
    _row("ListTransactions", list_transactions.handle, Follower.EMPTY, in_group=True),
    _row("ConsumerGroupHeartbeat", consumer_group_heartbeat.handle, Follower.NOT_COORDINATOR),
    _row("ConsumerGroupDescribe", consumer_group_describe.handle, Follower.NOT_COORDINATOR),
    _row("ListConfigResources", list_config_resources.handle, Follower.ASKS_OR_ANSWERS),
    _row("DescribeTopicPartitions", describe_topic_partitions.handle, Follower.ASKS_OR_ANSWERS),
    _row("ShareGroupHeartbeat", share_group_heartbeat.handle, Follower.NOT_COORDINATOR),
    _row("ShareGroupDescribe", share_group_describe.handle, Follower.NOT_COORDINATOR),
    _row("ShareFetch", share_fetch.handle, Follower.ANSWERS, in_group=True),
    _row("ShareAcknowledge", share_acknowledge.handle, Follower.ANSWERS, in_group=True),
    _row("DescribeShareGroupOffsets", share_group_offsets.describe, Follower.NOT_COORDINATOR),
    _row("AlterShareGroupOffsets", share_group_offsets.alter, Follower.NOT_COORDINATOR),
    _row("DeleteShareGroupOffsets", share_group_offsets.delete, Follower.NOT_COORDINATOR),
)

OPERATIONS: Final[dict[int, Operation]] = {row.api.key: row for row in _ROWS}
