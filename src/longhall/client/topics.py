"""Administration of topics: create, describe, alter, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, final

from longhall.client.connection import REQUEST_TIMEOUT_MS
from longhall.client.refusals import Refused, check
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages import configs as c
from longhall.doors.kafka.wire.messages import offsets as o
from longhall.doors.kafka.wire.messages import storage as s
from longhall.doors.kafka.wire.messages import topics as t
from longhall.doors.kafka.wire.messages.cluster import MetadataResponseTopic
from longhall.doors.kafka.wire.messages.configs import ConfigOperation, ConfigResourceType, ConfigSource
from longhall.doors.kafka.wire.schema import Message

if TYPE_CHECKING:
    from longhall.client.hall import Hall

_R = TypeVar("_R", bound=Message)
_SHARED: Final = (ConfigSource.DEFAULT, ConfigSource.ALL_BROKERS)


class Setting(NamedTuple):
    """One entry of a topic's or broker's configuration; a default is a value that all brokers share."""

    name: str
    value: str | None
    is_default: bool
    read_only: bool
    sensitive: bool


@final
class Topics:
    """Requests about topics, reached as `hall.topics`. Everything is retried until the hall's timeout."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    async def list(self) -> list[MetadataResponseTopic]:
        """All topics with their partitions, by name."""
        answer = await self._hall.persist(lambda: self._hall.metadata(None))
        return sorted((topic for topic in answer.topics if topic.error_code == 0), key=lambda topic: topic.name or "")

    async def describe(self, name: str) -> MetadataResponseTopic:
        """The current metadata of a topic, not from the cache. Raises Refused (UNKNOWN_TOPIC_OR_PARTITION)."""
        self._hall.forget(name)
        return await self._hall.persist(lambda: self._hall.topic(name))

    async def create(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication: int = -1,
        configs: dict[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        topic = t.CreateTopicsRequestTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication,
            configs=[t.CreateTopicsRequestConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        request = t.CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_TIMEOUT_MS, validate_only=validate_only)

        async def attempt() -> None:
            answer = await self._ask_controller(request, t.CreateTopicsResponse)
            check(answer.topics[0].error_code, answer.topics[0].error_message)

        await self._hall.persist(attempt)
        self._hall.forget(name)

    async def delete(self, name: str) -> None:
        request = t.DeleteTopicsRequest(
            topics=[t.DeleteTopicsRequestTopic(name=name)], topic_names=[name], timeout_ms=REQUEST_TIMEOUT_MS
        )

        async def attempt() -> None:
            answer = await self._ask_controller(request, t.DeleteTopicsResponse)
            self._check_topic(answer.responses[0].error_code, answer.responses[0].error_message, name)

        await self._hall.persist(attempt)
        self._hall.forget(name)

    async def grow(self, name: str, partitions: int) -> None:
        """Raise the number of partitions to this many in all."""
        request = t.CreatePartitionsRequest(
            topics=[t.CreatePartitionsRequestTopic(name=name, count=partitions, assignments=None)],
            timeout_ms=REQUEST_TIMEOUT_MS,
        )

        async def attempt() -> None:
            answer = await self._ask_controller(request, t.CreatePartitionsResponse)
            self._check_topic(answer.results[0].error_code, answer.results[0].error_message, name)

        await self._hall.persist(attempt)
        self._hall.forget(name)

    async def settings(self, name: str, *, kind: int = ConfigResourceType.TOPIC) -> Sequence[Setting]:
        """The configuration of a topic, or of a broker by its number."""
        resource = c.DescribeConfigsRequestResource(resource_type=kind, resource_name=name, configuration_keys=None)
        request = c.DescribeConfigsRequest(resources=[resource])
        node_id = int(name) if kind == ConfigResourceType.BROKER else None

        async def attempt() -> c.DescribeConfigsResponseResource:
            result = (await self._hall.ask(node_id, request, c.DescribeConfigsResponse)).results[0]
            self._check_topic(result.error_code, result.error_message, name)
            return result

        return [
            Setting(row.name, row.value, row.config_source in _SHARED, row.read_only, row.is_sensitive)
            for row in (await self._hall.persist(attempt)).configs
        ]

    async def alter(self, name: str, changes: dict[str, str | None], *, kind: int = ConfigResourceType.TOPIC) -> None:
        """Set the entries that have a value, and reset those that have none to their defaults."""
        rows = [
            c.IncrementalAlterConfigsRequestConfig(
                name=key, config_operation=ConfigOperation.DELETE if value is None else ConfigOperation.SET, value=value
            )
            for key, value in changes.items()
        ]
        resource = c.IncrementalAlterConfigsRequestResource(resource_type=kind, resource_name=name, configs=rows)
        request = c.IncrementalAlterConfigsRequest(resources=[resource])
        node_id = int(name) if kind == ConfigResourceType.BROKER else None

        async def attempt() -> None:
            result = (await self._hall.ask(node_id, request, c.IncrementalAlterConfigsResponse)).responses[0]
            self._check_topic(result.error_code, result.error_message, name)

        await self._hall.persist(attempt)

    async def delete_records(self, name: str, before: dict[int, int]) -> dict[int, int]:
        """Delete everything before these offsets (-1: everything), by partition; returns the new start offsets."""
        begins: dict[int, int] = {}
        for partition, offset in before.items():
            row = o.DeleteRecordsRequestPartition(partition_index=partition, offset=offset)
            request = o.DeleteRecordsRequest(
                topics=[o.DeleteRecordsRequestTopic(name=name, partitions=[row])], timeout_ms=REQUEST_TIMEOUT_MS
            )

            async def attempt(
                partition: int = partition, request: o.DeleteRecordsRequest = request
            ) -> o.DeleteRecordsResponsePartition:
                leader = await self._hall.leader_of(name, partition)
                part = (await self._hall.ask(leader, request, o.DeleteRecordsResponse)).topics[0].partitions[0]
                check(part.error_code, f"{name}-{partition}")
                return part

            begins[partition] = (await self._hall.persist(attempt)).low_watermark
        return begins

    async def sizes(self) -> dict[tuple[str, int], int]:
        """Bytes on disk by topic and partition, over all brokers."""
        sizes: dict[tuple[str, int], int] = {}
        for node_id in self._hall.brokers:
            request = s.DescribeLogDirsRequest(topics=None)
            answer = await self._hall.ask(node_id, request, s.DescribeLogDirsResponse)
            check(answer.error_code)
            for directory in answer.results:
                check(directory.error_code, directory.log_dir)
                for topic in directory.topics:
                    for part in topic.partitions:
                        sizes[topic.name, part.partition_index] = part.partition_size
        return sizes

    async def _ask_controller(self, request: Message, expected: type[_R]) -> _R:
        controller = await self._hall.controller()
        return await self._hall.ask(
            controller if controller >= 0 else None, request, expected, timeout_ms=2 * REQUEST_TIMEOUT_MS
        )

    @staticmethod
    def _check_topic(error_code: int, message: str | None, name: str) -> None:
        """Raise Refused at once for a topic that does not exist."""
        if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Refused(error_code, f"topic {name}", retriable=False)
        check(error_code, message or name)
