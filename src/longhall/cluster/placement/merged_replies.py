"""Replies of several wings about one queue, merged into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from longhall.queues.messages import Counts, Depth, MoveTask

BETWEEN: Final = "."  # Between the number of a wing and the id of a move in it.
AND: Final = "+"  # Between two of such pairs.
_STATES: Final = ("RUNNING", "CANCELLING", "FAILED", "CANCELLED", "COMPLETED")  # The first that any of them has.


def all_depths(depths: Sequence[Depth]) -> Depth:
    """The sum of the depths."""
    return Depth(
        available=sum(one.available for one in depths),
        in_flight=sum(one.in_flight for one in depths),
        delayed=sum(one.delayed for one in depths),
        bytes=sum(one.bytes for one in depths),
        oldest_age_ms=max((one.oldest_age_ms for one in depths), default=0),
        parts=max((one.parts for one in depths), default=1),  # Each wing has the logs of all parts, and uses its own.
        generation=max((one.generation for one in depths), default=0),
    )


def all_counts(counts: Sequence[Counts]) -> Counts:
    """The sum of the counters."""
    deaths: Counter[str] = Counter()
    fates: Counter[str] = Counter()
    for one in counts:
        deaths.update(one.deaths)
        fates.update(one.fates)
    return Counts(
        sends=sum(one.sends for one in counts),
        deliveries=sum(one.deliveries for one in counts),
        settles=sum(one.settles for one in counts),
        outlived=sum(one.outlived for one in counts),
        safe_lease_ms=max((one.safe_lease_ms for one in counts), default=0),
        deaths=dict(deaths),
        fates=dict(fates),
        fates_lost=sum(one.fates_lost for one in counts),
    )


def one_move(wings: Sequence[int], moves: Sequence[MoveTask]) -> MoveTask:
    """One move task for the moves that the wings began together."""
    states = {move.state for move in moves}
    return msgspec.structs.replace(
        moves[0],
        task_id=AND.join(f"{number}{BETWEEN}{move.task_id}" for number, move in zip(wings, moves, strict=True)),
        rate_max=sum(move.rate_max for move in moves),
        state=next(state for state in (*_STATES, moves[0].state) if state in states),
        moved=sum(move.moved for move in moves),
        to_move=sum(move.to_move for move in moves),
        failure=next((move.failure for move in moves if move.failure), ""),
    )


def all_moves(wings: Sequence[int], told: Sequence[Sequence[MoveTask]]) -> list[MoveTask]:
    """The moves of a queue, the newest first. Every wing has begun the same moves in the same order."""
    together = zip(*(sorted(moves, key=lambda move: move.started_ms) for moves in told), strict=False)
    return [one_move(wings, moves) for moves in together][::-1]


def parts_of_move(task_id: str) -> list[tuple[int, str]]:
    """The wings of a move with the id in each; empty for a move of the main hall."""
    found: list[tuple[int, str]] = []
    for part in task_id.split(AND):
        number, between, rest = part.partition(BETWEEN)
        if not between or not (number.isascii() and number.isdigit()):
            return []
        found.append((int(number), rest))
    return found
