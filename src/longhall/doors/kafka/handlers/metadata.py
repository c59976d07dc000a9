"""Metadata: topics, their partitions and leaders. Topics are created on first use where the settings allow it."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar, cast

from longhall.cluster.rpc.operation import Caller
from longhall.directory.access_rules import CLUSTER_NAME, AccessAction, Kind
from longhall.doors.kafka import topic_operations
from longhall.doors.kafka.authorization import may_describe
from longhall.doors.kafka.authorized_operations import NOT_ASKED, operations_of
from longhall.doors.kafka.brokers import brokers_of, controller_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.placements import NO_NODE, Placement, Placements
from longhall.doors.kafka.topic_operations import TopicDescription, describe_topic
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.cluster import (
    DescribeTopicPartitionsResponsePartition,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from longhall.doors.kafka.wire.schema import NO_ID, encode_element
from longhall.errors import Code, LonghallError
from longhall.names import INTERNAL_PREFIX, is_legal_name

TOPICS_A_TURN: Final = 500

Row = TypeVar("Row", MetadataResponsePartition, DescribeTopicPartitionsResponsePartition)


async def handle(door: Door, request: MetadataRequest, call: Call) -> MetadataResponse:
    version = call.header.version
    everything = request.topics is None or (version == 0 and not request.topics)
    if everything:
        seen = [name for name in sorted(door.hall.routes) if may_describe(door, call.caller, name)]
        asked = [MetadataRequestTopic(name=name) for name in seen]
    else:
        asked = request.topics or []
    may_create = request.allow_auto_topic_creation and not everything
    operations = request.include_topic_authorized_operations
    if len(asked) <= TOPICS_A_TURN:
        topics = await _describe_all(door, asked, call, may_create, operations)
    else:
        async with door.long_responses:
            topics = await _describe_all(door, asked, call, may_create, operations)
    if everything:  # A topic that was deleted in between is the only one that is not encoded.
        topics = [topic for topic in topics if isinstance(topic, bytes)]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=host.node_id, host=host.host, port=host.port, rack=host.rack)
            for host in brokers_of(door)
        ],
        cluster_id=door.cluster_id,
        controller_id=controller_of(door),
        topics=cast("list[MetadataResponseTopic]", topics),  # The codec writes encoded topics as they are.
        cluster_authorized_operations=operations_of(door.access, call.caller, Kind.CLUSTER)
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


async def _describe_all(
    door: Door, asked: list[MetadataRequestTopic], call: Call, may_create: bool, with_operations: bool
) -> list[MetadataResponseTopic | bytes]:
    """Describe topics in turns, so that other requests are served in between."""
    topics: list[MetadataResponseTopic | bytes] = []
    version, caller, operations = call.header.version, call.caller, NOT_ASKED
    for at in range(0, len(asked), TOPICS_A_TURN):
        if at:
            await asyncio.sleep(0)
        placements: Placements | None = None
        for one in asked[at : at + TOPICS_A_TURN]:
            name = _name_of(door, one)
            if door.access is not None and door.access.active:
                refused = _refusal(door, one, name, caller, may_create)
                if refused is not None:
                    topics.append(refused)
                    continue
            if name not in door.hall.routes and may_create and one.topic_id == NO_ID:
                try:
                    usual = door.sealing.new_configuration({}, caller.tenant) if door.sealing is not None else {}
                    await topic_operations.ensure_topic(door.hall, name, usual)
                except LonghallError as error:
                    topics.append(MetadataResponseTopic(error_code=error_of(error.code), name=name))
                    continue
                placements = None  # Another node may lead by now.
            if placements is None:
                placements = Placements(door.hall, door.node_id)
                door.metadata_cache.validate(placements.of_shards())
            if with_operations:
                operations = operations_of(door.access, caller, Kind.TOPIC, name)
            topics.append(_describe(door, placements, one, name, version, operations))
    return topics


def _refusal(
    door: Door, asked: MetadataRequestTopic, name: str, caller: Caller, may_create: bool
) -> MetadataResponseTopic | None:
    """The answer about a topic that the client may not see, or not create; None if it may. A topic that is asked for by
    its id does not exist for those who may not see it.
    """
    access = door.access
    assert access is not None
    if asked.topic_id != NO_ID:
        if not name or access.would_allow(caller, AccessAction.DESCRIBE, Kind.TOPIC, name):
            return None
        return MetadataResponseTopic(error_code=error_of(Code.UNKNOWN_TOPIC_ID), topic_id=asked.topic_id, name=None)
    if not access.allows(caller, AccessAction.DESCRIBE, Kind.TOPIC, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    if name in door.hall.routes or not may_create:
        return None
    may = access.would_allow(caller, AccessAction.CREATE, Kind.CLUSTER, CLUSTER_NAME)
    if may or access.allows(caller, AccessAction.CREATE, Kind.TOPIC, name):
        return None
    return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def _name_of(door: Door, asked: MetadataRequestTopic) -> str:
    return asked.name or "" if asked.topic_id == NO_ID else door.hall.topic_name(asked.topic_id)


def _describe(
    door: Door, placements: Placements, asked: MetadataRequestTopic, name: str, version: int, operations: int
) -> MetadataResponseTopic | bytes:
    route = door.hall.shown(name)
    if route is None:
        if asked.topic_id != NO_ID:
            return MetadataResponseTopic(error_code=error_of(Code.UNKNOWN_TOPIC_ID), topic_id=asked.topic_id, name=None)
        code = Code.UNKNOWN_TOPIC if is_legal_name(name) else Code.INVALID_NAME
        return MetadataResponseTopic(error_code=error_of(code), name=name)
    if operations != NOT_ASKED:  # Administrators ask rarely.
        return _encode(describe_topic(door.hall, placements, name), version, operations)
    encoded = door.metadata_cache.get(name, version, route)
    if encoded is None:
        encoded = _encode(describe_topic(door.hall, placements, name), version, operations)
        door.metadata_cache.put(name, version, route, encoded)
    return encoded


def _encode(topic: TopicDescription | None, version: int, operations: int) -> bytes:
    assert topic is not None, "it has a route"
    row = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name.startswith(INTERNAL_PREFIX),
        partitions=[
            partition_row(MetadataResponsePartition, number, placement)
            for number, placement in enumerate(topic.partitions)
        ],
        topic_authorized_operations=operations,
    )
    return encode_element(MetadataResponse, "topics", row, version)


def partition_row(row_class: type[Row], number: int, placement: Placement) -> Row:
    """The description of a partition, in this response or in that of DescribeTopicPartitions."""
    return row_class(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if placement.leader == NO_NODE else 0,
        partition_index=number,
        leader_id=placement.leader,
        leader_epoch=placement.epoch,
        replica_nodes=placement.replicas,
        isr_nodes=placement.in_sync,
        offline_replicas=placement.offline,
    )
