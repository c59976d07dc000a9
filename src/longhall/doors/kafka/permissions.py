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

from longhall.directory.access_rules import CLUSTER_NAME, Action, Kind

TOPIC_REFUSED: Final = 29
GROUP_REFUSED: Final = 30
CLUSTER_REFUSED: Final = 31
TRANSACTIONAL_ID_REFUSED: Final = 53
ERROR_OF_KIND: Final = {
    Kind.TOPIC: TOPIC_REFUSED,
    Kind.GROUP: GROUP_REFUSED,
    Kind.CLUSTER: CLUSTER_REFUSED,
    Kind.TRANSACTIONAL_ID: TRANSACTIONAL_ID_REFUSED,
}


class Whole(NamedTuple):
    """A need of a whole request: one of these actions on the resource that `name` finds; none if that is None."""

    actions: tuple[Action, ...]
    kind: Kind
    name: Callable[[Any], str | None]


class Rows(NamedTuple):
    """A need of each row of `field`; the refused ones go to `response_field`. `or_cluster`: the same action on the
    cluster is enough.
    """

    field: str
    response_field: str
    action: Action
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
    rows: tuple[Rows, ...] = ()
    shown: Shown | None = None
    within: str = ""  # What the handler checks, in words.
    pairs: tuple[tuple[Action, Kind], ...] = ()  # What that needs, for the documentation.
    is_open: bool = False  # Everybody may.


def _cluster(*actions: Action) -> Whole:
    return Whole(actions, Kind.CLUSTER, lambda request: CLUSTER_NAME)


def _group(action: Action) -> Whole:
    return Whole((action,), Kind.GROUP, lambda request: request.group_id)


def _transactional_id(request: Any) -> str | None:
    return request.transactional_id or None


_WRITE_TRANSACTION: Final = Whole((Action.WRITE,), Kind.TRANSACTIONAL_ID, _transactional_id)
_OPEN: Final = ApiPermission(is_open=True)


def _topics(action: Action, field: str = "topics", response_field: str = "topics") -> Rows:
    return Rows(field, response_field, action)


_CONFIGS: Final = "describe-configs or alter-configs on the topic, the group, or the cluster for brokers"

API_PERMISSIONS: Final[dict[str, ApiPermission]] = {
    "Produce": ApiPermission(
        within="write on each topic, and on the transactional id",
        pairs=((Action.WRITE, Kind.TOPIC),),
    ),
    "Fetch": ApiPermission(within="read on each topic", pairs=((Action.READ, Kind.TOPIC),)),
    "ListOffsets": ApiPermission(rows=(_topics(Action.DESCRIBE),)),
    "Metadata": ApiPermission(
        within="describe on each topic, create for one that is made on first use; all topics: those that one may see",
        pairs=((Action.DESCRIBE, Kind.TOPIC),),
    ),
    "OffsetCommit": ApiPermission((_group(Action.READ),), (_topics(Action.READ),)),
    "OffsetFetch": ApiPermission(
        within="describe on the group and on each topic; all topics: those that one may see",
        pairs=((Action.DESCRIBE, Kind.GROUP), (Action.DESCRIBE, Kind.TOPIC)),
    ),
    "FindCoordinator": ApiPermission(
        within="describe on the group or the transactional id", pairs=((Action.DESCRIBE, Kind.GROUP),)
    ),
    "JoinGroup": ApiPermission((_group(Action.READ),)),
    "Heartbeat": ApiPermission((_group(Action.READ),)),
    "LeaveGroup": ApiPermission((_group(Action.READ),)),
    "SyncGroup": ApiPermission((_group(Action.READ),)),
    "DescribeGroups": ApiPermission(rows=(Rows("groups", "groups", Action.DESCRIBE, Kind.GROUP),)),
    "ListGroups": ApiPermission(shown=Shown("groups", Kind.GROUP, "group_id", unless_cluster=True)),
    "SaslHandshake": _OPEN,
    "ApiVersions": _OPEN,
    "CreateTopics": ApiPermission(rows=(Rows("topics", "topics", Action.CREATE, or_cluster=True),)),
    "DeleteTopics": ApiPermission(
        rows=(_topics(Action.DELETE, "topics", "responses"), _topics(Action.DELETE, "topic_names", "responses"))
    ),
    "DeleteRecords": ApiPermission(rows=(_topics(Action.DELETE),)),
    "InitProducerId": ApiPermission(
        (_WRITE_TRANSACTION,),
        within="without a transactional id idempotent-write on the cluster, or write on some topic",
    ),
    "OffsetForLeaderEpoch": ApiPermission(rows=(_topics(Action.DESCRIBE),)),
    "AddPartitionsToTxn": ApiPermission(
        within="write on the transactional id and on each topic",
        pairs=((Action.WRITE, Kind.TRANSACTIONAL_ID), (Action.WRITE, Kind.TOPIC)),
    ),
    "AddOffsetsToTxn": ApiPermission((_WRITE_TRANSACTION, _group(Action.READ))),
    "EndTxn": ApiPermission((_WRITE_TRANSACTION,)),
    "WriteTxnMarkers": ApiPermission((_cluster(Action.CLUSTER_ACTION, Action.ALTER),)),
    "TxnOffsetCommit": ApiPermission((_WRITE_TRANSACTION, _group(Action.READ)), (_topics(Action.READ),)),
    "DescribeAcls": ApiPermission((_cluster(Action.DESCRIBE),)),
    "CreateAcls": ApiPermission((_cluster(Action.ALTER),)),
    "DeleteAcls": ApiPermission((_cluster(Action.ALTER),)),
    "DescribeConfigs": ApiPermission(within=_CONFIGS, pairs=((Action.DESCRIBE_CONFIGS, Kind.TOPIC),)),
    "AlterConfigs": ApiPermission(within=_CONFIGS, pairs=((Action.ALTER_CONFIGS, Kind.TOPIC),)),
    "AlterReplicaLogDirs": ApiPermission((_cluster(Action.ALTER, Action.CLUSTER_ACTION),)),
    "DescribeLogDirs": ApiPermission((_cluster(Action.DESCRIBE),)),
    "SaslAuthenticate": _OPEN,
    "CreatePartitions": ApiPermission(rows=(_topics(Action.ALTER, response_field="results"),)),
    "DeleteGroups": ApiPermission(rows=(Rows("groups_names", "results", Action.DELETE, Kind.GROUP),)),
    "ElectLeaders": ApiPermission((_cluster(Action.ALTER, Action.CLUSTER_ACTION),)),
    "IncrementalAlterConfigs": ApiPermission(within=_CONFIGS, pairs=((Action.ALTER_CONFIGS, Kind.TOPIC),)),
    "OffsetDelete": ApiPermission((_group(Action.DELETE),), (_topics(Action.READ),)),
    "DescribeUserScramCredentials": ApiPermission((_cluster(Action.DESCRIBE),)),
    "AlterUserScramCredentials": ApiPermission((_cluster(Action.ALTER),)),
    "DescribeQuorum": ApiPermission((_cluster(Action.DESCRIBE),)),
    "DescribeCluster": _OPEN,
    "DescribeProducers": ApiPermission(rows=(_topics(Action.READ),)),
    "DescribeTransactions": ApiPermission(
        rows=(Rows("transactional_ids", "transaction_states", Action.DESCRIBE, Kind.TRANSACTIONAL_ID),),
    ),
    "ListTransactions": ApiPermission(
        shown=Shown("transaction_states", Kind.TRANSACTIONAL_ID, "transactional_id"),
    ),
    "ConsumerGroupHeartbeat": ApiPermission(
        (_group(Action.READ),), within="describe on the topics of its subscription", pairs=((Action.READ, Kind.GROUP),)
    ),
    "ConsumerGroupDescribe": ApiPermission(rows=(Rows("group_ids", "groups", Action.DESCRIBE, Kind.GROUP),)),
    "ListConfigResources": ApiPermission((_cluster(Action.DESCRIBE_CONFIGS),)),
    "DescribeTopicPartitions": ApiPermission(
        within="describe on each topic; all topics: those that one may see", pairs=((Action.DESCRIBE, Kind.TOPIC),)
    ),
    "ShareGroupHeartbeat": ApiPermission(
        (_group(Action.READ),), within="describe on the topics of its subscription", pairs=((Action.READ, Kind.GROUP),)
    ),
    "ShareGroupDescribe": ApiPermission(rows=(Rows("group_ids", "groups", Action.DESCRIBE, Kind.GROUP),)),
    "ShareFetch": ApiPermission(
        (_group(Action.READ),), within="read on each topic of the session", pairs=((Action.READ, Kind.TOPIC),)
    ),
    "ShareAcknowledge": ApiPermission((_group(Action.READ),), (_topics(Action.READ, response_field="responses"),)),
    "DescribeShareGroupOffsets": ApiPermission(rows=(Rows("groups", "groups", Action.DESCRIBE, Kind.GROUP),)),
    "AlterShareGroupOffsets": ApiPermission(
        (_group(Action.READ),), (_topics(Action.READ, response_field="responses"),)
    ),
    "DeleteShareGroupOffsets": ApiPermission(
        (_group(Action.DELETE),), (_topics(Action.READ, response_field="responses"),)
    ),
}


def pairs_of(row: ApiPermission) -> list[tuple[tuple[Action, Kind], ...]]:
    """The needs of an API without names: of each, its alternatives."""
    found = [tuple((action, whole.kind) for action in whole.actions) for whole in row.whole]
    found += [
        ((rows.action, rows.kind), (rows.action, Kind.CLUSTER)) if rows.or_cluster else ((rows.action, rows.kind),)
        for rows in row.rows
    ]
    found += [(pair,) for pair in row.pairs]
    return list(dict.fromkeys(found))
