"""The report that a running member gives of its copy."""

from __future__ import annotations

import msgspec

from longhall.cluster.membership.copy_report import FOLLOWER, LEADER, NOTHING, CopyReport, LeaderReport, noted_replicas
from longhall.cluster.replication.group_replica import GroupReplica, Role
from longhall.names import CATALOGUE_SHARD


def report_of(member: GroupReplica, known: CopyReport) -> CopyReport:
    """`known` with what the member has. A follower counts as such only while it agrees with its leader."""
    replica, leading = member.replica, member.leading
    role = NOTHING
    if member.role_of(CATALOGUE_SHARD) is Role.LEADER:
        role = LEADER
    elif member.is_following:
        role = FOLLOWER
    return msgspec.structs.replace(
        known,
        role=role,
        intact=replica.index > 0,
        epoch=replica.epoch,
        epoch_known=max(member.epoch, replica.epoch),
        index=replica.index,
        committed=replica.committed,
        epochs=replica.epochs.snapshot(),
        nonces=dict(replica.nonces),
        replicas=sorted(noted_replicas(replica)),
        leading=None
        if leading is None or role != LEADER
        else LeaderReport(epoch=leading.epoch, in_sync=sorted(leading.in_sync), asked=sorted(leading.asked or ())),
    )
