"""Which leader epoch began at which offset of a partition: a fold over its batches."""

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
        """How many are remembered."""
        return len(self._begins)

    @property
    def oldest(self) -> int:
        """The first epoch that is remembered, or -1."""
        return self._begins[0][0] if self._begins else -1

    def forget_oldest(self) -> None:
        """The oldest one is not remembered any more."""
        self._begins.pop(0)

    @property
    def latest(self) -> int:
        """The newest epoch that wrote something, or -1."""
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
        """The largest epoch not above `epoch` and the offset behind its last record; (-1, -1) if there is none."""
        found = -1
        for number, begin in self._begins:
            if number > epoch:
                return (found, begin) if found >= 0 else (-1, -1)
            found = number
        return (found, log_end) if found >= 0 else (-1, -1)

    def cut_before(self, offset: int) -> None:
        """Forget what ended before the log's new start; the epoch that spans the start begins there now."""
        while len(self._begins) > 1 and self._begins[1][1] <= offset:
            self._begins.pop(0)
        if self._begins and self._begins[0][1] < offset:
            self._begins[0] = (self._begins[0][0], offset)

    def cut_after(self, offset: int) -> None:
        """Forget what began at or behind the log's new end."""
        while self._begins and self._begins[-1][1] >= offset:
            self._begins.pop()

    def snapshot(self) -> list[tuple[int, int]]:
        """For `restore`."""
        return list(self._begins)

    def restore(self, begins: list[tuple[int, int]]) -> None:
        """Take over what `snapshot` gave."""
        self._begins = [(epoch, offset) for epoch, offset in begins]
