"""The proof of a rebuilt record: whether the nodes' reports are enough to write it again, because the coordinator lost
it or was restored from an old backup. Pure: reports in, a record or the reason why there is none out.

| nodes that answer | the record |
|---|---|
| a leader and its whole in-sync set; none knows a later epoch | the leader goes on, under its epoch |
| no leader, and every replica that any of the logs notes | no leader; in sync are the most complete copies |
| otherwise | none: a missing node may have led later, and may have entries that the others lack |

Why this is enough: a leader lets a node become in sync only when the log notes it as a replica and that note is
committed, so every replica that was in sync before knows it. The node that led last is therefore noted in the log of a
node that answers, and so it answers itself. The log with the highest last epoch, and of these the longest, has every
entry that was committed: see `docs/replication.md`.

`force` replaces the proof by an operator's decision. The record is marked, so that copies with more entries are set
aside instead of being refused; `losses` lists those entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from longhall.cluster.membership.copy_report import CopyReport
from longhall.coordination.ports import NOBODY, ShardState
from longhall.names import CATALOGUE_SHARD
from longhall.shards.replica import common_index

EPOCH_GAP: Final = 1000  # Above the known epochs: a node that did not answer may know later ones.


class RecordProof(NamedTuple):
    """The record, or the reason why there is none. `missing` are the nodes that would have to answer."""

    record: ShardState | None
    reason: str
    missing: tuple[int, ...] = ()


class Loss(NamedTuple):
    """Entries of a node behind `common` that the chosen node lacks; `committed` of them are known to be committed."""

    node: int
    common: int
    entries: int
    committed: int


def prove(reports: Mapping[int, CopyReport], stale: ShardState | None) -> RecordProof:
    """The proof from reports by node. `stale` is the record that contradicts them; None if there is none."""
    intact = {node: one for node, one in reports.items() if one.intact}
    leaders = [one for one in intact.values() if one.leading is not None]
    newest = max((one.epoch_known for one in intact.values()), default=0)
    leader = max(leaders, key=_leading_epoch, default=None)
    if leader is None or _leading_epoch(leader) < max(newest, stale.epoch if stale is not None else 0):
        return _of_logs(intact, stale)
    proof = _of_leader(leader, intact, stale)
    return proof if proof.record is not None else _of_logs(intact, stale)


def most_complete(reports: Mapping[int, CopyReport]) -> CopyReport | None:
    """The copy with the highest last epoch, and of these the longest."""
    intact = [one for one in reports.values() if one.intact]
    return max(intact, key=lambda one: (one.epoch, one.index, -one.node), default=None)


def force(reports: Mapping[int, CopyReport], stale: ShardState | None, chosen: int) -> ShardState:
    """The record that an operator asks for: the chosen node leads next, whatever other nodes have."""
    report = reports[chosen]
    epoch = _epoch_above(reports, stale)
    replicas = sorted({*report.replicas, chosen})
    made = _record(reports, stale, replicas=replicas, in_sync=[chosen], epoch=epoch)
    return msgspec.structs.replace(made, unclean_epoch=epoch)


def losses(reports: Mapping[int, CopyReport], chosen: int) -> list[Loss]:
    """The entries of the other copies that the chosen one lacks."""
    base = reports[chosen]
    found: list[Loss] = []
    for node, one in sorted(reports.items()):
        if node != chosen and one.intact:
            common = common_index(base.epochs, base.index, one.epochs, one.index, (base.nonces, one.nonces))
            if common < one.index:
                found.append(Loss(node, common, one.index - common, max(one.committed - common, 0)))
    return found


def unreported(reports: Mapping[int, CopyReport]) -> tuple[int, ...]:
    """Nodes that a log notes as replicas, and that have not reported an intact copy."""
    noted = {replica for one in reports.values() if one.intact for replica in one.replicas}
    return tuple(sorted(noted - {node for node, one in reports.items() if one.intact}))


def _leading_epoch(report: CopyReport) -> int:
    return report.leading.epoch if report.leading is not None else -1


def _of_leader(leader: CopyReport, intact: Mapping[int, CopyReport], stale: ShardState | None) -> RecordProof:
    leading = leader.leading
    assert leading is not None
    needed = {*leading.in_sync, *leading.asked}
    missing = tuple(sorted(needed - set(intact)))
    if missing:
        return RecordProof(
            None, f"node {leader.node} leads, and of those in sync {_named(missing)} did not answer", missing
        )
    replicas = sorted({*leader.replicas, *leading.in_sync})
    record = _record(intact, stale, replicas=replicas, in_sync=sorted(leading.in_sync), epoch=leading.epoch)
    return RecordProof(msgspec.structs.replace(record, leader=leader.node), "")


def _of_logs(intact: Mapping[int, CopyReport], stale: ShardState | None) -> RecordProof:
    missing = unreported(intact)
    if missing:
        return RecordProof(None, f"the logs note {_named(missing)} as replicas, which did not answer", missing)
    best = most_complete(intact)
    if best is None or not best.replicas:
        return RecordProof(None, "no log that was reported notes its replicas")
    in_sync = [
        node
        for node, one in sorted(intact.items())
        if node in best.replicas and (one.index, one.epochs, one.nonces) == (best.index, best.epochs, best.nonces)
    ]
    if not in_sync:
        return RecordProof(None, f"node {best.node} has the most complete log, which does not note it as a replica")
    epoch = _epoch_above(intact, stale)
    return RecordProof(_record(intact, stale, replicas=sorted(best.replicas), in_sync=in_sync, epoch=epoch), "")


def _record(
    reports: Mapping[int, CopyReport],
    stale: ShardState | None,
    *,
    replicas: list[int],
    in_sync: list[int],
    epoch: int,
) -> ShardState:
    base = stale if stale is not None else ShardState(shard=CATALOGUE_SHARD)
    seen = max((one.rebuilt for one in reports.values()), default=0)
    return msgspec.structs.replace(
        base,
        leader=NOBODY,
        epoch=epoch,
        replicas=tuple(replicas),
        in_sync=tuple(in_sync),
        leaving=tuple(node for node in base.leaving if node in replicas),
        rebuilt=max(seen, base.rebuilt) + 1,
    )


def _epoch_above(reports: Mapping[int, CopyReport], stale: ShardState | None) -> int:
    known = [max(one.epoch, one.epoch_known) for one in reports.values()]
    return max([*known, stale.epoch if stale is not None else 0]) + EPOCH_GAP


def _named(nodes: tuple[int, ...]) -> str:
    return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {', '.join(map(str, nodes))}"
