"""The throttle time of clients over a limit or a quota: the response has it, and the connection is not read so long."""

from __future__ import annotations

import asyncio
from typing import Final

from longhall.doors.kafka.connection import Connection

# The longest throttle time of one response, however far the client is over its limit: each request that it has sent
# already waits as long for the one before it, and a client without an answer for half a minute closes the connection.
THROTTLE_MS_MAX: Final = 5_000


def throttle(connection: Connection, debt_ms: int) -> int:
    """Do not read from a connection while its client is in debt; the time that the response tells."""
    throttle_ms = min(debt_ms, THROTTLE_MS_MAX)
    if throttle_ms:
        connection.hold_back()
        asyncio.get_running_loop().call_later(throttle_ms / 1000, connection.let_go)
    return throttle_ms
