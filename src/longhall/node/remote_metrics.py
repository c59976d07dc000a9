"""Metrics of the other processes of a node: requested over peer connections, shown with its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Final

from longhall.console.metrics import Block, blocks_of
from longhall.errors import LonghallError

METRICS: Final = "metrics"  # The verb of the request.
METRICS_S_MAX: Final = 5.0  # The timeout of the request.

_log = logging.getLogger("longhall.node")


async def gathered(asked: Mapping[str, Awaitable[bytes]]) -> dict[str, list[Block]]:
    """The metrics of all processes, by family. `asked` has a request for each process; failed ones are left out."""
    found: dict[str, list[Block]] = {}
    for text in await asyncio.gather(*(_told(who, answer) for who, answer in asked.items())):
        for name, block in blocks_of(text).items():
            found.setdefault(name, []).append(block)
    return found


async def _told(who: str, answer: Awaitable[bytes]) -> str:
    try:
        return (await answer).decode()
    except (OSError, TimeoutError, LonghallError) as error:
        _log.info("a process did not send its metrics", extra={"who": who, "reason": str(error)})
        return ""
