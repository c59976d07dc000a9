"""The comparison of candidates before an election: which replica in sync has the most complete log.

Every replica in sync has the entries that were acknowledged by all. An entry that was acknowledged by a quorum, more
than half of the set, is on at least one of any half of it, and the replica with the most entries under the newest epoch
has it too. This holds because a replica that has voted accepts nothing more from an older leader (`GroupReplica.vote`),
and because the record says by then that this leader does not lead any more.

So the comparison is safe while at least half of the set votes. The election waits for a candidate that is registered
and silent: if it is dead its session ends, and it is no candidate any more. Entries that one host alone acknowledged
are not looked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec

from longhall.errors import LonghallError

VOTE: Final = "stand"
ANSWER_S: Final = 1.0
ROUNDS_MAX: Final = 3
ROUND_S: Final = 0.05  # Until a node that did not vote is asked again: it may not know the epoch yet.

_log = logging.getLogger("longhall.session")


class VoteRequest(msgspec.Struct, kw_only=True):
    """The controller elects a leader for an epoch behind this one, and asks for the end of the log."""

    epoch: int


class Vote(msgspec.Struct, kw_only=True):
    """The epoch and the index of a candidate's last entry."""

    epoch: int
    index: int


Ask = Callable[[int, int], Awaitable[Vote]]  # Node and epoch.


async def most_complete(
    ask: Ask, candidates: list[int], epoch: int, in_sync: int, committed: tuple[int, int] = (0, 0)
) -> int | None:
    """The candidate with the most complete log; of equals the first. None while so many of them are silent that one of
    these may have more, while none votes, or if none has the entry that is known to be committed (epoch and index).
    """
    needed = (in_sync + 1) // 2
    votes: dict[int, Vote] = {}
    for number in range(ROUNDS_MAX):
        await asyncio.sleep(ROUND_S if number else 0)
        silent = [node for node in candidates if node not in votes]
        answers = await asyncio.gather(*(_asked(ask, node, epoch) for node in silent))
        votes.update({node: answer for node, answer in zip(silent, answers, strict=True) if answer is not None})
        if len(votes) == len(candidates) or len(votes) >= needed:
            break
    if len(votes) < min(needed, len(candidates)):
        details = {"answered": sorted(votes), "candidates": candidates, "needed": needed}
        _log.warning("too few candidates vote; the election waits", extra=details)
        return None
    if len(votes) < needed:
        details = {"answered": sorted(votes), "needed": needed}
        _log.warning("too few are left: what a quorum acknowledged last may be lost", extra=details)
    best = best_of(candidates, votes)
    if _weight(votes.get(best)) < committed:
        details = {"best": best, "has": _weight(votes.get(best)), "committed": committed}
        _log.error("no candidate has what was committed: its disk was rolled back, or lost writes", extra=details)
        return None
    return best


def best_of(candidates: Iterable[int], votes: dict[int, Vote]) -> int:
    """The first of the candidates with the most complete log."""
    order = list(candidates)
    return max(order, key=lambda node: (_weight(votes.get(node)), -order.index(node)))


def _weight(vote: Vote | None) -> tuple[int, int]:
    return (vote.epoch, vote.index) if vote is not None else (-1, -1)


async def _asked(ask: Ask, node: int, epoch: int) -> Vote | None:
    try:
        return await ask(node, epoch)
    except (OSError, TimeoutError, LonghallError) as error:
        _log.info("a candidate does not vote", extra={"node": node, "reason": str(error)})
        return None
