"""Metrics of other processes that belong to the same node: asked over the links between them, shown beside its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Final

from longhall.console.metrics import Block, blocks_of
from longhall.errors import LonghallError

METRICS: Final = "metrics"  # The verb,
METRICS_S_MAX: Final = 5.0  # and how long an answer may take.

_log = logging.getLogger("longhall.node")


async def gathered(asked: Mapping[str, Awaitable[bytes]]) -> dict[str, list[Block]]:
    """What all of them count, by family; those that do not answer are left out. The keys say who they are."""
    found: dict[str, list[Block]] = {}
    for text in await asyncio.gather(*(_told(who, answer) for who, answer in asked.items())):
        for name, block in blocks_of(text).items():
            found.setdefault(name, []).append(block)
    return found


async def _told(who: str, answer: Awaitable[bytes]) -> str:
    try:
        return (await answer).decode()
    except (OSError, TimeoutError, LonghallError) as error:
        _log.info("somebody did not tell its metrics", extra={"who": who, "reason": str(error)})
        return ""
