"""What one executor tells of itself when it is asked whether it can work: `longhall pipeline check`."""

from __future__ import annotations

import platform

from longhall.client.hall import Hall
from longhall.pipeline.conversation import Conversation
from longhall.records.native import COMPILED


def visit(bootstrap: str) -> tuple[str, bool, int]:
    """The version of Python there, whether Longhall is compiled there, and how many topics it sees."""

    async def count(hall: Hall) -> int:
        return len(await hall.topics.list())

    with Conversation(bootstrap) as conversation:
        return platform.python_version(), COMPILED, conversation.ask(count)
