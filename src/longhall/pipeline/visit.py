"""What one executor tells of itself when it is asked whether it can work: `longhall pipeline check`."""

from __future__ import annotations

import platform
from typing import NamedTuple

from longhall.client.hall import Hall
from longhall.pipeline.conversation import Conversation
from longhall.pipeline.shipping import is_shipped
from longhall.records.native import COMPILED


class Visit(NamedTuple):
    """Its Python, how Longhall came there and in which form, and how many topics it sees."""

    python: str
    shipped: bool
    compiled: bool
    topics: int


def visit(bootstrap: str) -> Visit:
    """Asked on an executor."""

    async def count(hall: Hall) -> int:
        return len(await hall.topics.list())

    with Conversation(bootstrap) as conversation:
        return Visit(platform.python_version(), is_shipped(), COMPILED, conversation.ask(count))
