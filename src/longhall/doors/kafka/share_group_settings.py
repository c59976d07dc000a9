"""The settings of a share group, as the process knows them that serves its records.

The main hall has the settings of groups. The process of another replication group asks it for them, and believes the
answer for a few seconds.
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from longhall.broker.share.coordinator import ShareGroupCoordinator
from longhall.cluster.placement.group_client import GroupClient
from longhall.doors.kafka.wire.apis import decode_response, encode_request
from longhall.doors.kafka.wire.messages.configs import (
    ConfigResourceType,
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
)
from longhall.front.identity import NODE_ITSELF
from longhall.service.kafka_operations import AnswerKafkaRequest
from longhall.topics.share_settings import SETTINGS, ShareSettings

VERSION: Final = 4
DESCRIBE_CONFIGS: Final = 32
KNOWN_S: Final = 5.0
KNOWN_MAX: Final = 1000


@final
class ShareGroupSettings:
    """The settings of share groups, known here or asked for."""

    def __init__(self, groups: ShareGroupCoordinator) -> None:
        self._groups = groups
        self._known: dict[str, tuple[float, ShareSettings]] = {}  # By group: until when, and what; oldest first.

    async def of(self, group_id: str, main: GroupClient | None) -> ShareSettings:
        """The settings of a group; `main` is the main hall in the process of another replication group."""
        if main is None:
            return self._groups.settings_of(group_id)
        now_s = asyncio.get_running_loop().time()
        until_s, settings = self._known.get(group_id, (0.0, None))
        if settings is None or until_s <= now_s:
            settings = await _ask(main, group_id)
            self._known.pop(group_id, None)
            if len(self._known) >= KNOWN_MAX:
                self._known.pop(next(iter(self._known)))
            self._known[group_id] = (now_s + KNOWN_S, settings)
        return settings


async def _ask(main: GroupClient, group_id: str) -> ShareSettings:
    resource = DescribeConfigsRequestResource(
        resource_type=ConfigResourceType.GROUP, resource_name=group_id, configuration_keys=list(SETTINGS)
    )
    frame = encode_request(0, None, VERSION, DescribeConfigsRequest(resources=[resource]))
    answer = await main.call(AnswerKafkaRequest(frame[4:]), NODE_ITSELF)
    response = decode_response(DESCRIBE_CONFIGS, VERSION, answer[4:])[1]
    assert isinstance(response, DescribeConfigsResponse)
    return ShareSettings(
        {
            config.name: config.value
            for result in response.results
            for config in result.configs
            if config.config_source == ConfigSource.GROUP and config.value is not None
        }
    )
