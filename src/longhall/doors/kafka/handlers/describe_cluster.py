"""DescribeCluster: the brokers, of which there is one."""

from __future__ import annotations

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
        controller_id=door.node_id,
        brokers=[DescribeClusterResponseBroker(broker_id=door.node_id, host=door.host, port=door.port)],
    )
