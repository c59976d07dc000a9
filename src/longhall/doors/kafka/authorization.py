"""Permission at the Kafka door: a request is checked in the process that answers it, part by part.

A request that a follower forwards is checked by the leader, with the caller that the follower has authenticated; so it
is checked once, and by the process whose answer counts. Without authentication `carry_out` costs one comparison.

This module does not know the rules (`front.guard`), nor what an API needs (`permissions`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from longhall.cluster.rpc.operation import Caller
from longhall.directory.access_rules import CLUSTER_NAME, AccessAction, Kind
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.permissions import API_PERMISSIONS, ERROR_OF_KIND, ApiPermission, RowNeeds, Shown, pairs_of
from longhall.doors.kafka.refusals import refuse
from longhall.doors.kafka.wire.apis import Api
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.cluster import CoordinatorType
from longhall.doors.kafka.wire.messages.configs import ConfigResourceType
from longhall.doors.kafka.wire.messages.transactions import (
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
    AddPartitionsToTxnResponseTransactionResult,
)
from longhall.doors.kafka.wire.schema import NO_ID, Message
from longhall.front.audit import ADMINISTRATIVE, AuditTrail
from longhall.front.guard import AccessGuard
from longhall.front.identity import ADMINISTRATOR_KIND

Handler = Callable[[Door, Any, Any], Any]
Outcome = Message | Coroutine[Any, Any, Message]
Refused = list[tuple[str, Message]]  # RowNeeds of the response, by their field.

SAID: Final[dict[int, str]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}

# The APIs whose first need is an administrative action.
AUDITED_APIS: Final = frozenset(
    name
    for name, row in API_PERMISSIONS.items()
    if any(alternatives[0][0] in ADMINISTRATIVE for alternatives in pairs_of(row))
)

_KEYS: Final = ("name", "topic", "topic_name", "topic_id", "group_id", "transactional_id", "partition_index")
_NUMBERS: Final = ("partition_index", "partition", "index", "partition_id")
_ERRORS: Final = ("error_code", "partition_error_code")
_NAMES: Final = ("name", "topic", "topic_name", "group_id", "transactional_id")


def carry_out(door: Door, api: Api, handler: Handler, request: Message, call: Any) -> Outcome:
    """The answer to a request, now or as a coroutine: that of its handler, as far as the client may have it."""
    access = door.access
    outcome: Outcome
    if access is None or not access.active or call.caller.kind == ADMINISTRATOR_KIND:
        if access is not None and access.audit is not None:
            note_permitted(door, access.audit, api, request, call.caller)
        outcome = handler(door, request, call)
        return outcome
    row = API_PERMISSIONS.get(api.name)
    if row is None:
        return _refuse_whole(api, request, call.header.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if row.is_open:
        outcome = handler(door, request, call)
        return outcome
    error = _whole_error(access, call.caller, row, request) or _special_error(access, call.caller, api, request)
    if not error and api.name == "AddPartitionsToTxn" and request_of_one(request):
        refusal = _refuse_partitions(access, call.caller, request)
        if refusal is not None:
            return refusal
    if error:
        return _refuse_whole(api, request, call.header.version, error)
    refused: Refused = []
    for rows in row.rows:
        refused += _take_rows(door, access, call.caller, api, request, rows)
    split = _SPLIT.get(api.name)
    if split is not None:
        refused += split(door, access, call.caller, api, request)
    if request_is_empty(row, request, refused) and split is None:
        return _with(api.response(), refused)
    if access.audit is not None:
        note_permitted(door, access.audit, api, request, call.caller)
    outcome = handler(door, request, call)
    if not refused and row.shown is None:
        return outcome
    if isinstance(outcome, Message):
        return _finished(access, call.caller, row, outcome, refused)
    return _finish(access, call.caller, row, outcome, refused)


def request_is_empty(row: ApiPermission, request: Message, refused: Refused) -> bool:
    """True if all rows of a request were refused: an empty list may mean all topics to the handler."""
    return bool(refused) and not any(getattr(request, rows.field) for rows in row.rows)


def note_permitted(door: Door, audit: AuditTrail, api: Api, request: Message, caller: Caller) -> None:
    """Record an administrative request: each resource that it names, or the cluster."""
    row = API_PERMISSIONS.get(api.name)
    if row is None or api.name not in AUDITED_APIS:
        return
    named = [(rows.kind, name_of(door, one)) for rows in row.rows for one in getattr(request, rows.field) or ()]
    if api.name in ("AlterConfigs", "IncrementalAlterConfigs"):
        for resource in request.resources:  # type: ignore[attr-defined]
            named.append((_KIND_OF_RESOURCE.get(resource.resource_type, Kind.CLUSTER), resource.resource_name))
    for kind, name in named or [(Kind.CLUSTER, CLUSTER_NAME)]:
        audit.note_operation(caller, api.name, kind, name)


async def _finish(
    access: AccessGuard, caller: Caller, row: ApiPermission, outcome: Coroutine[Any, Any, Message], refused: Refused
) -> Message:
    return _finished(access, caller, row, await outcome, refused)


def _finished(access: AccessGuard, caller: Caller, row: ApiPermission, response: Message, refused: Refused) -> Message:
    if row.shown is not None:
        _hide(access, caller, row.shown, response)
    return _with(response, refused)


def _with(response: Message, refused: Refused) -> Message:
    for field, one in refused:
        getattr(response, field).append(one)
    return response


def _hide(access: AccessGuard, caller: Caller, shown: Shown, response: Message) -> None:
    if shown.unless_cluster and access.would_allow(caller, AccessAction.DESCRIBE, Kind.CLUSTER, CLUSTER_NAME):
        return
    rows = getattr(response, shown.field)
    seen = [
        row for row in rows if access.would_allow(caller, AccessAction.DESCRIBE, shown.kind, getattr(row, shown.name))
    ]
    setattr(response, shown.field, seen)


# The whole request


def _whole_error(access: AccessGuard, caller: Caller, row: ApiPermission, request: Message) -> int:
    for need in row.whole:
        name = need.name(request)
        if name is None:
            continue
        seen = any(access.would_allow(caller, action, need.kind, name) for action in need.actions[1:])
        if not seen and not access.allows(caller, need.actions[0], need.kind, name):
            return ERROR_OF_KIND[need.kind]
    return 0


def _special_error(access: AccessGuard, caller: Caller, api: Api, request: Any) -> int:
    """The needs of whole requests that no row of the table can say."""
    if api.name == "InitProducerId" and not request.transactional_id:
        may = access.would_allow(caller, AccessAction.IDEMPOTENT_WRITE, Kind.CLUSTER, CLUSTER_NAME)
        may = may or access.allows_some(caller, AccessAction.WRITE, Kind.TOPIC)
        return 0 if may else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if api.name == "FindCoordinator" and request.key:  # Of a version that asks for one.
        kind = Kind.TRANSACTIONAL_ID if request.key_type == CoordinatorType.TRANSACTION else Kind.GROUP
        return 0 if access.allows(caller, AccessAction.DESCRIBE, kind, request.key) else ERROR_OF_KIND[kind]
    if api.name == "OffsetFetch" and not request.groups:
        may = access.allows(caller, AccessAction.DESCRIBE, Kind.GROUP, request.group_id)
        return 0 if may else ErrorCode.GROUP_AUTHORIZATION_FAILED
    if api.name in ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat"):
        for name in request.subscribed_topic_names or ():
            if not access.allows(caller, AccessAction.DESCRIBE, Kind.TOPIC, name):
                return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return 0


def _refuse_whole(api: Api, request: Any, version: int, error: int) -> Message:
    special = _REFUSED.get(api.name)
    if special is not None:
        return special(api, request, error)
    if "error_code" in api.response.TABLE and api.name not in _BY_ROWS:
        if "member_id" in api.response.TABLE:
            return refuse(api, request, version, error)
        said = {"error_message": SAID[error]} if "error_message" in api.response.TABLE else {}
        return api.response(error_code=error, **said)
    return refuse(api, request, version, error)


_BY_ROWS: Final = frozenset({"OffsetFetch", "JoinGroup"})


def _refuse_replica_dirs(api: Api, request: Any, error: int) -> Message:
    response = api.response()
    (row,) = (spec.of for name, spec in api.response.TABLE.items() if name == "results")
    topics = [topic for one in request.dirs for topic in one.topics]
    return _with(response, [("results", refused_row(row, topic, error)) for topic in topics])


def _refuse_users(api: Api, request: Any, error: int) -> Message:
    """The error of every user that an administrator of SCRAM wants to change."""
    row = api.response.TABLE["results"].of
    names = dict.fromkeys(one.name for one in (*request.deletions, *request.upsertions))
    return api.response(results=[row(user=name, error_code=error) for name in names])


def _refuse_quotas(api: Api, request: Any, error: int) -> Message:
    """The error of every entity whose limits are to be changed."""
    row = api.response.TABLE["entries"].of
    part = row.TABLE["entity"].of
    entities = [
        [part(entity_type=one.entity_type, entity_name=one.entity_name) for one in entry.entity]
        for entry in request.entries
    ]
    return api.response(entries=[row(error_code=error, error_message=SAID[error], entity=one) for one in entities])


def _refuse_rules(api: Api, request: Any, error: int) -> Message:
    """The error of every ACL that is to be created or deleted."""
    field = "results" if api.name == "CreateAcls" else "filter_results"
    asked = request.creations if api.name == "CreateAcls" else request.filters
    row = api.response.TABLE[field].of
    return api.response(**{field: [row(error_code=error, error_message=SAID[error]) for _ in asked]})


def _refuse_coordinator(api: Api, request: Any, error: int) -> Message:
    return api.response(error_code=error, node_id=-1, port=-1)


_REFUSED: Final[dict[str, Callable[[Api, Any, int], Message]]] = {
    "AlterReplicaLogDirs": _refuse_replica_dirs,
    "AlterClientQuotas": _refuse_quotas,
    "AlterUserScramCredentials": _refuse_users,
    "FindCoordinator": _refuse_coordinator,
    "CreateAcls": _refuse_rules,
    "DeleteAcls": _refuse_rules,
}


# RowNeeds


def _take_rows(door: Door, access: AccessGuard, caller: Caller, api: Api, request: Message, rows: RowNeeds) -> Refused:
    """Leave the permitted rows in a request; the others become rows of the response."""
    asked = getattr(request, rows.field)
    if not asked:
        return []
    kept, refused = [], []
    row = api.response.TABLE[rows.response_field].of
    for one in asked:
        name = name_of(door, one)
        may = rows.or_cluster and access.would_allow(caller, rows.action, Kind.CLUSTER, CLUSTER_NAME)
        if may or access.allows(caller, rows.action, rows.kind, name):
            kept.append(one)
        else:
            refused.append((rows.response_field, refused_row(row, one, ERROR_OF_KIND[rows.kind])))
    setattr(request, rows.field, kept)
    return refused


def name_of(door: Door, row: Any) -> str:
    """The name in a row of a request: the row itself, a field, or the topic of an id."""
    if isinstance(row, str):
        return row
    for field in _NAMES:
        found = getattr(row, field, None)
        if found:
            return str(found)
    topic_id = getattr(row, "topic_id", NO_ID)
    return door.hall.topic_name(topic_id) if topic_id != NO_ID else ""


def refused_row(row: type[Message], source: Any, error: int) -> Message:
    """The row of a response that says of a row of the request, and of all its partitions, that it failed."""
    values: dict[str, Any] = {}
    if isinstance(source, str):
        values[next(key for key in row.TABLE if key in _KEYS)] = source
    elif isinstance(source, int):
        values[next(key for key in row.TABLE if key in _NUMBERS)] = source
    else:
        values = {
            key: getattr(source, key)
            for key in row.TABLE
            if key in (*_KEYS, *_NUMBERS, "resource_type", "resource_name") and hasattr(source, key)
        }
    field = next((name for name in _ERRORS if name in row.TABLE), "")
    if field:
        values[field] = error
        return row(**values)
    inner = next(name for name, spec in row.TABLE.items() if spec.kind == "array" and isinstance(spec.of, type))
    parts: list[Any] = next(
        (getattr(source, name) for name in ("partitions", "partition_indexes") if hasattr(source, name)), []
    )
    values[inner] = [refused_row(row.TABLE[inner].of, part, error) for part in parts]
    return row(**values)


# Requests that are not of one shape


def _split_configs(door: Door, access: AccessGuard, caller: Caller, api: Api, request: Any) -> Refused:
    field = "results" if api.name == "DescribeConfigs" else "responses"
    action = AccessAction.DESCRIBE_CONFIGS if api.name == "DescribeConfigs" else AccessAction.ALTER_CONFIGS
    row = api.response.TABLE[field].of
    kept, refused = [], []
    for one in request.resources:
        kind = _KIND_OF_RESOURCE.get(one.resource_type, Kind.CLUSTER)
        name = CLUSTER_NAME if kind is Kind.CLUSTER else one.resource_name
        if access.allows(caller, action, kind, name):
            kept.append(one)
        else:
            made = refused_row(row, one, ERROR_OF_KIND[kind])
            made.error_message = SAID[ERROR_OF_KIND[kind]]  # type: ignore[attr-defined]
            refused.append((field, made))
    request.resources = kept
    return refused


_KIND_OF_RESOURCE: Final = {ConfigResourceType.TOPIC: Kind.TOPIC, ConfigResourceType.GROUP: Kind.GROUP}


def _split_coordinators(door: Door, access: AccessGuard, caller: Caller, api: Api, request: Any) -> Refused:
    kind = Kind.TRANSACTIONAL_ID if request.key_type == CoordinatorType.TRANSACTION else Kind.GROUP
    error = ERROR_OF_KIND[kind]
    row = api.response.TABLE["coordinators"].of
    kept, refused = [], []
    for key in request.coordinator_keys:
        # Share groups are asked for by `group:topic id:partition`.
        if access.allows(
            caller,
            AccessAction.DESCRIBE,
            kind,
            key if request.key_type <= CoordinatorType.TRANSACTION else _group_of(key),
        ):
            kept.append(key)
        else:
            refused.append(("coordinators", row(key=key, error_code=error, node_id=-1, port=-1)))
    request.coordinator_keys = kept
    return refused


def _group_of(key: str) -> str:
    return key.rsplit(":", 2)[0]


def _split_committed(door: Door, access: AccessGuard, caller: Caller, api: Api, request: Any) -> Refused:
    """OffsetFetch of several groups."""
    row = api.response.TABLE["groups"].of
    kept, refused = [], []
    for group in request.groups:
        if access.allows(caller, AccessAction.DESCRIBE, Kind.GROUP, group.group_id):
            kept.append(group)
        else:
            refused.append(("groups", row(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    request.groups = kept
    return refused


def request_of_one(request: Any) -> bool:
    """True for AddPartitionsToTxn of a version that has one transaction."""
    return not request.transactions


def _refuse_partitions(access: AccessGuard, caller: Caller, request: Any) -> Message | None:
    """The refusal of a transaction of which one part is refused; None if it is permitted."""
    topics = request.v3_and_below_topics
    rows = _transaction_rows(access, caller, request.v3_and_below_transactional_id, topics)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows) if rows is not None else None


def _split_transactions(door: Door, access: AccessGuard, caller: Caller, api: Api, request: Any) -> Refused:
    kept: list[Any] = []
    refused: Refused = []
    for one in request.transactions:
        rows = _transaction_rows(access, caller, one.transactional_id, one.topics)
        if rows is None:
            kept.append(one)
            continue
        result = AddPartitionsToTxnResponseTransactionResult(transactional_id=one.transactional_id, topic_results=rows)
        refused.append(("results_by_transaction", result))
    request.transactions = kept
    return refused


def _transaction_rows(
    access: AccessGuard, caller: Caller, transactional_id: str, topics: list[AddPartitionsToTxnRequestTopic]
) -> list[AddPartitionsToTxnResponseTopic] | None:
    """The rows of a transaction that is refused: all or none of its partitions are added."""
    if not access.allows(caller, AccessAction.WRITE, Kind.TRANSACTIONAL_ID, transactional_id):
        errors = {topic.name: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED for topic in topics}
    else:
        may = {topic.name: access.allows(caller, AccessAction.WRITE, Kind.TOPIC, topic.name) for topic in topics}
        if all(may.values()):
            return None
        errors = {
            name: ErrorCode.OPERATION_NOT_ATTEMPTED if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            for name, allowed in may.items()
        }
    return [
        AddPartitionsToTxnResponseTopic(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnResponsePartition(partition_index=number, partition_error_code=errors[topic.name])
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]


_SPLIT: Final[dict[str, Callable[[Door, AccessGuard, Caller, Api, Any], Refused]]] = {
    "DescribeConfigs": _split_configs,
    "AlterConfigs": _split_configs,
    "IncrementalAlterConfigs": _split_configs,
    "FindCoordinator": _split_coordinators,
    "OffsetFetch": _split_committed,
    "AddPartitionsToTxn": _split_transactions,
}


def topic_error(door: Door, caller: Caller, action: AccessAction, name: str) -> int:
    """0, or the error of a topic with which the client may not do this."""
    access = door.access
    if access is None or access.allows(caller, action, Kind.TOPIC, name):
        return 0
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED


def may_describe(door: Door, caller: Caller, topic: str) -> bool:
    """True if a list may show a topic to this client."""
    access = door.access
    return access is None or access.would_allow(caller, AccessAction.DESCRIBE, Kind.TOPIC, topic)
