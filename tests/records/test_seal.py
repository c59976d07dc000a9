"""The seal: opening a sealed batch returns the batch."""

from __future__ import annotations

from longhall.records.batch import build_batch
from longhall.records.seal import open_sealed, seal
from tests.records.strategies import plain


def test_a_sealed_batch_can_be_opened() -> None:
    wire = build_batch(plain(3))
    assert open_sealed(seal(wire)) == wire
