"""The simulated ZooKeeper under faults, by seed: what its clients can rely on, and what they cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from longhall.coordination.coordinator import TreeCoordinator
from longhall.coordination.ports import Conflict, Expired, Ids, MemberDescription, OutcomeUnknown, Session, ShardState
from longhall.coordination.tree import Create, Put
from simulation.world import Simulation
from simulation.zookeeper import SimulatedZooKeeper

TIMEOUT_S = 6.0
Scenario = Callable[[Simulation, SimulatedZooKeeper], Coroutine[Any, Any, None]]


def run(scenario: Scenario, seed: int = 1) -> str:
    """Run it to its end; returns the hash of the trace."""
    simulation = Simulation(seed)
    try:
        simulation.run(scenario(simulation, SimulatedZooKeeper(simulation)))
        assert simulation.loop.failures == []
        return simulation.trace.digest()
    finally:
        simulation.close()


async def node(ensemble: SimulatedZooKeeper, name: str) -> tuple[TreeCoordinator, list[Session]]:
    coordinator = ensemble.coordinator(name)
    heard: list[Session] = []
    coordinator.on_session(heard.append)
    await coordinator.start()
    return coordinator, heard


async def wait_for(holds: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def test_the_session_of_an_unreachable_node_expires() -> None:
    async def scenario(simulation: Simulation, ensemble: SimulatedZooKeeper) -> None:
        first, heard = await node(ensemble, "one")
        second, _ = await node(ensemble, "two")
        before = await first.register(MemberDescription(node_id=1, directory="d"))
        ensemble.cut("one")
        cut_at = simulation.loop.time()

        async def gone() -> bool:
            return await second.members() == {}

        await wait_for(gone)
        assert TIMEOUT_S * 0.8 <= simulation.loop.time() - cut_at <= TIMEOUT_S * 1.4
        # The client of the expired session does not know yet: it is cut off.
        assert heard == [Session.CONNECTED, Session.SUSPENDED]
        with pytest.raises(OutcomeUnknown):
            await first.members()
        ensemble.heal("one")
        await wait_for(_is(lambda: heard[2:] == [Session.EXPIRED, Session.CONNECTED]))
        after = await first.register(MemberDescription(node_id=1, directory="d"))
        assert after.generation > before.generation

    run(scenario)


def test_a_short_disconnection_ends_no_session() -> None:
    async def scenario(simulation: Simulation, ensemble: SimulatedZooKeeper) -> None:
        first, heard = await node(ensemble, "one")
        mine = await first.register(MemberDescription(node_id=1, directory="d"))
        ensemble.reset("one")
        await wait_for(_is(lambda: heard[1:] == [Session.SUSPENDED, Session.CONNECTED]))
        assert await first.members() == {1: mine}

    run(scenario)


def test_a_paused_client_learns_of_its_expired_session_on_resume() -> None:
    async def scenario(simulation: Simulation, ensemble: SimulatedZooKeeper) -> None:
        first, heard = await node(ensemble, "one")
        second, _ = await node(ensemble, "two")
        old = await first.campaign(1)
        made = await first.change_shard(None, ShardState(shard=1, leader=1, epoch=1), under=old)
        ensemble.pause("one")
        await asyncio.sleep(TIMEOUT_S * 2)
        assert heard == [Session.CONNECTED]
        new = await second.campaign(2)
        assert new.epoch == old.epoch + 1
        # It resumes in the middle of its request.
        late = asyncio.ensure_future(
            first.change_shard(made, msgspec.structs.replace(made, leader=3, epoch=2), under=old)
        )
        ensemble.resume("one")
        with pytest.raises((Conflict, Expired, OutcomeUnknown)):
            await late
        await wait_for(_is(lambda: heard[-1] is Session.CONNECTED and Session.EXPIRED in heard))
        assert await second.shard(1) == made
        assert await first.campaign(1) == new

    for seed in range(20):
        run(scenario, seed)


def test_a_dead_process_is_forgotten() -> None:
    async def scenario(simulation: Simulation, ensemble: SimulatedZooKeeper) -> None:
        host = simulation.host("one")
        world = host.boot()
        coordinator = ensemble.coordinator("one", world.process)

        async def live() -> None:
            await coordinator.start()
            await coordinator.register(MemberDescription(node_id=1, directory="d"))

        await world.process.start(live())
        second, _ = await node(ensemble, "two")
        assert set(await second.members()) == {1}
        host.kill()

        async def gone() -> bool:
            return await second.members() == {}

        await wait_for(gone)
        # The same host again: it does not have to wait.
        again = ensemble.coordinator("one", host.boot().process)
        assert host.process is not None
        await host.process.start(again.start())
        await host.process.start(again.register(MemberDescription(node_id=1, directory="d")))

        async def back() -> bool:
            return set(await second.members()) == {1}

        await wait_for(back)  # A server may lag behind.

    run(scenario)


def test_no_session_ends_while_no_server_serves() -> None:
    async def scenario(simulation: Simulation, ensemble: SimulatedZooKeeper) -> None:
        first, heard = await node(ensemble, "one")
        mine = await first.register(MemberDescription(node_id=1, directory="d"))
        ensemble.stop()
        await asyncio.sleep(TIMEOUT_S * 10)
        assert heard == [Session.CONNECTED, Session.SUSPENDED]
        with pytest.raises(OutcomeUnknown):
            await first.next_epoch()
        ensemble.start()
        await wait_for(_is(lambda: heard[-1] is Session.CONNECTED))
        assert Session.EXPIRED not in heard
        assert await first.members() == {1: mine}

    run(scenario)


def test_reads_may_be_old_until_the_server_has_caught_up() -> None:
    old = 0

    async def scenario(simulation: Simulation, ensemble: SimulatedZooKeeper) -> None:
        nonlocal old
        trees = [ensemble.tree(name) for name in ("one", "two")]
        for tree in trees:
            await tree.start(lambda session: None)
        await trees[0].commit(Create("/a", b"0"))
        await trees[1].sync()
        for number in range(10):
            await trees[0].commit(Put("/a", b"%d" % (number + 1), number))
            read = await trees[1].get("/a")
            assert read is not None
            old += read.version <= number
            await trees[1].sync()
            read = await trees[1].get("/a")
            assert read is not None
            assert read.version == number + 1

    for seed in range(10):
        run(scenario, seed)
    assert old > 0


def test_a_lost_answer_says_nothing_about_the_commit() -> None:
    outcomes: set[bool] = set()

    async def scenario(simulation: Simulation, ensemble: SimulatedZooKeeper) -> None:
        first, _ = await node(ensemble, "one")
        state = await first.change_shard(None, ShardState(shard=1, epoch=1))
        ensemble.behaviour.lose_before = ensemble.behaviour.lose_after = 0.5
        for number in range(20):
            after = msgspec.structs.replace(state, leader=1, epoch=state.epoch + 1)
            try:
                state = await first.change_shard(state, after)
            except OutcomeUnknown:
                await wait_for(_is(lambda: first.session is Session.CONNECTED))
                found = await first.shard(1)
                assert found is not None
                assert found.epoch in (state.epoch, state.epoch + 1), number
                outcomes.add(found.epoch > state.epoch)
                state = found

    for seed in range(5):
        run(scenario, seed)
    assert outcomes == {True, False}


def test_numbers_are_unique_and_followers_are_right_under_faults() -> None:
    async def scenario(simulation: Simulation, ensemble: SimulatedZooKeeper) -> None:
        chance = simulation.stream("test")
        names = ["one", "two", "three"]
        nodes = [(await node(ensemble, name))[0] for name in names]
        seen: list[dict[int, ShardState]] = [{} for _ in names]
        for number, each in enumerate(nodes):
            each.watch_shards(lambda shards, number=number: seen.__setitem__(number, dict(shards)))  # type: ignore[misc]
        taken: list[int] = []
        epochs: list[int] = []

        async def work(each: TreeCoordinator, shard: int) -> None:
            for _ in range(30):
                await asyncio.sleep(chance.uniform(0, 2))
                try:
                    taken.extend(await each.take_ids(Ids.PARTITIONS, 3))
                    before = await each.shard(shard)
                    epoch = await each.next_epoch(above=before.epoch if before is not None else 0)
                    await each.change_shard(before, ShardState(shard=shard, leader=shard, epoch=epoch))
                    epochs.append(epoch)
                except (Conflict, OutcomeUnknown, Expired):
                    pass

        async def trouble() -> None:
            ensemble.behaviour.lose_before = ensemble.behaviour.lose_after = 0.05
            for _ in range(8):
                name = chance.choice(names)
                what = chance.choice(["cut", "pause", "reset", "expire", "stop"])
                if what == "cut":
                    ensemble.cut(name)
                elif what == "pause":
                    ensemble.pause(name)
                elif what == "reset":
                    ensemble.reset(name)
                elif what == "stop":
                    ensemble.stop()
                else:
                    ensemble.expire(name)
                await asyncio.sleep(chance.uniform(0, 10))
                ensemble.heal(name)
                ensemble.resume(name)
                if not ensemble.up:
                    ensemble.start()
            ensemble.behaviour.lose_before = ensemble.behaviour.lose_after = 0.0

        await asyncio.gather(trouble(), *(work(each, number % 2 + 1) for number, each in enumerate(nodes)))
        assert len(set(taken)) == len(taken)
        assert len(set(epochs)) == len(epochs)

        async def agreed() -> bool:
            if any(each.session is not Session.CONNECTED for each in nodes):
                return False
            shards = await nodes[0].shards()
            return all(known == shards for known in seen)

        await wait_for(agreed)
        for each in nodes:
            await each.close()

    digests = [run(scenario, seed) for seed in range(12)]
    assert digests[3] == run(scenario, 3)
    assert len(set(digests)) == 12


def _is(holds: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def asked() -> bool:
        return holds()

    return asked


def test_after_data_loss_clients_return_once_they_reset_their_position() -> None:
    async def scenario(simulation: Simulation, ensemble: SimulatedZooKeeper) -> None:
        first, heard = await node(ensemble, "one")
        await first.register(MemberDescription(node_id=1, directory="d"))
        for number in range(1, 10):
            assert await first.next_epoch() == number
        ensemble.forget()
        lost_at = simulation.loop.time()
        await wait_for(_is(lambda: heard[1:] == [Session.SUSPENDED, Session.EXPIRED, Session.CONNECTED]))
        assert simulation.loop.time() - lost_at > TIMEOUT_S, (
            "until then every server refuses it: it has seen more commits"
        )
        assert await first.next_epoch() == 1
        assert ensemble.peek("/members/1") is None

    run(scenario)


def test_a_restored_ensemble_has_the_old_values_and_counters_and_no_session() -> None:
    async def scenario(simulation: Simulation, ensemble: SimulatedZooKeeper) -> None:
        first, heard = await node(ensemble, "one")
        await first.register(MemberDescription(node_id=1, directory="d"))
        state = await first.change_shard(None, ShardState(shard=0, replicas=(1,), in_sync=(1,)))
        await first.next_epoch()
        kept = ensemble.backup()
        await first.change_shard(state, msgspec.structs.replace(state, leader=1, epoch=await first.next_epoch()))
        ensemble.restore(kept)
        assert ensemble.peek("/members/1") is not None, "no server has noticed yet that its session is over"
        await wait_for(_is(lambda: heard[1:] == [Session.SUSPENDED, Session.EXPIRED, Session.CONNECTED]))
        assert await first.shard(0) == state
        assert await first.next_epoch() == 2
        await wait_for(_is(lambda: ensemble.peek("/members/1") is None))
        second, _ = await node(ensemble, "two")
        await second.change_shard(state, msgspec.structs.replace(state, leader=1, epoch=7))
        ensemble.restore(kept)
        await wait_for(_is(lambda: ensemble.peek("/members/1") is None))

    run(scenario)
