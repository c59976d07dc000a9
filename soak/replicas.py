"""Compares the data directories of nodes that were stopped cleanly.

Batches of two nodes at the same offset must be equal, byte by byte. All nodes must have all batches of the load's
topics, from which nothing is ever removed; settled messages of queues are removed by each node at its own time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from longhall.errors import LonghallError
from longhall.records.batch import read_records
from longhall.records.header import check_batch

COMPLAINTS_MAX: Final = 10
LOOKED_AT: Final = 5  # Batches of a partition that are read to identify its topic.
WRITERS: Final = (b"i1:", b"i2:", b"b1:", b"t1:", b"t2:")

Batches = dict[int, bytes]  # By first offset.


def compare(directories: Mapping[int, Path]) -> list[str]:
    """All differences, as text."""
    complaints: list[str] = []
    kept: dict[int, dict[str, Batches]] = {}
    for node, directory in directories.items():
        kept[node] = {}
        for partition in sorted((directory / "partitions").iterdir()):
            kept[node][partition.name], wrong = _read(partition)
            complaints += [f"node {node}: {line}" for line in wrong]
    for partition_id in sorted({name for found in kept.values() for name in found}):
        versions = {node: found.get(partition_id, {}) for node, found in kept.items()}
        complaints += _differences(partition_id, versions)
    return complaints[:COMPLAINTS_MAX]


def is_of_the_load(segment: Path) -> bool:
    """True if a segment of a running node has records of the load."""
    data = segment.read_bytes()
    try:
        return _is_of_the_load({0: data[: check_batch(data, 0, len(data)).size_bytes]})
    except LonghallError:
        return False


def _read(partition: Path) -> tuple[Batches, list[str]]:
    batches: Batches = {}
    for segment in sorted(partition.glob("*.log")):
        data = segment.read_bytes()
        at = 0
        # Files may be allocated beyond what is written in them.
        while at < len(data) and data[at : at + 16].strip(b"\0"):
            try:
                header = check_batch(data, at, len(data))
            except LonghallError as error:
                return batches, [f"{partition.name}/{segment.name} is damaged at byte {at}: {error}"]
            batches[header.base_offset] = data[at : at + header.size_bytes]
            at += header.size_bytes
    return batches, []


def _differences(partition: str, versions: Mapping[int, Batches]) -> list[str]:
    complaints: list[str] = []
    nodes: Sequence[int] = sorted(versions)
    first = versions[nodes[0]]
    for node in nodes[1:]:
        other = versions[node]
        complaints += [
            f"{partition} at {offset}: nodes {nodes[0]} and {node} differ"
            for offset in first.keys() & other.keys()
            if first[offset] != other[offset]
        ]
        lacking = first.keys() ^ other.keys()
        if lacking and (_is_of_the_load(first) or _is_of_the_load(other)):
            complaints.append(f"{partition}: only one of nodes {nodes[0]} and {node} has {sorted(lacking)[:5]}")
    return complaints


def _is_of_the_load(batches: Batches) -> bool:
    some = list(batches.values())[:LOOKED_AT]
    return any((record.value or b"").startswith(WRITERS) for batch in some for record in read_records(batch, 0))
