"""When a lost record can be rebuilt from reports, and what an operator is told when it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.cluster.membership.copy_report import HALTED, LEADER, CopyReport, LeaderReport
from longhall.cluster.membership.record_proof import EPOCH_GAP, force, losses, most_complete, prove, unreported
from longhall.coordination.ports import NOBODY, ShardState


def copy(node: int, index: int, *, epochs: list[tuple[int, int]] | None = None, **more: Any) -> CopyReport:
    """An intact copy of a log that nodes 1, 2 and 3 keep."""
    known = epochs if epochs is not None else [(4, 1)]
    fields: dict[str, Any] = {
        "node": node,
        "role": HALTED,
        "epoch": known[-1][0],
        "epoch_known": known[-1][0],
        "index": index,
        "committed": index,
        "epochs": known,
        "replicas": [1, 2, 3],
        **more,
    }
    return CopyReport(**fields)


def told(*reports: CopyReport) -> dict[int, CopyReport]:
    return {one.node: one for one in reports}


def test_all_noted_replicas_prove_the_most_complete_copies() -> None:
    proof = prove(told(copy(1, 10), copy(2, 12), copy(3, 12)), None)
    assert proof.record is not None
    record = proof.record
    assert (record.leader, record.in_sync, record.replicas) == (NOBODY, (2, 3), (1, 2, 3))
    assert record.epoch == 4 + EPOCH_GAP
    assert record.rebuilt == 1


def test_a_replica_that_does_not_answer_is_named() -> None:
    proof = prove(told(copy(1, 10), copy(2, 12)), None)
    assert (proof.record, proof.missing) == (None, (3,))
    assert "node 3" in proof.reason


@pytest.mark.parametrize("missing", [copy(3, 0, intact=False), copy(3, 12, intact=False)])
def test_a_directory_that_is_empty_damaged_or_rolled_back_proves_nothing(missing: CopyReport) -> None:
    assert prove(told(copy(1, 10), copy(2, 12), missing), None).missing == (3,)


def test_a_node_that_keeps_nothing_proves_nothing_alone() -> None:
    proof = prove(told(CopyReport(node=4, role=HALTED, intact=False)), None)
    assert proof.record is None
    assert "notes" in proof.reason


def test_a_note_that_waits_for_its_commit_counts() -> None:
    reports = told(copy(1, 10), copy(2, 10), copy(3, 10, replicas=[1, 2, 3, 4]))
    assert prove(reports, None).missing == (4,)


def test_a_later_epoch_beats_a_longer_log() -> None:
    reports = told(copy(1, 90), copy(2, 60, epochs=[(4, 1), (5, 51)]), copy(3, 60, epochs=[(4, 1), (5, 51)]))
    record = prove(reports, None).record
    assert record is not None
    assert record.in_sync == (2, 3)
    assert record.epoch == 5 + EPOCH_GAP


def leader(node: int, epoch: int, in_sync: list[int], **more: Any) -> CopyReport:
    fields = {"role": LEADER, "leading": LeaderReport(epoch=epoch, in_sync=in_sync), **more}
    return copy(node, 12, epochs=[(epoch, 1)], **fields)


def test_a_leader_whose_in_sync_set_answers_goes_on() -> None:
    record = prove(told(leader(1, 4, [1, 2]), copy(2, 11)), None).record
    assert record is not None
    assert (record.leader, record.epoch, record.in_sync, record.replicas) == (1, 4, (1, 2), (1, 2, 3))


def test_a_leader_that_asked_for_another_set_needs_both() -> None:
    asked = LeaderReport(epoch=4, in_sync=[1, 2], asked=[1, 2, 3])
    proof = prove(told(leader(1, 4, [1, 2], leading=asked), copy(2, 11)), None)
    assert proof.missing == (3,)


def test_a_leader_that_was_deposed_does_not_go_on() -> None:
    reports = told(leader(1, 4, [1, 2]), copy(2, 12, epoch_known=5), copy(3, 12))
    record = prove(reports, None).record
    assert record is not None
    assert (record.leader, record.epoch) == (NOBODY, 5 + EPOCH_GAP)


def test_a_stale_record_keeps_what_it_says_beside() -> None:
    stale = ShardState(shard=0, leader=3, epoch=2, replicas=(1, 3), in_sync=(3,), version=7, rebuilt=2, factor=5)
    record = prove(told(copy(1, 10), copy(2, 10), copy(3, 9)), stale).record
    assert record is not None
    assert (record.rebuilt, record.factor, record.version) == (3, 5, 7)


def test_an_operator_is_told_what_each_copy_would_lose() -> None:
    reports = told(copy(1, 100), copy(2, 70, committed=60), copy(3, 80, epochs=[(4, 1), (6, 76)], committed=78))
    assert [(one.node, one.common, one.entries, one.committed) for one in losses(reports, 2)] == [
        (1, 70, 30, 30),
        (3, 70, 10, 8),
    ]
    assert unreported(told(copy(1, 5))) == (2, 3)
    made = force(reports, None, 2)
    assert (made.in_sync, made.leader, made.unclean_epoch) == ((2,), NOBODY, made.epoch)
    assert made.epoch > 6


@given(st.dictionaries(st.integers(1, 3), st.tuples(st.integers(1, 5), st.integers(1, 9)), min_size=1))
def test_whoever_has_most_is_in_sync(ends: dict[int, tuple[int, int]]) -> None:
    reports = {
        node: copy(node, 10 * epoch + length, epochs=[(epoch, 10 * epoch)]) for node, (epoch, length) in ends.items()
    }
    best = most_complete(reports)
    proof = prove(reports, None)
    assert best is not None
    assert (proof.record is not None) == (len(ends) == 3)
    if proof.record is not None:
        assert best.node in proof.record.in_sync
        assert all(ends[node] == max(ends.values()) for node in proof.record.in_sync)
