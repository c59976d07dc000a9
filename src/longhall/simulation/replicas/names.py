"""How hosts are called."""

from __future__ import annotations


def name_of(node: int) -> str:
    """The host of a node."""
    return f"n{node}"


def numbers_up_to(count: int) -> list[int]:
    """Of so many nodes."""
    return list(range(1, count + 1))
