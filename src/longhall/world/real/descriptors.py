"""How many files and connections this process may have open."""

from __future__ import annotations

import resource


def raise_descriptor_limit() -> int:
    """Ask for as many descriptors as the system allows us, for this process and those it starts; returns how many.

    The soft limit is low by default for the sake of old programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return soft
    return hard if hard != resource.RLIM_INFINITY else 1 << 30
