"""How far a replay is, while a transaction of it is open: looking never fails, and beginning again ends it."""

from __future__ import annotations

from longhall.client.groups import Committed, Membership
from longhall.client.hall import Hall
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.replay.pace import Pace
from longhall.pipeline.replay.player import Play, Track, reached
from tests.pipeline.conftest import FreshName, MakeTopic


def test_an_open_transaction_is_ignored_by_readers_and_ended_by_the_next_task(
    bootstrap: str, blocking_client: BlockingClient, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    target = make_topic()
    play = Play(fresh_name("replay"), "print", bootstrap, target, 1, True, Pace(0.0, 0))
    name = play.group("source", 0)

    async def leave_open(hall: Hall) -> None:
        await hall.groups.commit(name, {(target, 0): Committed(3, -1, "print")})
        identity = await hall.transactions.identify(name, 60_000)
        await hall.transactions.add_offsets(name, identity, name)
        ahead = {(target, 0): Committed(9, -1, "print")}
        await hall.transactions.commit_offsets(name, identity, name, ahead, Membership(), rising=False)

    blocking_client.ask(leave_open)
    assert blocking_client.ask(lambda hall: reached(hall, play, name)) == 3
    assert Track(play, blocking_client, "source", 0).next_offset == 3
