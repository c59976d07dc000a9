"""Settings that cannot be more than the descriptors which the system allows: open segments, and connections."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from longhall.node.settings import Settings

SHARE: Final = 3  # A third for segments, and one for each of the two doors that many clients come to.
LEAST: Final = 32

_log = logging.getLogger("longhall.node")


def fit(settings: Settings, descriptors: int) -> Settings:
    """The settings as far as so many descriptors allow them."""
    share = max(LEAST, descriptors // SHARE)
    return msgspec.structs.replace(
        settings,
        open_files_max=min(settings.open_files_max, share),
        connections_max=min(settings.connections_max, share),
        connections_per_address_max=min(settings.connections_per_address_max, share),
    )


def say_what_is_less(asked: Settings, fitted: Settings, descriptors: int) -> None:
    """Log what the system does not allow. Segments are closed and opened again; who may not connect has to know why."""
    if fitted.connections_max < asked.connections_max:
        _log.warning(
            "fewer connections are let in than connections_max says: raise the limit of open files (ulimit -n)",
            extra={
                "connections_max": fitted.connections_max,
                "asked": asked.connections_max,
                "descriptors": descriptors,
            },
        )
