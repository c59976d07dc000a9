"""How memory is divided follows from `memory_bytes`."""

from __future__ import annotations

import pytest

from longhall.node.memory_shares import member_options, shares_of
from longhall.node.settings import Settings

MIB = 1024 * 1024


@pytest.mark.parametrize("memory_bytes", [16 * MIB, 256 * MIB, 4096 * MIB])
def test_requests_and_the_unauthenticated_share_are_the_whole_of_it(memory_bytes: int) -> None:
    shares = shares_of(memory_bytes)
    assert shares.requests_bytes + shares.unauthenticated_bytes == memory_bytes
    assert shares.unauthenticated_bytes <= memory_bytes // 16 + MIB


def test_what_is_kept_for_followers_shrinks_with_the_memory() -> None:
    assert member_options(Settings()).recent_bytes == 64 * MIB
    small = member_options(Settings(memory_bytes=16 * MIB))
    assert (small.recent_bytes, small.credit_bytes) == (4 * MIB, MIB)
