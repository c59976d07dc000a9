"""The real side of the ports: files under one data directory, TCP, the system's clocks and randomness.

`real_world` is the only thing that other rooms take from here. The world owns two kinds of processes, which live and
die with it: the syncers (see `syncing`) and the janitor (see `janitor`).
"""

from __future__ import annotations

from longhall.world.real.world import RealWorld, real_world

__all__ = ["RealWorld", "real_world"]
