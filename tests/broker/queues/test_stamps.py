"""Stamped messages: one that is older than a delivered one goes to the head, and stays marked after a crash."""

from __future__ import annotations

from longhall.errors import Code
from longhall.queues.settings import DeadLetters, QueueSettings
from tests.broker.desk import stored_batches
from tests.broker.queues.rig import Queues, Rig

HEAD = QueueSettings(late_stamped="head", settled="keep")


async def sent(queues: Queues, *stamped: tuple[str, int]) -> None:
    for body, stamp in stamped:
        await queues.send("q", body, stamp=stamp)


def test_a_message_older_than_a_delivered_one_goes_to_the_head() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", HEAD)
        await queues.desk.create("plain", QueueSettings())
        await sent(queues, ("a", 1), ("c", 3), ("d", 4), ("e", 5))
        assert await queues.bodies("q", 2) == ["a", "c"]
        await sent(queues, ("b", 2), ("f", 6), ("unstamped", 0), ("bb", 2))
        assert await queues.drain("q") == ["b", "bb", "d", "e", "f", "unstamped"]
        # Without the setting the order is that of arrival.
        await queues.send("plain", "c", stamp=3)
        assert await queues.bodies("plain") == ["c"]
        await queues.send("plain", "d", stamp=4)
        await queues.send("plain", "b", stamp=2)
        assert await queues.drain("plain") == ["d", "b"]

    Rig().live(play)


def test_what_was_delivered_is_known_after_a_crash_and_after_a_snapshot() -> None:
    rig = Rig()

    async def before(queues: Queues) -> None:
        await queues.desk.create("q", HEAD)
        await sent(queues, ("a", 1), ("c", 3), ("d", 4))
        assert await queues.bodies("q", 2) == ["a", "c"]

    async def between(queues: Queues) -> None:
        running = queues.life.hall.running_queue("q")
        assert running is not None
        running.restore(running.snapshot())
        assert running.queue.state.newest_stamp == 3
        await sent(queues, ("b", 2))

    async def after(queues: Queues) -> None:
        assert await queues.drain("q") == ["b", "d"]
        (partition,) = queues.life.hall.routes["q"]
        assert len(stored_batches(partition)) == 4  # A reader of the topic sees each message once.

    rig.live(before)
    rig.live(between)
    rig.live(after, end="cut")


def test_late_messages_keep_their_attempts_and_die() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("dead", QueueSettings())
        letters = DeadLetters(queue="dead", attempts_max=2)
        await queues.desk.create("q", QueueSettings(late_stamped="head", dead_letters=letters))
        await sent(queues, ("b", 2))
        assert await queues.drain("q") == ["b"]
        await sent(queues, ("c", 3), ("a", 1))
        for _ in range(2):
            (late,) = await queues.receive("q", 1)
            assert (late.body, late.stamp) == (b"a", 1)
            await queues.desk.change_lease("q", [(late.receipt, 0)])
        assert await queues.drain("q") == ["c"]
        assert await queues.drain("dead") == ["a"]
        assert queues.desk.depth("q").available == 0

    Rig().live(play)


def test_where_it_is_impossible_it_is_refused() -> None:
    async def play(queues: Queues) -> None:
        desk = queues.desk
        for settings in (
            QueueSettings(late_stamped="head", fifo=True, deduplication="id"),
            QueueSettings(late_stamped="head", priorities=3),
        ):
            assert await queues.refused(desk.create("x", settings)) is Code.INVALID_CONFIGURATION
        await desk.create("q", QueueSettings())
        assert await queues.refused(desk.configure("q", HEAD)) is Code.INVALID_CONFIGURATION
        assert await queues.refused(desk.declare("over", "q", HEAD)) is Code.INVALID_CONFIGURATION

    Rig().live(play)
