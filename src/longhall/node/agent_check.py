"""The agent of HAProxy's `agent-check`: one line for each connection says what the balancer should do with this node.

    the node                                            the line
    would carry out a client's send now                 ready up
    was told to stop, and completes what is under way   drain
    would not, for the reason that /readyz gives        down#REASON

`drain` lets HAProxy send no new connections and keep the open ones. The line ends with a newline, and the connection is
closed behind it. What a connection sends is ignored. `maint` is not said here: it is the operator's word in HAProxy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, cast, final

from longhall.node.addresses import Address, parse_address
from longhall.world.ports import Listener, Network

CONNECTIONS_MAX: Final = 64  # Under way; more are closed without a line, and HAProxy keeps the last state.
REASON_CHARACTERS_MAX: Final = 200

_log = logging.getLogger("longhall.node")

Status = Callable[[], Awaitable[str]]


def line_of(*, draining: bool, trouble: str | None) -> str:
    """The line for a node in this state, without its newline."""
    if draining:
        return "drain"
    if trouble is None:
        return "ready up"
    plain = "".join(one if one.isascii() and one.isprintable() else "?" for one in trouble)
    return f"down#{plain[:REASON_CHARACTERS_MAX]}"


@final
class AgentCheck:
    """The listening socket of the agent. `status` gives the line."""

    def __init__(self, status: Status) -> None:
        self.address: Address | None = None  # None until it is open.
        self.connections: set[asyncio.Task[None]] = set()
        self._status = status
        self._listener: Listener | None = None

    async def open(self, network: Network, address: str) -> None:
        """Listen. OSError if that is not possible."""
        wanted = parse_address(address)
        self._listener, port = await network.listen(self._connection, wanted.host, wanted.port)
        self.address = Address(wanted.host, port)

    def close(self) -> None:
        """Stop listening, and drop the connections."""
        if self._listener is not None:
            self._listener.close()
        for task in list(self.connections):
            task.cancel()

    def _connection(self) -> asyncio.BaseProtocol:
        return AgentConnection(self)

    async def answer(self, transport: asyncio.Transport) -> None:
        """Send the line, then close the connection. Without a line HAProxy keeps the state of the last one."""
        try:
            transport.write((await self._status()).encode() + b"\n")
        except Exception:  # A failed check must not end the node.
            _log.exception("an agent check failed")
        finally:
            transport.close()


@final
class AgentConnection(asyncio.Protocol):
    """One connection of a balancer."""

    def __init__(self, agent: AgentCheck) -> None:
        self._agent = agent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Answer at once: the balancer waits for the line."""
        stream = cast(asyncio.Transport, transport)  # uvloop has a class of its own.
        if len(self._agent.connections) >= CONNECTIONS_MAX:
            stream.close()
            return
        task = asyncio.get_running_loop().create_task(self._agent.answer(stream), name="answer an agent check")
        self._agent.connections.add(task)
        task.add_done_callback(self._agent.connections.discard)
