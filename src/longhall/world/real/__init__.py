"""The real platform: files under one data directory, TCP, the system's clocks and randomness.

Other rooms use only `real_world`. The world owns the syncers and the writer (see `sync_lane` and `write_lane`) and the
janitor (see `janitor`): processes that end with it.
"""

from __future__ import annotations

from longhall.world.real.world import RealWorld, real_world

__all__ = ["RealWorld", "real_world"]
