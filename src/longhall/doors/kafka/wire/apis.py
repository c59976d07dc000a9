"""The table of APIs that have a codec: key, versions and messages.

The versions are those that the codecs understand, and a node offers all of them for every API that it offers. This
table does not know handlers: clients use it too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from longhall.doors.kafka.wire.headers import decode_response_header, frame_request, frame_response
from longhall.doors.kafka.wire.malformed import WireError
from longhall.doors.kafka.wire.messages import (
    acls,
    client_quotas,
    cluster,
    commits,
    configs,
    consumer_groups,
    data,
    group_admin,
    groups,
    offsets,
    quorum,
    reassignments,
    sasl,
    scram_users,
    share_groups,
    share_offsets,
    share_records,
    storage,
    topics,
    transaction_admin,
    transactions,
    versions,
)
from longhall.doors.kafka.wire.schema import Message, decode, encode


class Api(NamedTuple):
    """One row: an API, the versions from first to last, and the classes of its messages."""

    key: int
    name: str
    version_min: int
    version_max: int
    request: type[Message]
    response: type[Message]

    def has(self, version: int) -> bool:
        return self.version_min <= version <= self.version_max


def _api(key: int, version_min: int, version_max: int, request: type[Message], response: type[Message]) -> Api:
    name = request.__name__.removesuffix("Request")
    return Api(key, name, version_min, version_max, request, response)


_ROWS: Final = (
    _api(0, 0, 13, data.ProduceRequest, data.ProduceResponse),
    _api(1, 4, 18, data.FetchRequest, data.FetchResponse),
    _api(2, 1, 11, offsets.ListOffsetsRequest, offsets.ListOffsetsResponse),
    _api(3, 0, 13, cluster.MetadataRequest, cluster.MetadataResponse),
    _api(8, 2, 10, commits.OffsetCommitRequest, commits.OffsetCommitResponse),
    _api(9, 1, 10, commits.OffsetFetchRequest, commits.OffsetFetchResponse),
    _api(10, 0, 6, cluster.FindCoordinatorRequest, cluster.FindCoordinatorResponse),
    _api(11, 0, 9, groups.JoinGroupRequest, groups.JoinGroupResponse),
    _api(12, 0, 4, groups.HeartbeatRequest, groups.HeartbeatResponse),
    _api(13, 0, 5, groups.LeaveGroupRequest, groups.LeaveGroupResponse),
    _api(14, 0, 5, groups.SyncGroupRequest, groups.SyncGroupResponse),
    _api(15, 0, 6, group_admin.DescribeGroupsRequest, group_admin.DescribeGroupsResponse),
    _api(16, 0, 5, group_admin.ListGroupsRequest, group_admin.ListGroupsResponse),
    _api(17, 0, 1, sasl.SaslHandshakeRequest, sasl.SaslHandshakeResponse),
    _api(18, 0, 4, versions.ApiVersionsRequest, versions.ApiVersionsResponse),
    _api(19, 2, 7, topics.CreateTopicsRequest, topics.CreateTopicsResponse),
    _api(20, 1, 6, topics.DeleteTopicsRequest, topics.DeleteTopicsResponse),
    _api(21, 0, 2, offsets.DeleteRecordsRequest, offsets.DeleteRecordsResponse),
    _api(22, 0, 5, transactions.InitProducerIdRequest, transactions.InitProducerIdResponse),
    _api(23, 2, 4, offsets.OffsetForLeaderEpochRequest, offsets.OffsetForLeaderEpochResponse),
    _api(24, 0, 5, transactions.AddPartitionsToTxnRequest, transactions.AddPartitionsToTxnResponse),
    _api(25, 0, 4, transactions.AddOffsetsToTxnRequest, transactions.AddOffsetsToTxnResponse),
    _api(26, 0, 5, transactions.EndTxnRequest, transactions.EndTxnResponse),
    _api(27, 1, 2, transactions.WriteTxnMarkersRequest, transactions.WriteTxnMarkersResponse),
    _api(28, 0, 5, transactions.TxnOffsetCommitRequest, transactions.TxnOffsetCommitResponse),
    _api(29, 1, 3, acls.DescribeAclsRequest, acls.DescribeAclsResponse),
    _api(30, 1, 3, acls.CreateAclsRequest, acls.CreateAclsResponse),
    _api(31, 1, 3, acls.DeleteAclsRequest, acls.DeleteAclsResponse),
    _api(32, 1, 4, configs.DescribeConfigsRequest, configs.DescribeConfigsResponse),
    _api(33, 0, 2, configs.AlterConfigsRequest, configs.AlterConfigsResponse),
    _api(34, 1, 2, storage.AlterReplicaLogDirsRequest, storage.AlterReplicaLogDirsResponse),
    _api(35, 1, 5, storage.DescribeLogDirsRequest, storage.DescribeLogDirsResponse),
    _api(36, 0, 2, sasl.SaslAuthenticateRequest, sasl.SaslAuthenticateResponse),
    _api(37, 0, 3, topics.CreatePartitionsRequest, topics.CreatePartitionsResponse),
    _api(42, 0, 2, group_admin.DeleteGroupsRequest, group_admin.DeleteGroupsResponse),
    _api(43, 0, 2, topics.ElectLeadersRequest, topics.ElectLeadersResponse),
    _api(44, 0, 1, configs.IncrementalAlterConfigsRequest, configs.IncrementalAlterConfigsResponse),
    _api(
        45,
        0,
        1,
        reassignments.AlterPartitionReassignmentsRequest,
        reassignments.AlterPartitionReassignmentsResponse,
    ),
    _api(46, 0, 0, reassignments.ListPartitionReassignmentsRequest, reassignments.ListPartitionReassignmentsResponse),
    _api(47, 0, 0, commits.OffsetDeleteRequest, commits.OffsetDeleteResponse),
    _api(48, 0, 1, client_quotas.DescribeClientQuotasRequest, client_quotas.DescribeClientQuotasResponse),
    _api(49, 0, 1, client_quotas.AlterClientQuotasRequest, client_quotas.AlterClientQuotasResponse),
    _api(50, 0, 0, scram_users.DescribeUserScramCredentialsRequest, scram_users.DescribeUserScramCredentialsResponse),
    _api(51, 0, 0, scram_users.AlterUserScramCredentialsRequest, scram_users.AlterUserScramCredentialsResponse),
    _api(55, 0, 2, quorum.DescribeQuorumRequest, quorum.DescribeQuorumResponse),
    _api(60, 0, 2, cluster.DescribeClusterRequest, cluster.DescribeClusterResponse),
    _api(61, 0, 0, transaction_admin.DescribeProducersRequest, transaction_admin.DescribeProducersResponse),
    _api(65, 0, 0, transaction_admin.DescribeTransactionsRequest, transaction_admin.DescribeTransactionsResponse),
    _api(66, 0, 2, transaction_admin.ListTransactionsRequest, transaction_admin.ListTransactionsResponse),
    _api(68, 0, 1, consumer_groups.ConsumerGroupHeartbeatRequest, consumer_groups.ConsumerGroupHeartbeatResponse),
    _api(69, 0, 1, consumer_groups.ConsumerGroupDescribeRequest, consumer_groups.ConsumerGroupDescribeResponse),
    _api(74, 0, 1, configs.ListConfigResourcesRequest, configs.ListConfigResourcesResponse),
    _api(75, 0, 0, cluster.DescribeTopicPartitionsRequest, cluster.DescribeTopicPartitionsResponse),
    _api(76, 1, 1, share_groups.ShareGroupHeartbeatRequest, share_groups.ShareGroupHeartbeatResponse),
    _api(77, 1, 1, share_groups.ShareGroupDescribeRequest, share_groups.ShareGroupDescribeResponse),
    _api(78, 1, 2, share_records.ShareFetchRequest, share_records.ShareFetchResponse),
    _api(79, 1, 2, share_records.ShareAcknowledgeRequest, share_records.ShareAcknowledgeResponse),
    _api(90, 0, 1, share_offsets.DescribeShareGroupOffsetsRequest, share_offsets.DescribeShareGroupOffsetsResponse),
    _api(91, 0, 0, share_offsets.AlterShareGroupOffsetsRequest, share_offsets.AlterShareGroupOffsetsResponse),
    _api(92, 0, 0, share_offsets.DeleteShareGroupOffsetsRequest, share_offsets.DeleteShareGroupOffsetsResponse),
)

API: Final[dict[int, Api]] = {row.key: row for row in _ROWS}
API_OF_REQUEST: Final[dict[type[Message], Api]] = {row.request: row for row in _ROWS}


def decode_request(api_key: int, version: int, frame: bytes, at: int) -> Message:
    """The body of a request, of the class that the table names. What the table does not have is a WireError too."""
    return decode(_row(api_key, version).request, version, frame, at)[0]


def encode_response(correlation_id: int, api_key: int, version: int, message: Message) -> bytes:
    """The complete frame of a response."""
    return frame_response(api_key, version, correlation_id, encode(message, version))


def encode_request(correlation_id: int, client_id: str | None, version: int, message: Message) -> bytes:
    """The complete frame of a request."""
    api = API_OF_REQUEST[type(message)]
    return frame_request(api.key, version, correlation_id, client_id, encode(message, version))


def decode_response(api_key: int, version: int, frame: bytes) -> tuple[int, Message]:
    """The correlation id and the message of a response without its size."""
    row = _row(api_key, version)
    correlation_id, at = decode_response_header(frame, api_key, version)
    return correlation_id, decode(row.response, version, frame, at)[0]


def _row(api_key: int, version: int) -> Api:
    row = API.get(api_key)
    if row is None or not row.has(version):
        raise WireError(f"There is no codec for version {version} of API {api_key}.")
    return row
