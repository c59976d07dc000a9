"""ListConfigResources: the topics, groups and brokers that have configurations."""

from __future__ import annotations

from typing import Final

from longhall.doors.kafka.brokers import brokers_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import UNSUPPORTED_VERSION
from longhall.doors.kafka.wire.messages.configs import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseResource,
)

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
LISTED: Final = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(door: Door, request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
    """Client metrics have no configurations here, so there are none to list."""
    wanted = set(request.resource_types or LISTED) if call.header.version >= 1 else {CLIENT_METRICS}
    if not wanted <= set(LISTED):
        return ListConfigResourcesResponse(error_code=UNSUPPORTED_VERSION)
    response = ListConfigResourcesResponse()
    if TOPIC in wanted:
        response.config_resources += [_row(name, TOPIC) for name in sorted(door.hall.routes)]
    if BROKER in wanted:
        response.config_resources += [_row(str(broker.node_id), BROKER) for broker in brokers_of(door)]
    if GROUP in wanted:
        response.config_resources += [_row(name, GROUP) for name in door.coordinator.configured_groups()]
    return response


def _row(name: str, resource_type: int) -> ListConfigResourcesResponseResource:
    return ListConfigResourcesResponseResource(resource_name=name, resource_type=resource_type)
