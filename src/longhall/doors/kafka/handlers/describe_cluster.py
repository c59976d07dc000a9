"""DescribeCluster: the brokers that are alive. None is fenced: a node that is down is not in the list."""

from __future__ import annotations

from typing import Final

from longhall.directory.access_rules import Kind
from longhall.doors.kafka.authorized_operations import NOT_ASKED, operations_of
from longhall.doors.kafka.brokers import brokers_of, controller_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(door: Door, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        is_known = request.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="This address is one of brokers." if is_known else "The endpoint type is not known.",
        )
    return DescribeClusterResponse(
        cluster_id=door.cluster_id,
        controller_id=controller_of(door),
        cluster_authorized_operations=operations_of(door.access, call.caller, Kind.CLUSTER)
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
        brokers=[
            DescribeClusterResponseBroker(broker_id=host.node_id, host=host.host, port=host.port, rack=host.rack)
            for host in brokers_of(door)
        ],
    )
