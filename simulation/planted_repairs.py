"""Planted bugs of replicas whose state differs from the log."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from longhall.broker import apply
from longhall.broker.queues.delivery.window import Window
from longhall.cluster.replication import digests, full_sync
from longhall.log.frames import Entry
from longhall.queues.outcomes import UNREADABLE
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _skip_what_cannot_be_applied() -> _Replacements:
    good: Any = apply.apply_entry

    def apply_entry(replay: Any, entry: Entry, index: int) -> None:
        try:
            good(replay, entry, index)
        except apply.ReplicaFailed:
            return

    return [(apply, "apply_entry", apply_entry)]


def _digest_nothing() -> _Replacements:
    def digest_slice(hall: Any, mark: Any) -> dict[str, dict[str, int]]:
        return {}

    return [(digests, "digest_slice", digest_slice)]


def _ignore_a_divergent_digest() -> _Replacements:
    def judge(reports: Any, voters: int) -> Any:
        return digests.Verdict({}, True)

    return [(digests, "judge", judge)]


def _believe_the_leader() -> _Replacements:
    """The leader's digest wins against the majority."""
    good: Any = digests.Comparison._close

    def close(self: Any, index: int) -> None:
        vote = self._votes.get(index)
        leading = self._leading()
        if vote is not None and leading is not None and leading.node in vote.reports:
            others = [node for node in vote.reports if node != leading.node]
            if digests.judge(vote.reports, len(vote.voters)).divergent.get(leading.node):
                vote.reports = {leading.node: vote.reports[leading.node], **{node: {} for node in others}}
        good(self, index)

    return [(digests.Comparison, "_close", close)]


def _start_from_a_running_checkpoint() -> _Replacements:
    async def request_checkpoint(hall: Any, seconds: float) -> bool:
        before = hall.checkpoints
        hall.checkpoint_wanted = True
        for _ in range(int(seconds / 0.05)):
            if hall.checkpoints > before:
                return True
            await asyncio.sleep(0.05)
        return False

    return [(full_sync, "request_checkpoint", request_checkpoint)]


def _take_the_unreadable_for_gone() -> _Replacements:
    good: Any = Window._read

    def read(self: Any, offset: int) -> Any:
        found = good(self, offset)
        unreadable = isinstance(found, list) and found and found[0].size_bytes == UNREADABLE
        return [] if unreadable else found

    return [(Window, "_read", read)]


REPAIR_BUGS: Final[dict[str, Bug]] = {
    "take-the-unreadable-for-gone": Bug(
        "A message under repair is removed from its queue.", "cluster-rot", 8, _take_the_unreadable_for_gone
    ),
    "skip-what-cannot-be-applied": Bug(
        "A follower skips an entry that it cannot apply.", "failing-reads", 4, _skip_what_cannot_be_applied
    ),
    "start-from-a-running-checkpoint": Bug(
        "A full sync gets a checkpoint from before entries that the follower has committed.",
        "divergence",
        20,
        _start_from_a_running_checkpoint,
    ),
    "digest-nothing": Bug("Replicas compare nothing.", "divergence", 2, _digest_nothing),
    "ignore-a-divergent-digest": Bug(
        "A divergent replica is found and not repaired.", "divergence", 2, _ignore_a_divergent_digest
    ),
    "believe-the-leader": Bug(
        "A leader whose state differs from the majority stays leader.", "divergence", 4, _believe_the_leader
    ),
}
