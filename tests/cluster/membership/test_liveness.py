"""The liveness probe: who answers is alive, who refuses is not, and of the rest nobody knows."""

from __future__ import annotations

import asyncio
from typing import cast

from longhall.cluster.membership.liveness import ALIVE, CACHED_S, Liveness
from longhall.cluster.rpc.peers import Handler, Peers
from longhall.errors import Code, LonghallError
from simulation.world import Simulation


class FakePeers:
    """Other nodes that say what they were told to."""

    node = 1

    def __init__(self, answers: dict[int, Exception | None]) -> None:
        self.answers = answers
        self.asked: list[int] = []
        self.verbs: list[str] = []

    def serve(self, verb: str, handler: Handler) -> None:
        self.verbs.append(verb)

    async def request(self, node: int, verb: str, body: bytes, timeout_s: float) -> bytes:
        self.asked.append(node)
        answer = self.answers[node]
        if answer is not None:
            raise answer
        return b""


def test_what_a_node_says_or_does_not_say_decides() -> None:
    peers = FakePeers(
        {
            2: None,
            3: ConnectionRefusedError(),
            4: TimeoutError(),
            5: ConnectionResetError(),
            6: LonghallError(Code.NOT_READY, "nobody answers alive here"),
        }
    )

    async def play() -> None:
        liveness = Liveness(cast(Peers, peers))
        assert peers.verbs == [ALIVE]
        assert await liveness.probe(range(1, 7)) == {1: True, 2: True, 3: False, 4: None, 5: None, 6: True}
        assert 1 not in peers.asked

    Simulation(1).run(play())


def test_an_answer_counts_for_a_moment() -> None:
    peers = FakePeers({2: None})

    async def play() -> None:
        liveness = Liveness(cast(Peers, peers))
        await liveness.probe([2])
        peers.answers[2] = ConnectionRefusedError()
        assert await liveness.probe([2]) == {2: True}
        await asyncio.sleep(CACHED_S)
        assert await liveness.probe([2]) == {2: False}
        assert peers.asked == [2, 2]

    Simulation(1).run(play())
