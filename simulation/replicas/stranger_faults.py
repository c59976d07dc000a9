"""Unauthenticated processes at the peer ports of a cluster: they know the protocol, the hall and the members, but not
the secret.

| attempt | what it tries |
|---|---|
| plain | the greeting of clusters without a secret |
| guessed | a made-up proof |
| replayed | a proof that a node has sent before |
| reflected | the node's own proof, sent back to it |

No node may welcome or answer them, whatever they send.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, final

import msgspec

from longhall.cluster.rpc.authentication import NONCE_BYTES, Dialer
from longhall.cluster.rpc.wire import (
    ANSWER,
    CHALLENGE,
    GREETING,
    HELLO,
    PROOF,
    WELCOME,
    Challenge,
    Greeting,
    Hello,
    Proof,
    Splitter,
    encode,
    encode_request,
)
from longhall.errors import LonghallError
from simulation.checkers.violation import Violation
from simulation.replicas.fault_target import FaultTarget
from simulation.replicas.host_names import PEERS_PORT, SECRETS, name_of
from simulation.world import SimulatedWorld

STRANGER: Final = "stranger"
NUMBER: Final = 77  # No node has this number.
PATIENCE_S: Final = 10.0
PAUSE_S: Final = 0.2
EPOCH: Final = 10**9
HARM: Final = encode_request(1, "stand", msgspec.msgpack.encode({"epoch": EPOCH})) + encode_request(
    2, "refetch-begin", b""
)


@final
class StrangerFaults:
    """Connection attempts of a process without the secret, against every node."""

    def __init__(self, cluster: FaultTarget, chance: random.Random) -> None:
        self._cluster = cluster
        self._chance = chance
        self._world: SimulatedWorld | None = None

    def heal(self) -> None:
        """Nothing to heal: the attempts end by themselves."""

    async def strangers_knock(self) -> None:
        """Try every attempt at every node, for some seconds."""
        if self._world is None:
            self._world = self._cluster.simulation.host(STRANGER).boot()
        attempts = (self._plain, self._guessed, self._replayed, self._reflected)
        for node in self._cluster.numbers:
            for attempt in self._chance.sample(attempts, len(attempts)):
                await self._try(node, attempt)
            await asyncio.sleep(self._chance.uniform(0, PAUSE_S))

    async def _try(self, node: int, attempt: Callable[[_Line, int], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                line = await self._connect(node)
                await attempt(line, node)
                while await line.hear() is not None:
                    continue
        except (OSError, TimeoutError, LonghallError):
            return
        if line.welcome:
            raise Violation(f"{name_of(node)} accepted an unauthenticated peer: {attempt.__name__.strip('_')}")

    async def _connect(self, node: int) -> _Line:
        assert self._world is not None
        line = _Line()
        await self._world.network.connect(lambda: line, name_of(node), PEERS_PORT)
        return line

    def _greeting(self, node: int) -> Greeting:
        return Greeting(hall=self._cluster.hall_id(), node=node, incarnation=1, purpose="request", reads=99)

    def _member(self, besides: int) -> int:
        return self._chance.choice([node for node in self._cluster.numbers if node != besides])

    async def _plain(self, line: _Line, node: int) -> None:
        line.say(encode(GREETING, self._greeting(self._member(node))) + HARM)

    async def _guessed(self, line: _Line, node: int) -> None:
        member = self._member(node)
        await line.ask(encode(HELLO, Hello(nonce=self._nonce(), node=member, purpose="request")))
        said = msgspec.msgpack.encode(self._greeting(member))
        line.say(encode(PROOF, Proof(proof=self._nonce(), greeting=said)) + HARM)

    async def _replayed(self, line: _Line, node: int) -> None:
        """Replay a handshake of an authenticated node, recorded on another connection."""
        overheard = await self._connect(node)
        dialer = Dialer(SECRETS, self._nonce(), node, self._greeting(NUMBER))
        hello = dialer.begin()
        proof = dialer.receive(CHALLENGE, msgspec.msgpack.encode(await overheard.ask(hello)))
        assert proof is not None
        overheard.say(proof)
        await overheard.hear()
        overheard.close()
        await line.ask(hello)
        line.say(proof + HARM)

    async def _reflected(self, line: _Line, node: int) -> None:
        member = self._member(node)
        challenge = await line.ask(encode(HELLO, Hello(nonce=self._nonce(), node=member, purpose="request")))
        said = msgspec.msgpack.encode(self._greeting(member))
        line.say(encode(PROOF, Proof(proof=challenge.proof, greeting=said)) + HARM)

    def _nonce(self) -> bytes:
        return self._chance.randbytes(NONCE_BYTES)


@final
class _Line(asyncio.Protocol):
    """One connection of an unauthenticated process."""

    def __init__(self) -> None:
        self.welcome = False  # True if it received what only members receive.
        self._splitter = Splitter()
        self._frames: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for kind, body in self._splitter.feed(data):
            self.welcome = self.welcome or kind in (WELCOME, ANSWER)
            self._frames.put_nowait((kind, body))

    def connection_lost(self, error: Exception | None) -> None:
        self._frames.put_nowait(None)

    def say(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    async def hear(self) -> tuple[int, bytes] | None:
        """The next frame; None at the end of the connection."""
        if self.welcome:
            self.close()
            return None
        return await self._frames.get()

    async def ask(self, hello: bytes) -> Challenge:
        """The challenge that answers a hello; raises ConnectionError for any other answer."""
        self.say(hello)
        frame = await self.hear()
        if frame is None or frame[0] != CHALLENGE:
            raise ConnectionError("there was no challenge")
        return msgspec.msgpack.decode(frame[1], type=Challenge)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
