"""DescribeCluster: the brokers that are alive."""

from __future__ import annotations

from longhall.directory.access_rules import Kind
from longhall.doors.kafka.authorized_operations import NOT_ASKED, operations_of
from longhall.doors.kafka.brokers import brokers_of, controller_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.wire.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
)


def handle(door: Door, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
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
