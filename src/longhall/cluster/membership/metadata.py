"""The cluster's metadata as one node knows it: the record, the live nodes, drained nodes and the feature level.

The coordinator session writes it, everything else reads it. It may be older than the coordinator's copy, so nothing is
safe because of it: the record is changed by compare-and-set alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import final

from longhall.broker.leadership import NOBODY, Host
from longhall.cluster.membership.feature_level import LevelOutlook, level_of, outlook
from longhall.cluster.membership.reassignment import ReassignmentGoals
from longhall.coordination.ports import FRONT, METADATA, FeatureLevel, MemberDescription, ShardState


@final
class ClusterMetadata:
    """One node's copy of the cluster's metadata. `changed` is set with every change, and cleared by the session."""

    def __init__(self, node: int, state: ShardState, factor: int, in_sync_min: int) -> None:
        self.node = node
        self.state = state  # The newest record that this node has seen.
        self.living: Mapping[int, MemberDescription] = {}  # The live nodes, as they describe themselves.
        self.drained: frozenset[int] = frozenset()  # Nodes that are to have no replicas.
        self.feature_level = FeatureLevel()
        self.default_factor = factor  # How many replicas there should be, unless the record says otherwise.
        self.preferred_leader = NOBODY  # The node that should lead if it can: of a wing.
        self.in_sync_min = in_sync_min
        self.changed = asyncio.Event()

    @property
    def factor(self) -> int:
        """How many replicas there should be."""
        return self.state.factor or self.default_factor

    @property
    def level(self) -> int:
        """The feature level of the cluster."""
        return level_of(self.feature_level.level)

    @property
    def outlook(self) -> LevelOutlook:
        """The feature level, and which one the nodes allow for."""
        return outlook(self.feature_level.level, self.living, self.state.replicas)

    @property
    def fit(self) -> frozenset[int]:
        """The live nodes that can lead."""
        return frozenset(number for number, one in self.living.items() if not one.unfit)

    @property
    def controller_candidates(self) -> frozenset[int]:
        """The live nodes that can be controller: all but front ends."""
        return frozenset(number for number, one in self.living.items() if one.role != FRONT)

    def goals(
        self, state: ShardState, drained: frozenset[int], members: Mapping[int, MemberDescription]
    ) -> ReassignmentGoals:
        """How many replicas there should be under this record, and on which nodes there should be none."""
        never = {number for number, one in members.items() if not one.may_store_hall}
        return ReassignmentGoals(state.factor or self.default_factor, self.in_sync_min, drained | never)

    def hosts(self) -> list[Host]:
        """The live nodes with the addresses of their doors, by their numbers."""
        return hosts_of(self.living)


def is_stale(state: ShardState, known: ShardState) -> bool:
    """True if the coordinator has an older record than this node has seen: it was restored from a backup."""
    return state.revision < known.revision or state.epoch < known.epoch


def hosts_of(living: Mapping[int, MemberDescription]) -> list[Host]:
    """Live nodes with the addresses of their doors, by their numbers."""
    return [
        Host(
            node=number,
            kafka=one.addresses.get("kafka", ""),
            sqs=one.addresses.get("sqs", ""),
            http=one.addresses.get("http", ""),
            peers=one.addresses.get("peer", ""),
            rack=one.rack,
            is_front=one.role == FRONT,
            may_store_wings=one.role not in (FRONT, METADATA),
        )
        for number, one in sorted(living.items())
    ]
