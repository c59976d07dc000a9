"""Names for shell completion, from the node.

Completion must be quick: if the node does not answer within the timeout, there are no names and no errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from longhall.client.hall import Hall

TIMEOUT_S: Final = 1.0


def complete_topic(incomplete: str) -> list[str]:
    """Topics with this prefix."""

    async def names(hall: Hall) -> list[str]:
        return [topic.name or "" for topic in await hall.topics.list() if not topic.is_internal]

    return _complete(names, incomplete)


def complete_group(incomplete: str) -> list[str]:
    """Groups with this prefix."""

    async def names(hall: Hall) -> list[str]:
        return [group.group_id for group in await hall.groups.list()]

    return _complete(names, incomplete)


def complete_transactional_id(incomplete: str) -> list[str]:
    """Transactional ids with this prefix."""

    async def names(hall: Hall) -> list[str]:
        return [row.transactional_id for row in await hall.transactions.list()]

    return _complete(names, incomplete)


def complete_queue(incomplete: str) -> list[str]:
    """Queues with this prefix."""
    from longhall.cli.api_client import open_client
    from longhall.console.api.queues import QueuePage

    try:
        page = open_client(None, None, TIMEOUT_S).ask("GET", "queues", QueuePage, query={"prefix": incomplete})
        return [queue.name for queue in page.queues]
    except Exception:
        return []


def _complete(names: Callable[[Hall], Awaitable[list[str]]], incomplete: str) -> list[str]:
    import asyncio

    from longhall.cli.kafka_client import call_hall

    async def quickly(hall: Hall) -> list[str]:
        async with asyncio.timeout(TIMEOUT_S):
            return await names(hall)

    try:
        return [name for name in call_hall(None, None, quickly) if name.startswith(incomplete)]
    except Exception:
        return []  # There is no place to say anything: the shell would put it on the command line.
