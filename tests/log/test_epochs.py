"""Leader epochs by offset, compared with a plain list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.log.epochs import Epochs

Runs = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), max_size=8)


def written(runs: list[tuple[int, int]]) -> tuple[Epochs, list[int]]:
    """Runs of (increase of the epoch, number of offsets), as a table and as the epoch of each offset."""
    epochs = Epochs()
    rows: list[int] = []
    epoch = -1
    for step, count in runs:
        epoch += step
        for _ in range(count):
            epochs.note(epoch, len(rows))
            rows.append(epoch)
    return epochs, rows


@given(Runs)
def test_every_offset_has_its_epoch_and_every_epoch_its_end(runs: list[tuple[int, int]]) -> None:
    epochs, rows = written(runs)
    assert [epochs.epoch_at(offset) for offset in range(len(rows))] == rows
    assert epochs.latest == (rows[-1] if rows else -1)
    for epoch in range(-1, (rows[-1] if rows else 0) + 3):
        known = [number for number in rows if number <= epoch]
        expected = (known[-1], len(known)) if known else (-1, -1)
        assert epochs.end_of(epoch, len(rows)) == expected


@given(Runs, st.floats(0, 1))
def test_trimming_removes_older_epochs_only(runs: list[tuple[int, int]], share: float) -> None:
    epochs, rows = written(runs)
    start = int(len(rows) * share)
    epochs.cut_before(start)
    assert [epochs.epoch_at(offset) for offset in range(start, len(rows))] == rows[start:]
    if 0 < start < len(rows):
        assert epochs.epoch_at(start - 1) == -1
    again = Epochs()
    again.restore(epochs.snapshot())
    assert again.snapshot() == epochs.snapshot()


@given(Runs, st.floats(0, 1))
def test_truncation_removes_newer_epochs(runs: list[tuple[int, int]], share: float) -> None:
    epochs, rows = written(runs)
    end = int(len(rows) * share)
    epochs.cut_after(end)
    assert [epochs.epoch_at(offset) for offset in range(end)] == rows[:end]
    assert epochs.latest == (rows[end - 1] if end else -1)
