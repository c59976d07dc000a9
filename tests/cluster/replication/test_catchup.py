"""Reading the log back for a follower: every entry that counts, once, in order, and none that was cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.cluster.replication.catchup import LogReader
from longhall.cluster.rpc.wire import Agreed
from longhall.errors import Code, LonghallError
from longhall.shards.replica import epoch_at
from tests.cluster.replication.test_group_replica import Life, lives

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(1, 5)),
        st.tuples(st.just("cut"), st.integers(0, 4)),
        st.tuples(st.just("write"), st.just(0)),
    ),
    max_size=14,
)


async def read_behind(life: Life, index: int, until: int) -> list[tuple[int, int]]:
    """Index and epoch of what is read."""
    reader = LogReader(life.hall, life.replica, index)
    found: list[tuple[int, int]] = []
    while True:
        stretch = await reader.next(until)
        if stretch is None:
            return found
        for at, entry in enumerate(stretch.entries):
            found.append((stretch.first + at, entry.epoch))


@given(STEPS)
@settings(max_examples=40, deadline=None)
def test_exactly_what_counts_is_read_from_anywhere(steps: list[tuple[str, int]]) -> None:
    async def play(life: Life) -> None:
        epoch = 1
        made = 0
        for step, number in steps:
            if step == "push":
                life.push(epoch, [f"{made + at:03d}" for at in range(number)])
                made += number
            elif step == "cut":
                epoch += 1
                life.group_replica.become_follower(epoch, 2 + epoch % 2)
                life.follower.agreed(Agreed(epoch=epoch, index=max(life.replica.index - number, 0), committed=0))
            else:
                await life.turn()
        await life.hall.commits.durable()
        expected = [(index, epoch_at(life.replica, index)) for index in range(1, life.replica.index + 1)]
        for index in range(life.replica.index + 1):
            assert await read_behind(life, index, life.replica.index) == expected[index:]
            assert await read_behind(life, index, max(index, life.replica.index - 1)) == expected[index:-1]

    lives(play)


def test_what_the_log_has_no_more_is_said_to_be_gone() -> None:
    async def play(life: Life) -> None:
        life.push(1, ["a", "b"])
        await life.hall.commits.durable()
        life.hall.positions.release_before(life.hall.wal.end)
        with pytest.raises(LonghallError) as caught:
            LogReader(life.hall, life.replica, 0)
        assert caught.value.code is Code.OFFSET_OUT_OF_RANGE

    lives(play)
