"""ListConfigResources: the topics, groups and brokers that have configurations."""

from __future__ import annotations

from typing import Final

from longhall.doors.kafka.brokers import brokers_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.configs import (
    ConfigResourceType,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseResource,
)

LISTED: Final = frozenset(ConfigResourceType)


def handle(door: Door, request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
    """Client metrics have no configurations here, so there are none to list."""
    wanted = set(request.resource_types or LISTED) if call.header.version >= 1 else {ConfigResourceType.CLIENT_METRICS}
    if not wanted <= LISTED:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    response = ListConfigResourcesResponse()
    if ConfigResourceType.TOPIC in wanted:
        response.config_resources += [_row(name, ConfigResourceType.TOPIC) for name in sorted(door.hall.routes)]
    for of_broker in (ConfigResourceType.BROKER_LOGGER, ConfigResourceType.BROKER):
        if of_broker in wanted:
            response.config_resources += [_row(str(broker.node_id), of_broker) for broker in brokers_of(door)]
    if ConfigResourceType.GROUP in wanted:
        response.config_resources += [
            _row(name, ConfigResourceType.GROUP) for name in door.coordinator.configured_groups()
        ]
    return response


def _row(name: str, resource_type: int) -> ListConfigResourcesResponseResource:
    return ListConfigResourcesResponseResource(resource_name=name, resource_type=resource_type)
