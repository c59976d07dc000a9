"""Who of those in sync has most: they are asked before one of them is chosen to lead.

Everybody in sync has what was acknowledged by all. What was acknowledged by a quorum, more than half of them, only the
most complete of them is sure to have: of any half of the set one has it, and whoever has more entries under newer
epochs has that too. It holds because nobody who was asked takes anything more of an older leader (`Member.stand`), and
because the record says by then that this leader leads no longer.

So this is safe while at least half of the set answers. A candidate that is registered and silent is waited for: its
session ends if it is gone, and then it is no candidate any more. What one host alone acknowledged is not looked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec

from longhall.errors import LonghallError

STAND: Final = "stand"
ANSWER_S: Final = 1.0
ROUNDS_MAX: Final = 3
ROUND_S: Final = 0.05  # Until somebody that did not answer is asked again: it may not have heard of the epoch yet.

_log = logging.getLogger("longhall.session")


class VoteRequest(msgspec.Struct, kw_only=True):
    """A leader is chosen for an epoch behind this one: what do you have?"""

    epoch: int


class Vote(msgspec.Struct, kw_only=True):
    """The epoch and the index of the last entry."""

    epoch: int
    index: int


Ask = Callable[[int, int], Awaitable[Vote]]  # Node and epoch.


async def most_complete(
    ask: Ask, candidates: list[int], epoch: int, in_sync: int, committed: tuple[int, int] = (0, 0)
) -> int | None:
    """The candidate that has most; of equals the first. None while so many of them are silent that one of these may
    have more, while nobody answers, or if nobody has the entry that is known to be committed (epoch and index).
    """
    needed = (in_sync + 1) // 2
    found: dict[int, Vote] = {}
    for number in range(ROUNDS_MAX):
        await asyncio.sleep(ROUND_S if number else 0)
        silent = [node for node in candidates if node not in found]
        answers = await asyncio.gather(*(_asked(ask, node, epoch) for node in silent))
        found.update({node: answer for node, answer in zip(silent, answers, strict=True) if answer is not None})
        if len(found) == len(candidates) or len(found) >= needed:
            break
    if len(found) < min(needed, len(candidates)):
        told = {"answered": sorted(found), "candidates": candidates, "needed": needed}
        _log.warning("too few candidates say what they have; the election waits", extra=told)
        return None
    if len(found) < needed:
        told = {"answered": sorted(found), "needed": needed}
        _log.warning("too few are left: what a quorum acknowledged last may be lost", extra=told)
    best = best_of(candidates, found)
    if _weight(found.get(best)) < committed:
        told = {"best": best, "has": _weight(found.get(best)), "committed": committed}
        _log.error("no candidate has what was committed: its disk was rolled back, or lost writes", extra=told)
        return None
    return best


def best_of(candidates: Iterable[int], found: dict[int, Vote]) -> int:
    """The first of those who have most."""
    order = list(candidates)
    return max(order, key=lambda node: (_weight(found.get(node)), -order.index(node)))


def _weight(standing: Vote | None) -> tuple[int, int]:
    return (standing.epoch, standing.index) if standing is not None else (-1, -1)


async def _asked(ask: Ask, node: int, epoch: int) -> Vote | None:
    try:
        return await ask(node, epoch)
    except (OSError, TimeoutError, LonghallError) as error:
        _log.info("a node does not say what it has", extra={"node": node, "reason": str(error)})
        return None
