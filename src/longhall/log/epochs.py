"""The first offset of each leader epoch in a partition, computed from its batches."""

from __future__ import annotations

from typing import final


@final
class Epochs:
    """Pairs of (epoch, first offset), both ascending."""

    def __init__(self) -> None:
        self._begins: list[tuple[int, int]] = []

    def note(self, epoch: int, offset: int) -> None:
        """A batch of `epoch` was appended at `offset`."""
        if not self._begins or epoch > self._begins[-1][0]:
            self._begins.append((epoch, offset))

    @property
    def count(self) -> int:
        """The number of epochs in the table."""
        return len(self._begins)

    @property
    def oldest(self) -> int:
        """The oldest epoch in the table, or -1."""
        return self._begins[0][0] if self._begins else -1

    def forget_oldest(self) -> None:
        """Remove the oldest epoch."""
        self._begins.pop(0)

    @property
    def latest(self) -> int:
        """The newest epoch with a batch, or -1."""
        return self._begins[-1][0] if self._begins else -1

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1 if it is not known."""
        epoch = -1
        for number, begin in self._begins:
            if begin > offset:
                break
            epoch = number
        return epoch

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch not above `epoch` and the offset after its last record; (-1, -1) if there is none."""
        found = -1
        for number, begin in self._begins:
            if number > epoch:
                return (found, begin) if found >= 0 else (-1, -1)
            found = number
        return (found, log_end) if found >= 0 else (-1, -1)

    def cut_before(self, offset: int) -> None:
        """Remove the epochs that ended before the log's new start; the epoch that spans the start now begins there."""
        while len(self._begins) > 1 and self._begins[1][1] <= offset:
            self._begins.pop(0)
        if self._begins and self._begins[0][1] < offset:
            self._begins[0] = (self._begins[0][0], offset)

    def cut_after(self, offset: int) -> None:
        """Remove the epochs that began at or after the log's new end."""
        while self._begins and self._begins[-1][1] >= offset:
            self._begins.pop()

    def snapshot(self) -> list[tuple[int, int]]:
        """The table as plain values, for `restore`."""
        return list(self._begins)

    def restore(self, begins: list[tuple[int, int]]) -> None:
        """Replace the table by the result of `snapshot`."""
        self._begins = [(epoch, offset) for epoch, offset in begins]
