"""Metadata: topics, their partitions, and who leads them; topics are made on first use where that is allowed."""

from __future__ import annotations

from longhall.broker.declare import create_topic
from longhall.broker.partition import Partition
from longhall.doors.kafka.brokers import Places, brokers_of, controller_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from longhall.doors.kafka.wire.schema import NO_ID
from longhall.errors import Code, LonghallError
from longhall.names import INTERNAL_PREFIX


async def handle(door: Door, request: MetadataRequest, call: Call) -> MetadataResponse:
    everything = request.topics is None or (call.header.version == 0 and not request.topics)
    topics: list[MetadataResponseTopic] = []
    if everything:
        places = Places(door)
        topics = [_describe(door, places, name) for name in sorted(door.hall.routes)]
    else:
        assert request.topics is not None
        for asked in request.topics:
            topics.append(await _find(door, asked, request.allow_auto_topic_creation))
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=host.node_id, host=host.host, port=host.port, rack=host.rack)
            for host in brokers_of(door)
        ],
        cluster_id=door.cluster_id,
        controller_id=controller_of(door),
        topics=topics,
    )


async def _find(door: Door, asked: MetadataRequestTopic, may_create: bool) -> MetadataResponseTopic:
    hall = door.hall
    if asked.topic_id != NO_ID:
        name = hall.topic_name(asked.topic_id)
        if not name:
            code = error_of(Code.UNKNOWN_TOPIC_ID)
            return MetadataResponseTopic(error_code=code, topic_id=asked.topic_id, name=None)
        return _describe(door, Places(door), name)
    name = asked.name or ""
    if name in hall.routes:
        return _describe(door, Places(door), name)
    if not may_create or not hall.options.auto_create_topics:
        return MetadataResponseTopic(error_code=error_of(Code.UNKNOWN_TOPIC), name=name)
    try:
        await create_topic(hall, name, -1, {})
    except LonghallError as error:
        if error.code is not Code.TOPIC_EXISTS:  # Somebody else was first.
            return MetadataResponseTopic(error_code=error_of(error.code), name=name)
    return _describe(door, Places(door), name)


def _describe(door: Door, places: Places, name: str) -> MetadataResponseTopic:
    route = door.hall.shown(name)
    if route is None:
        return MetadataResponseTopic(error_code=error_of(Code.UNKNOWN_TOPIC), name=name)
    return MetadataResponseTopic(
        name=name,
        topic_id=route[0].topic_id,
        is_internal=name.startswith(INTERNAL_PREFIX),
        partitions=[_partition(places, partition) for partition in route],
    )


def _partition(places: Places, partition: Partition) -> MetadataResponsePartition:
    placement = places.of(partition)
    return MetadataResponsePartition(
        error_code=placement.error_code,
        partition_index=partition.number,
        leader_id=placement.leader,
        leader_epoch=placement.epoch,
        replica_nodes=placement.replicas,
        isr_nodes=placement.in_sync,
        offline_replicas=placement.offline,
    )
