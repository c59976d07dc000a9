"""The operations of the service that a process carries out itself: on its hosts, groups, scrubs, levels and brokers.

Operations on queues, topics and accounts are registered by the services that own them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from longhall.broker.broker_administration import configure_broker
from longhall.broker.producer_ids import reserve_producer_ids
from longhall.doors.kafka.brokers import broker_names
from longhall.names import CATALOGUE_SHARD
from longhall.node import cluster_view
from longhall.node.cluster_node import ClusterNode
from longhall.node.scrubs import NodeScrubs
from longhall.node.upgrades import NodeUpgrades
from longhall.service.administration import (
    AddGroup,
    AddHost,
    BalanceGroups,
    DescribeReplication,
    DrainHost,
    MapCluster,
    MoveReplica,
    RaiseFeatureLevel,
    RemoveGroup,
    ReplicaProgress,
    ReplicationProgress,
    ScrubNodes,
    SetReplicationFactor,
    SpreadReplicas,
    TransferLeadership,
)
from longhall.service.broker_operations import ConfigureBroker, ListBrokerConfigurations
from longhall.service.kafka_operations import AnswerKafkaRequest, ReserveProducerIds
from longhall.service.local import LocalBroker

if TYPE_CHECKING:
    from longhall.node.assembly import Node


def register_node_operations(node: Node, scrubs: NodeScrubs) -> None:
    """Let the broker of this process answer the operations of the node, and of the cluster if it is in one."""
    broker, kafka, hall = node.broker, node.doors.kafka, node.hall
    upgrades = NodeUpgrades(node)
    broker.also(ScrubNodes, lambda op, caller: scrubs.look(begin=op.begin))
    broker.also(RaiseFeatureLevel, lambda op, caller: upgrades.upgrade(op.level, dry_run=op.dry_run))
    broker.also(AnswerKafkaRequest, lambda op, caller: kafka.answer_forwarded(op.frame, caller))
    broker.also(ReserveProducerIds, lambda op, caller: reserve_producer_ids(hall))
    broker.also(ConfigureBroker, lambda op, caller: _configure_broker(node, op))
    broker.also(ListBrokerConfigurations, lambda op, caller: hall.catalogue.brokers)
    broker.also(DescribeReplication, lambda op, caller: _describe_replication(node))
    if node.cluster_node is not None:
        _register_cluster_operations(broker, node.cluster_node)


def _register_cluster_operations(broker: LocalBroker, cluster_node: ClusterNode) -> None:
    hosts, groups = cluster_node.hosts, cluster_node.wings
    broker.also(AddHost, lambda op, caller: hosts.add(op.node))
    broker.also(DrainHost, lambda op, caller: hosts.drain(op.node))
    broker.also(MoveReplica, lambda op, caller: hosts.move(op.source, op.target))
    broker.also(SpreadReplicas, lambda op, caller: hosts.spread())
    broker.also(TransferLeadership, lambda op, caller: hosts.lead(op.node))
    broker.also(SetReplicationFactor, lambda op, caller: hosts.set_factor(op.factor))
    cluster_map = cluster_node.map
    if cluster_map is not None:
        broker.also(MapCluster, lambda op, caller: cluster_map.page(op.prefix, op.after, op.limit))
    balancer = cluster_node.balancer
    if balancer is not None:
        broker.also(BalanceGroups, lambda op, caller: balancer.balance(dry_run=op.dry_run))
    if groups is not None:
        broker.also(AddGroup, lambda op, caller: groups.add(op.name, tuple(op.hosts), op.reserved))
        broker.also(RemoveGroup, lambda op, caller: groups.remove(op.name))


async def _configure_broker(node: Node, op: ConfigureBroker) -> None:
    known = broker_names(node.doors.kafka.door)
    await configure_broker(node.hall, op.broker, op.changes, known, replace=op.replace, validate_only=op.validate_only)


async def _describe_replication(node: Node) -> ReplicationProgress:
    now_ms = node.hall.time.now_ms()
    if node.cluster_node is not None:
        return cluster_view.progress_of(node.cluster_node, now_ms)
    shard = node.hall.shards[CATALOGUE_SHARD]
    here = ReplicaProgress(node=node.doors.kafka.door.node_id, index=shard.sequence, caught_up_ms=now_ms)
    return ReplicationProgress(committed=shard.committed, replicas=[here])
