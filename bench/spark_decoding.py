"""The decoder alone: fetched bytes into Arrow record batches, in rows for each second of CPU time."""

from __future__ import annotations

import os
import time
from typing import Any, Final

from longhall.pipeline.arrow_table import SPARK_TYPES, Shape
from longhall.pipeline.batch_decoder import PartitionDecoder
from longhall.records.batch import Record, build_batch
from longhall.records.compression import CODEC_NAMES
from longhall.records.native import COMPILED

FETCH_BYTES: Final = 2 * 1024 * 1024
CPU_SECONDS: Final = 1.0
_EVERYTHING: Final = tuple(name for name in SPARK_TYPES if name != "headers")


def decoding() -> dict[str, Any]:
    """Rows for each CPU second, by size, compression and columns."""
    figures: dict[str, float] = {}
    for size_bytes in (100, 1000):
        for codec, name in enumerate(CODEC_NAMES):
            for words, columns in (("all", _EVERYTHING), ("value", ("value",))):
                figures[f"{size_bytes} B, {name}, {words}"] = _rows_per_second(size_bytes, codec, columns)
    return {"compiled": COMPILED, "rows_per_cpu_second": figures}


def _fetched(size_bytes: int, codec: int) -> tuple[bytes, int]:
    """Batches of 64 KiB; half of each value is random, so that compression costs something and gains something."""
    rows = 65536 // size_bytes
    batches, offset = [], 0
    while offset * size_bytes < FETCH_BYTES:
        records = [
            Record(-1, 1_700_000_000_000 + at, b"key-%d" % at, os.urandom(size_bytes // 2) + b"x" * (size_bytes // 2))
            for at in range(rows)
        ]
        batches.append(build_batch(records, base_offset=offset, compression=codec))
        offset += rows
    return b"".join(batches), offset


def _rows_per_second(size_bytes: int, codec: int, columns: tuple[str, ...]) -> float:
    fetched, rows = _fetched(size_bytes, codec)
    shape = Shape(columns, "topic", 0)
    best, spent = 0.0, 0.0
    while spent < CPU_SECONDS:
        began = time.process_time()
        seen = sum(batch.num_rows for batch in PartitionDecoder(shape, 0, rows).open(fetched, []))
        took = time.process_time() - began
        assert seen == rows
        best, spent = max(best, rows / took), spent + took
    return best
