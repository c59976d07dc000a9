"""Settings that the limit of file descriptors bounds: open segments and connections."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from longhall.node.settings import Settings

SHARE: Final = 3  # One third for segments, and one for each of the two doors with many clients.
LEAST: Final = 32

_log = logging.getLogger("longhall.node")


def share_of(descriptors: int) -> int:
    """The part of the descriptors that one door may use for connections."""
    return max(LEAST, descriptors // SHARE)


def fit(settings: Settings, descriptors: int) -> Settings:
    """The settings, reduced to this number of descriptors."""
    share = share_of(descriptors)
    return msgspec.structs.replace(
        settings,
        open_files_max=min(settings.open_files_max, share),
        connections_max=min(settings.connections_max, share),
        connections_per_address_max=min(settings.connections_per_address_max, share),
    )


def say_what_is_less(asked: Settings, fitted: Settings, descriptors: int) -> None:
    """Log a reduced limit of connections. Fewer open segments cost only time, so they are not logged."""
    if fitted.connections_max < asked.connections_max:
        _log.warning(
            "fewer connections are accepted than connections_max allows: raise the limit of open files (ulimit -n)",
            extra={
                "connections_max": fitted.connections_max,
                "asked": asked.connections_max,
                "descriptors": descriptors,
            },
        )
