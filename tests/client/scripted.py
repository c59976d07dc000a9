"""A small broker in memory that fails on request.

It answers with our own codecs from the server's side, checks sequence numbers as a broker does, and records its
requests. `mishaps` has the failures of the next requests of an API: an error code, or one of the words below.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from longhall.doors.kafka.wire.apis import API, decode_request, encode_response
from longhall.doors.kafka.wire.headers import decode_request_header
from longhall.doors.kafka.wire.messages import cluster, data, offsets, transactions, versions
from longhall.doors.kafka.wire.schema import Message
from longhall.records.batch import check_batch, stored_prefix
from longhall.world.ports import Network
from tests.client.coordinator import ScriptedCoordinator

HOST: Final = "broker"
PORT: Final = 9092
TOPIC_ID: Final = b"i" * 16

DROP: Final = "drop before serving"
LOSE: Final = "serve, then drop instead of answering"
SILENT: Final = "serve and never answer"

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 2, 3, 10, 18, 22


class ScriptedBroker:
    def __init__(self, partitions: int = 2) -> None:
        self.logs: dict[int, list[bytes]] = {index: [] for index in range(partitions)}
        self.ends: dict[int, int] = dict.fromkeys(range(partitions), 0)
        self.mishaps: dict[int, list[int | str]] = {}
        self.asked: list[tuple[int, int]] = []  # (api key, version)
        self.ranges = {api.key: (api.version_min, api.version_max) for api in API.values()}
        self.sequences: dict[tuple[int, int, int], int] = {}  # (partition, producer, epoch) -> next
        self.next_producer_id = 1000
        self.unknown_topic = False
        self.coordinator = ScriptedCoordinator()
        self.features: dict[str, int] = {}

    async def open(self, network: Network) -> None:
        await network.listen(lambda: _Served(self), HOST, PORT)

    def mishap(self, api_key: int) -> int | str | None:
        waiting = self.mishaps.get(api_key)
        return waiting.pop(0) if waiting else None

    def serve(self, api_key: int, version: int, request: Any, error: int) -> Message:
        coordinated = self.coordinator.serve(api_key, version, request, error)
        if coordinated is not None:
            return coordinated
        answers: dict[int, Callable[[int, Any, int], Message]] = {
            PRODUCE: self._produce,
            FETCH: self._fetch,
            LIST_OFFSETS: self._list_offsets,
            METADATA: self._metadata,
            FIND_COORDINATOR: self._find_coordinator,
            INIT_PRODUCER_ID: self._init_producer_id,
        }
        return answers[api_key](version, request, error)

    def _metadata(self, version: int, request: cluster.MetadataRequest, error: int) -> Message:
        parts = [
            cluster.MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1])
            for index in self.logs
        ]
        error = 3 if self.unknown_topic else error
        topics = [
            cluster.MetadataResponseTopic(
                error_code=error, name=topic.name, topic_id=TOPIC_ID, partitions=[] if error else parts
            )
            for topic in request.topics or []
        ]
        return cluster.MetadataResponse(
            brokers=[cluster.MetadataResponseBroker(node_id=1, host=HOST, port=PORT)], controller_id=1, topics=topics
        )

    def _find_coordinator(self, version: int, request: Any, error: int) -> Message:
        if version < 4:
            return cluster.FindCoordinatorResponse(error_code=error, node_id=1, host=HOST, port=PORT)
        found = cluster.FindCoordinatorResponseCoordinator(node_id=1, host=HOST, port=PORT, error_code=error)
        return cluster.FindCoordinatorResponse(coordinators=[found])

    def _init_producer_id(self, version: int, request: transactions.InitProducerIdRequest, error: int) -> Message:
        if request.producer_id >= 0:
            return transactions.InitProducerIdResponse(
                error_code=error, producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1
            )
        self.next_producer_id += 1
        return transactions.InitProducerIdResponse(
            error_code=error, producer_id=self.next_producer_id, producer_epoch=0
        )

    def _produce(self, version: int, request: data.ProduceRequest, error: int) -> Message:
        topic = request.topic_data[0]
        part = topic.partition_data[0]
        assert part.records is not None
        answer = data.ProduceResponsePartition(index=part.index, error_code=error, base_offset=-1)
        if error == 0:
            answer.error_code, answer.base_offset = self._append(part.index, part.records)
        row = data.ProduceResponseTopic(name=topic.name, topic_id=topic.topic_id, partition_responses=[answer])
        return data.ProduceResponse(responses=[row])

    def _append(self, index: int, batch: bytes) -> tuple[int, int]:
        header = check_batch(batch, 0, len(batch))
        key = (index, header.producer_id, header.producer_epoch)
        if header.producer_id >= 0:
            expected = self.sequences.get(key, 0)
            if header.base_sequence != expected:
                return (46 if header.base_sequence < expected else 45), -1
            self.sequences[key] = expected + header.record_count
        base = self.ends[index]
        self.logs[index].append(stored_prefix(base, header.size_bytes, 0) + batch[16:])
        self.ends[index] = base + header.last_offset_delta + 1
        return 0, base

    def _fetch(self, version: int, request: data.FetchRequest, error: int) -> Message:
        topics = []
        for topic in request.topics:
            parts = []
            for wanted in topic.partitions:
                end = self.ends[wanted.partition]
                found = [
                    b
                    for b in self.logs[wanted.partition]
                    if check_batch(b, 0, len(b)).last_offset >= wanted.fetch_offset
                ]
                code = error or (1 if wanted.fetch_offset > end else 0)
                parts.append(
                    data.FetchResponsePartition(
                        partition_index=wanted.partition,
                        error_code=code,
                        high_watermark=end,
                        last_stable_offset=end,
                        records=b"" if code else b"".join(found[:2]) + (found[2][:70] if len(found) > 2 else b""),
                    )
                )
            topics.append(data.FetchResponseTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=parts))
        return data.FetchResponse(responses=topics)

    def _list_offsets(self, version: int, request: offsets.ListOffsetsRequest, error: int) -> Message:
        topic = request.topics[0]
        parts = [
            offsets.ListOffsetsResponsePartition(
                partition_index=part.partition_index,
                error_code=error,
                offset={-1: self.ends[part.partition_index], -2: 0}.get(part.timestamp, -1),
            )
            for part in topic.partitions
        ]
        return offsets.ListOffsetsResponse(topics=[offsets.ListOffsetsResponseTopic(name=topic.name, partitions=parts)])


class _Served(asyncio.Protocol):
    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, received: bytes) -> None:
        self._received += received
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4], "big")
            if len(self._received) < 4 + size:
                return
            frame, self._received = self._received[4 : 4 + size], self._received[4 + size :]
            self._serve(frame)

    def _serve(self, frame: bytes) -> None:
        broker = self._broker
        header = decode_request_header(frame)
        broker.asked.append((header.api_key, header.version))
        mishap = broker.mishap(header.api_key)
        if mishap == DROP:
            self._transport.abort()
            return
        first, last = broker.ranges[header.api_key]
        if header.api_key == API_VERSIONS:
            unknown = not first <= header.version <= last
            rows = [
                versions.ApiVersionsResponseApi(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in broker.ranges.items()
            ]
            features = [
                versions.ApiVersionsResponseFinalizedFeature(name=name, max_version_level=level)
                for name, level in broker.features.items()
            ]
            answer = versions.ApiVersionsResponse(
                error_code=35 if unknown else 0, api_keys=rows, finalized_features=features
            )
            version = 0 if unknown else header.version
            self._transport.write(encode_response(header.correlation_id, header.api_key, version, answer))
            return
        assert first <= header.version <= last, "a version that was not offered"
        request = decode_request(header.api_key, header.version, frame, header.at)
        error = mishap if isinstance(mishap, int) else 0
        reply = broker.serve(header.api_key, header.version, request, error)
        if getattr(request, "acks", 1) == 0 or mishap == SILENT:
            return
        if mishap == LOSE:
            self._transport.abort()
            return
        self._transport.write(encode_response(header.correlation_id, header.api_key, header.version, reply))
