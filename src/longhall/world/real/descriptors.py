"""The limit of open files and connections of this process."""

from __future__ import annotations

import resource


def raise_descriptor_limit() -> int:
    """Raise the descriptor limit to the allowed maximum, for this process and its children; returns the limit.

    The soft limit is low by default for the sake of old programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return soft
    return hard if hard != resource.RLIM_INFINITY else 1 << 30
