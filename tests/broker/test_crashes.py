"""Random histories with deaths at any moment, by signal or by power, and what must be true after each."""

from __future__ import annotations

import random

import pytest

from tests.broker.desk import Desk, Life, picture
from tests.broker.workload import Workload


@pytest.mark.parametrize("seed", range(10))
def test_acknowledged_messages_survive_crashes(seed: int) -> None:
    chance = random.Random(seed)
    desk = Desk(seed)
    desk.host.faults.cold_read_chance = 0.0
    workload = Workload(seed)
    for _ in range(4):
        desk.host.faults.cut_after_changes = chance.choice((-1, chance.randrange(400), chance.randrange(1500)))
        desk.live(workload.act, end=chance.choice(("kill", "cut")))
        desk.host.faults.cut_after_changes = chance.choice((-1, chance.randrange(60)))
        pictures: list[dict[str, object]] = []

        async def look(life: Life, pictures: list[dict[str, object]] = pictures) -> bool:
            pictures.append(picture(life.hall))
            return True

        for _ in range(2):  # Twice, and perhaps cut while recovering: the same comes out.
            desk.live(look, end="kill" if desk.host.faults.cut_after_changes < 0 else "cut")
            desk.host.faults.cut_after_changes = -1
        assert all(seen == pictures[0] for seen in pictures)
        desk.live(workload.check)
