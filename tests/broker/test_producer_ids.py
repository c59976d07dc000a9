"""Producer ids: no id is given out twice, by the leader or in a block for another process, whatever dies in between."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
import pytest

from longhall.broker.producer_ids import ProducerIdBlock, ProducerIds, reserve_producer_ids, take_producer_id
from longhall.errors import Code, LonghallError
from tests.broker.desk import Desk, Life


@pytest.mark.parametrize("end", ["kill", "cut"])
def test_producer_ids_are_unique_in_a_hall(end: str) -> None:
    given: list[int] = []
    blocks: list[ProducerIdBlock] = []
    for seed in range(2):
        desk = Desk(seed)
        given.clear()
        blocks.clear()

        async def play(life: Life, lasts_s: float) -> None:
            async def take() -> None:
                given.append(await take_producer_id(life.hall))

            async def reserve() -> None:
                blocks.append(await reserve_producer_ids(life.hall))

            for number in range(1_500):
                asyncio.get_running_loop().create_task(take() if number % 100 else reserve())
            await asyncio.sleep(lasts_s)

        for lasts_s in (0.0005, 0.002, 0.01, 0.05):
            desk.live(partial(play, lasts_s=lasts_s), end=end)
        everything = given + [number for block in blocks for number in range(block.first, block.below)]
        assert given
        assert blocks
        assert len(set(everything)) == len(everything)


def test_a_wing_takes_from_its_block_and_asks_once_when_it_is_used_up() -> None:
    asked: list[ProducerIdBlock] = []
    refusals: list[LonghallError] = []
    desk = Desk()

    async def play(life: Life) -> None:
        async def reserve() -> ProducerIdBlock:
            await asyncio.sleep(0)
            if refusals:
                raise refusals.pop()
            asked.append(ProducerIdBlock(10 * len(asked), 10 * len(asked) + 5))
            return asked[-1]

        life.hall.options = msgspec.structs.replace(life.hall.options, wing=1)
        ids = ProducerIds(life.hall, reserve)
        refusals.append(LonghallError(Code.NOT_READY, "no leader"))
        with pytest.raises(LonghallError):
            await ids.take()
        assert await asyncio.gather(*(ids.take() for _ in range(5))) == [0, 1, 2, 3, 4]
        assert len(asked) == 1
        assert sorted(await asyncio.gather(*(ids.take() for _ in range(12)))) == [
            10,
            11,
            12,
            13,
            14,
            20,
            21,
            22,
            23,
            24,
            30,
            31,
        ]
        assert len(asked) == 4

    desk.live(play)
