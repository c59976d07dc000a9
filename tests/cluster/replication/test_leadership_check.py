"""A leader that asks whether it still is one, before it says for good that something is not there."""

from __future__ import annotations

import asyncio

import pytest

from longhall.cluster.replication import leadership_check
from longhall.cluster.replication.leadership_check import STILL, LeadershipCheck
from longhall.errors import Code, LonghallError
from tests.cluster.rpc.test_leader_client import Pair, _until, pair


class Asked:
    """Node 2 leads epoch 1; node 1 knows of the epoch that the test wants."""

    def __init__(self, two: Pair) -> None:
        self.known = 1
        self.questions = 0
        self.told = two.told[2]
        self.told.leader = 2
        self.side = LeadershipCheck(two.told[2], two.peers[2], lambda: 1, lambda: (1, 2))
        two.peers[1].serve(STILL, self._answer)

    async def _answer(self, node: int, asked: bytes) -> bytes:
        self.questions += 1
        await asyncio.sleep(0.01)
        return b"%d" % self.known


async def _refused(side: LeadershipCheck) -> Code:
    with pytest.raises(LonghallError) as refused:
        await side.confirm()
    return refused.value.code


async def test_who_is_in_sync_and_knows_of_no_later_epoch_confirms_it() -> None:
    async with pair() as two:
        asked = Asked(two)
        await asyncio.gather(*(asked.side.confirm() for _ in range(50)))
        assert asked.questions == 1
        await asked.side.confirm()
        assert asked.questions == 2


async def test_whoever_comes_while_it_is_asked_is_told_of_a_later_answer() -> None:
    async with pair() as two:
        asked = Asked(two)
        first = asyncio.ensure_future(asked.side.confirm())
        await _until(lambda: asked.questions == 1)
        await asyncio.gather(first, *(asked.side.confirm() for _ in range(50)))
        assert asked.questions == 2


async def test_a_later_epoch_is_waited_for_until_it_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership_check, "PAUSE_S", 0.001)
    async with pair() as two:
        asked = Asked(two)
        asked.known = 2
        waiting = asyncio.ensure_future(asked.side.confirm())
        await _until(lambda: asked.questions >= 3)
        assert not waiting.done()
        asked.told.leader = 1
        await waiting


async def test_it_is_refused_while_somebody_who_could_lead_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership_check, "PAUSE_S", 0.001)
    monkeypatch.setattr(leadership_check, "CONFIRM_S_MAX", 0.02)
    async with pair() as two:
        asked = Asked(two)
        asked.known = 2
        assert await _refused(asked.side) is Code.NOT_READY
        await two.peers[1].close()
        assert await _refused(asked.side) is Code.NOT_READY
        asked.told.leader = 1
        await asked.side.confirm()


async def test_an_earlier_version_is_believed_to_follow() -> None:
    async with pair() as two:
        two.told[2].leader = 2
        side = LeadershipCheck(two.told[2], two.peers[2], lambda: 1, lambda: (1, 2))
        with pytest.raises(LonghallError) as refused:
            await two.peers[2].request(1, STILL, b"", 5.0)
        assert refused.value.code is Code.NOT_READY
        await side.confirm()


async def test_others_are_told_the_newest_epoch_that_is_known_here() -> None:
    async with pair() as two:
        LeadershipCheck(two.told[1], two.peers[1], lambda: 7, lambda: (1, 2))
        assert await two.peers[2].request(1, STILL, b"", 5.0) == b"7"
