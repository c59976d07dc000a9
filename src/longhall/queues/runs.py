"""Runs: lists of offsets as first offset, count, first offset, count ..., flat."""

from __future__ import annotations


def runs_of(offsets: list[int]) -> tuple[int, ...]:
    """First offset and count of each unbroken run, in the given order."""
    runs: list[int] = []
    for offset in offsets:
        if runs and runs[-2] + runs[-1] == offset:
            runs[-1] += 1
        else:
            runs.append(offset)
            runs.append(1)
    return tuple(runs)
