"""The table of Kafka's APIs: which permission each needs, for the whole request and for each of its rows.

    whole   one missing permission refuses the request: every row gets the error, or the response does
    rows    each row (a topic, a group, a resource) is permitted or refused by itself; the handler sees the permitted
            ones, and the refused ones are added to its response with the error
    shown   the response has only what the client may describe
    within  the handler checks by itself, because the rows are not in the request (sessions) or not of one kind

Errors are those of Kafka: 29 topics, 30 groups, 31 the cluster, 53 transactional ids. An API without a row is refused,
and a test fails. `authorization` carries the table out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from longhall.directory.access_rules import CLUSTER_NAME, AccessAction, Kind
from longhall.doors.kafka.wire.error_codes import ErrorCode

ERROR_OF_KIND: Final = {
    Kind.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Kind.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Kind.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Kind.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Whole(NamedTuple):
    """A need of a whole request: one of these actions on the resource that `name` finds; none if that is None."""

    actions: tuple[AccessAction, ...]
    kind: Kind
    name: Callable[[Any], str | None]


class RowNeeds(NamedTuple):
    """A need of each row of `field`; the refused ones go to `response_field`. `or_cluster`: the same action on the
    cluster is enough.
    """

    field: str
    response_field: str
    action: AccessAction
    kind: Kind = Kind.TOPIC
    or_cluster: bool = False


class Shown(NamedTuple):
    """The rows of a response that the client sees only if it may describe what `name` says. With `unless_cluster` those
    who may describe the cluster see all.
    """

    field: str
    kind: Kind
    name: str
    unless_cluster: bool = False


class ApiPermission(NamedTuple):
    """One row of the table."""

    whole: tuple[Whole, ...] = ()
    rows: tuple[RowNeeds, ...] = ()
    shown: Shown | None = None
    within: str = ""  # What the handler checks, in words.
    pairs: tuple[tuple[AccessAction, Kind], ...] = ()  # What that needs, for the documentation.
    is_open: bool = False  # Everybody may.


def _cluster(*actions: AccessAction) -> Whole:
    return Whole(actions, Kind.CLUSTER, lambda request: CLUSTER_NAME)


def _group(action: AccessAction) -> Whole:
    return Whole((action,), Kind.GROUP, lambda request: request.group_id)


def _transactional_id(request: Any) -> str | None:
    return request.transactional_id or None


_WRITE_TRANSACTION: Final = Whole((AccessAction.WRITE,), Kind.TRANSACTIONAL_ID, _transactional_id)
_OPEN: Final = ApiPermission(is_open=True)


def _topics(action: AccessAction, field: str = "topics", response_field: str = "topics") -> RowNeeds:
    return RowNeeds(field, response_field, action)


_CONFIGS: Final = "describe-configs or alter-configs on the topic, the group, or the cluster for brokers"

API_PERMISSIONS: Final[dict[str, ApiPermission]] = {
    "Produce": ApiPermission(
        within="write on each topic, and on the transactional id",
        pairs=((AccessAction.WRITE, Kind.TOPIC),),
    ),
    "Fetch": ApiPermission(within="read on each topic", pairs=((AccessAction.READ, Kind.TOPIC),)),
    "ListOffsets": ApiPermission(rows=(_topics(AccessAction.DESCRIBE),)),
    "Metadata": ApiPermission(
        within="describe on each topic, create for one that is made on first use; all topics: those that one may see",
        pairs=((AccessAction.DESCRIBE, Kind.TOPIC),),
    ),
    "OffsetCommit": ApiPermission((_group(AccessAction.READ),), (_topics(AccessAction.READ),)),
    "OffsetFetch": ApiPermission(
        within="describe on the group and on each topic; all topics: those that one may see",
        pairs=((AccessAction.DESCRIBE, Kind.GROUP), (AccessAction.DESCRIBE, Kind.TOPIC)),
    ),
    "FindCoordinator": ApiPermission(
        within="describe on the group or the transactional id", pairs=((AccessAction.DESCRIBE, Kind.GROUP),)
    ),
    "JoinGroup": ApiPermission((_group(AccessAction.READ),)),
    "Heartbeat": ApiPermission((_group(AccessAction.READ),)),
    "LeaveGroup": ApiPermission((_group(AccessAction.READ),)),
    "SyncGroup": ApiPermission((_group(AccessAction.READ),)),
    "DescribeGroups": ApiPermission(rows=(RowNeeds("groups", "groups", AccessAction.DESCRIBE, Kind.GROUP),)),
    "ListGroups": ApiPermission(shown=Shown("groups", Kind.GROUP, "group_id", unless_cluster=True)),
    "SaslHandshake": _OPEN,
    "ApiVersions": _OPEN,
    "CreateTopics": ApiPermission(rows=(RowNeeds("topics", "topics", AccessAction.CREATE, or_cluster=True),)),
    "DeleteTopics": ApiPermission(
        rows=(
            _topics(AccessAction.DELETE, "topics", "responses"),
            _topics(AccessAction.DELETE, "topic_names", "responses"),
        )
    ),
    "DeleteRecords": ApiPermission(rows=(_topics(AccessAction.DELETE),)),
    "InitProducerId": ApiPermission(
        (_WRITE_TRANSACTION,),
        within="without a transactional id idempotent-write on the cluster, or write on some topic",
    ),
    "OffsetForLeaderEpoch": ApiPermission(rows=(_topics(AccessAction.DESCRIBE),)),
    "AddPartitionsToTxn": ApiPermission(
        within="write on the transactional id and on each topic",
        pairs=((AccessAction.WRITE, Kind.TRANSACTIONAL_ID), (AccessAction.WRITE, Kind.TOPIC)),
    ),
    "AddOffsetsToTxn": ApiPermission((_WRITE_TRANSACTION, _group(AccessAction.READ))),
    "EndTxn": ApiPermission((_WRITE_TRANSACTION,)),
    "WriteTxnMarkers": ApiPermission((_cluster(AccessAction.CLUSTER_ACTION, AccessAction.ALTER),)),
    "TxnOffsetCommit": ApiPermission((_WRITE_TRANSACTION, _group(AccessAction.READ)), (_topics(AccessAction.READ),)),
    "DescribeAcls": ApiPermission((_cluster(AccessAction.DESCRIBE),)),
    "CreateAcls": ApiPermission((_cluster(AccessAction.ALTER),)),
    "DeleteAcls": ApiPermission((_cluster(AccessAction.ALTER),)),
    "DescribeConfigs": ApiPermission(within=_CONFIGS, pairs=((AccessAction.DESCRIBE_CONFIGS, Kind.TOPIC),)),
    "AlterConfigs": ApiPermission(within=_CONFIGS, pairs=((AccessAction.ALTER_CONFIGS, Kind.TOPIC),)),
    "AlterReplicaLogDirs": ApiPermission((_cluster(AccessAction.ALTER, AccessAction.CLUSTER_ACTION),)),
    "DescribeLogDirs": ApiPermission((_cluster(AccessAction.DESCRIBE),)),
    "SaslAuthenticate": _OPEN,
    "CreatePartitions": ApiPermission(rows=(_topics(AccessAction.ALTER, response_field="results"),)),
    "DeleteGroups": ApiPermission(rows=(RowNeeds("groups_names", "results", AccessAction.DELETE, Kind.GROUP),)),
    "ElectLeaders": ApiPermission((_cluster(AccessAction.ALTER, AccessAction.CLUSTER_ACTION),)),
    "IncrementalAlterConfigs": ApiPermission(within=_CONFIGS, pairs=((AccessAction.ALTER_CONFIGS, Kind.TOPIC),)),
    "AlterPartitionReassignments": ApiPermission((_cluster(AccessAction.ALTER),)),
    "ListPartitionReassignments": ApiPermission((_cluster(AccessAction.DESCRIBE),)),
    "OffsetDelete": ApiPermission((_group(AccessAction.DELETE),), (_topics(AccessAction.READ),)),
    "DescribeClientQuotas": ApiPermission((_cluster(AccessAction.DESCRIBE_CONFIGS),)),
    "AlterClientQuotas": ApiPermission((_cluster(AccessAction.ALTER_CONFIGS),)),
    "DescribeUserScramCredentials": ApiPermission((_cluster(AccessAction.DESCRIBE),)),
    "AlterUserScramCredentials": ApiPermission((_cluster(AccessAction.ALTER),)),
    "DescribeQuorum": ApiPermission((_cluster(AccessAction.DESCRIBE),)),
    "DescribeCluster": _OPEN,
    "DescribeProducers": ApiPermission(rows=(_topics(AccessAction.READ),)),
    "DescribeTransactions": ApiPermission(
        rows=(RowNeeds("transactional_ids", "transaction_states", AccessAction.DESCRIBE, Kind.TRANSACTIONAL_ID),),
    ),
    "ListTransactions": ApiPermission(
        shown=Shown("transaction_states", Kind.TRANSACTIONAL_ID, "transactional_id"),
    ),
    "ConsumerGroupHeartbeat": ApiPermission(
        (_group(AccessAction.READ),),
        within="describe on the topics of its subscription",
        pairs=((AccessAction.READ, Kind.GROUP),),
    ),
    "ConsumerGroupDescribe": ApiPermission(rows=(RowNeeds("group_ids", "groups", AccessAction.DESCRIBE, Kind.GROUP),)),
    "ListConfigResources": ApiPermission((_cluster(AccessAction.DESCRIBE_CONFIGS),)),
    "DescribeTopicPartitions": ApiPermission(
        within="describe on each topic; all topics: those that one may see",
        pairs=((AccessAction.DESCRIBE, Kind.TOPIC),),
    ),
    "ShareGroupHeartbeat": ApiPermission(
        (_group(AccessAction.READ),),
        within="describe on the topics of its subscription",
        pairs=((AccessAction.READ, Kind.GROUP),),
    ),
    "ShareGroupDescribe": ApiPermission(rows=(RowNeeds("group_ids", "groups", AccessAction.DESCRIBE, Kind.GROUP),)),
    "ShareFetch": ApiPermission(
        (_group(AccessAction.READ),),
        within="read on each topic of the session",
        pairs=((AccessAction.READ, Kind.TOPIC),),
    ),
    "ShareAcknowledge": ApiPermission(
        (_group(AccessAction.READ),), (_topics(AccessAction.READ, response_field="responses"),)
    ),
    "DescribeShareGroupOffsets": ApiPermission(rows=(RowNeeds("groups", "groups", AccessAction.DESCRIBE, Kind.GROUP),)),
    "AlterShareGroupOffsets": ApiPermission(
        (_group(AccessAction.READ),), (_topics(AccessAction.READ, response_field="responses"),)
    ),
    "DeleteShareGroupOffsets": ApiPermission(
        (_group(AccessAction.DELETE),), (_topics(AccessAction.READ, response_field="responses"),)
    ),
}


def pairs_of(row: ApiPermission) -> list[tuple[tuple[AccessAction, Kind], ...]]:
    """The needs of an API without names: of each, its alternatives."""
    found = [tuple((action, whole.kind) for action in whole.actions) for whole in row.whole]
    found += [
        ((rows.action, rows.kind), (rows.action, Kind.CLUSTER)) if rows.or_cluster else ((rows.action, rows.kind),)
        for rows in row.rows
    ]
    found += [(pair,) for pair in row.pairs]
    return list(dict.fromkeys(found))
