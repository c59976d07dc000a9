"""Metadata: topics, their partitions, and who leads them; topics are made on first use where that is allowed."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from longhall.broker.partition import Partition
from longhall.broker.topic_administration import create_topic
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
from longhall.doors.kafka.wire.schema import NO_ID, encode_element
from longhall.errors import Code, LonghallError
from longhall.names import INTERNAL_PREFIX

TOPICS_A_TURN: Final = 500


async def handle(door: Door, request: MetadataRequest, call: Call) -> MetadataResponse:
    version = call.header.version
    everything = request.topics is None or (version == 0 and not request.topics)
    if everything:
        asked = [MetadataRequestTopic(name=name) for name in sorted(door.hall.routes)]
    else:
        asked = request.topics or []
    may_create = request.allow_auto_topic_creation and not everything
    if len(asked) <= TOPICS_A_TURN:
        topics = await _describe_all(door, asked, version, may_create)
    else:
        async with door.long_answers:
            topics = await _describe_all(door, asked, version, may_create)
    if everything:  # What was deleted meanwhile is the only thing that is not encoded.
        topics = [topic for topic in topics if isinstance(topic, bytes)]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=host.node_id, host=host.host, port=host.port, rack=host.rack)
            for host in brokers_of(door)
        ],
        cluster_id=door.cluster_id,
        controller_id=controller_of(door),
        topics=cast("list[MetadataResponseTopic]", topics),  # What is encoded already is written as it is.
    )


async def _describe_all(
    door: Door, asked: list[MetadataRequestTopic], version: int, may_create: bool
) -> list[MetadataResponseTopic | bytes]:
    """In turns, so that others are served meanwhile."""
    topics: list[MetadataResponseTopic | bytes] = []
    for at in range(0, len(asked), TOPICS_A_TURN):
        if at:
            await asyncio.sleep(0)
        places: Places | None = None
        for one in asked[at : at + TOPICS_A_TURN]:
            name = _name_of(door, one)
            if name not in door.hall.routes and may_create and one.topic_id == NO_ID:
                refusal = await _create(door, name)
                if refusal is not None:
                    topics.append(refusal)
                    continue
                places = None  # Who leads may have changed meanwhile.
            if places is None:
                places = Places(door)
                door.told.look(places.of_shards())
            topics.append(_describe(door, places, one, name, version))
    return topics


def _name_of(door: Door, asked: MetadataRequestTopic) -> str:
    return asked.name or "" if asked.topic_id == NO_ID else door.hall.topic_name(asked.topic_id)


async def _create(door: Door, name: str) -> MetadataResponseTopic | None:
    """Make the topic if that is allowed; None if it is there then."""
    if not door.hall.options.auto_create_topics:
        return MetadataResponseTopic(error_code=error_of(Code.UNKNOWN_TOPIC), name=name)
    try:
        await create_topic(door.hall, name, -1, {})
    except LonghallError as error:
        if error.code is not Code.TOPIC_EXISTS:  # Somebody else was first.
            return MetadataResponseTopic(error_code=error_of(error.code), name=name)
    return None


def _describe(
    door: Door, places: Places, asked: MetadataRequestTopic, name: str, version: int
) -> MetadataResponseTopic | bytes:
    route = door.hall.shown(name)
    if route is None:
        if asked.topic_id != NO_ID:
            return MetadataResponseTopic(error_code=error_of(Code.UNKNOWN_TOPIC_ID), topic_id=asked.topic_id, name=None)
        return MetadataResponseTopic(error_code=error_of(Code.UNKNOWN_TOPIC), name=name)
    told = door.told.of(name, version, route)
    if told is not None:
        return told
    topic = MetadataResponseTopic(
        name=name,
        topic_id=route[0].topic_id,
        is_internal=name.startswith(INTERNAL_PREFIX),
        partitions=[_partition(places, partition) for partition in route],
    )
    told = encode_element(MetadataResponse, "topics", topic, version)
    door.told.keep(name, version, route, told)
    return told


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
