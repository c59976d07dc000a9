"""Verdicts over digests, by what each replica reports."""

from __future__ import annotations

import pytest

from longhall.broker.state_digest import BATCHES, CATALOGUE, LOG, Digests, differs, fold
from longhall.cluster.replication.digests import judge

SAME: Digests = {CATALOGUE: (0, 1), LOG: (0, 2)}
OTHER: Digests = {CATALOGUE: (0, 1), LOG: (0, 3)}
THIRD: Digests = {CATALOGUE: (0, 9), LOG: (0, 4)}


@pytest.mark.parametrize(
    ("reports", "voters", "divergent", "decided"),
    [
        ({1: SAME, 2: SAME, 3: SAME}, 3, {}, True),
        ({1: SAME, 2: SAME, 3: OTHER}, 3, {3: [LOG]}, True),
        ({1: OTHER, 2: SAME, 3: SAME}, 3, {1: [LOG]}, True),
        ({1: SAME, 2: SAME, 3: SAME, 4: OTHER, 5: THIRD}, 5, {4: [LOG], 5: [CATALOGUE, LOG]}, True),
        ({1: SAME}, 1, {}, True),
    ],
)
def test_the_minority_is_divergent(
    reports: dict[int, Digests], voters: int, divergent: dict[int, list[str]], decided: bool
) -> None:
    assert judge(reports, voters) == (divergent, decided)


@pytest.mark.parametrize(
    ("reports", "voters"),
    [
        ({1: SAME, 2: OTHER}, 2),
        ({1: SAME, 2: OTHER}, 3),  # The third has not reported.
        ({1: SAME, 2: SAME, 3: OTHER}, 5),
        ({1: SAME, 2: OTHER, 3: THIRD}, 3),
        ({1: SAME, 2: SAME, 3: OTHER, 4: OTHER}, 4),
    ],
)
def test_without_a_majority_nothing_is_decided(reports: dict[int, Digests], voters: int) -> None:
    verdict = judge(reports, voters)
    assert verdict.divergent
    assert not verdict.decided


def test_what_replicas_do_not_both_know_is_not_compared() -> None:
    here = fold({LOG: {"a": 1}, BATCHES: {"a": 1, "b": 2}})
    restarted = fold({LOG: {"a": 1}, BATCHES: {"a": 5}})
    assert differs(here, restarted) == []
    assert differs(here, fold({LOG: {"a": 1}, BATCHES: {"a": 1, "b": 3}})) == [BATCHES]
    assert differs(here, fold({LOG: {}, BATCHES: {}})) == [LOG]
    assert judge({1: here, 2: here, 3: restarted}, 3).divergent == {}
