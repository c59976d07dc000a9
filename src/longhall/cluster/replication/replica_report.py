"""The report that a running replica gives of its copy of the log."""

from __future__ import annotations

import msgspec

from longhall.cluster.membership.copy_report import FOLLOWER, LEADER, NOTHING, CopyReport, LeaderReport, noted_replicas
from longhall.cluster.replication.group_replica import GroupReplica, Role
from longhall.names import CATALOGUE_SHARD


def report_of(group_replica: GroupReplica, known: CopyReport) -> CopyReport:
    """`known`, completed from the replica. A follower counts as one only while its log agrees with its leader's."""
    replica, leading = group_replica.replica, group_replica.leading
    role = NOTHING
    if group_replica.role_of(CATALOGUE_SHARD) is Role.LEADER:
        role = LEADER
    elif group_replica.is_following:
        role = FOLLOWER
    return msgspec.structs.replace(
        known,
        role=role,
        intact=replica.index > 0,
        epoch=replica.epoch,
        epoch_known=max(group_replica.epoch, replica.epoch),
        index=replica.index,
        committed=replica.committed,
        epochs=replica.epochs.snapshot(),
        nonces=dict(replica.nonces),
        replicas=sorted(noted_replicas(replica)),
        leading=None
        if leading is None or role != LEADER
        else LeaderReport(epoch=leading.epoch, in_sync=sorted(leading.in_sync), asked=sorted(leading.asked or ())),
    )
