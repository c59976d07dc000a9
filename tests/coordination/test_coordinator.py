"""The coordinator on one machine, through a real ZooKeeper and in the simulation."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from longhall.coordination.ports import (
    Conflict,
    Expired,
    FeatureLevel,
    Ids,
    Manager,
    MemberDescription,
    ReplicationGroup,
    Session,
    ShardState,
)
from tests.coordination.sides import Make, Side, eventually, until

ONE = MemberDescription(node_id=1, directory="a", addresses={"kafka": "127.0.0.1:9092"}, rack="r1", feature_level_max=2)


def test_the_cluster_id_is_set_once(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        assert await first.cluster_id("hall") == "hall"
        assert await second.cluster_id("other") == "hall"

    side.run(scenario)


def test_members_are_seen_until_they_leave(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        seen: list[dict[int, MemberDescription]] = []
        second.watch_members(lambda members: seen.append(dict(members)))
        await eventually(lambda: seen == [{}])
        mine = await first.register(ONE)
        assert mine.generation > 0
        assert msgspec.structs.replace(mine, generation=0) == ONE
        await eventually(lambda: seen[-1] == {1: mine})
        moved = await first.register(msgspec.structs.replace(ONE, rack="r2"))
        assert (moved.rack, moved.generation) == ("r2", mine.generation)
        await eventually(lambda: seen[-1] == {1: moved})
        assert await first.members() == {1: moved}
        await first.close()
        await eventually(lambda: seen[-1] == {})
        assert await second.members() == {}

    side.run(scenario)


def test_a_restarted_node_replaces_its_registration(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        before = await first.register(ONE)
        after = await second.register(ONE)
        assert after.generation > before.generation
        await first.close()
        assert await second.members() == {1: after}

    side.run(scenario)


def test_a_second_host_under_the_same_number_is_refused(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        mine = await first.register(ONE)
        with pytest.raises(Conflict, match="another data directory"):
            await second.register(msgspec.structs.replace(ONE, directory="b"))
        assert await second.members() == {1: mine}
        await first.close()
        theirs = await second.register(msgspec.structs.replace(ONE, directory="b"))
        assert theirs.generation > mine.generation

    side.run(scenario)


def test_there_is_one_controller_and_each_term_is_new(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        seen: list[Manager | None] = []
        second.watch_manager(seen.append)
        await eventually(lambda: seen == [None])
        office = await first.campaign(1)
        assert office == Manager(node_id=1, epoch=1)
        assert await first.campaign(1) == office
        assert await until(lambda: second.campaign(2), lambda manager: True) == office
        await eventually(lambda: seen[-1] == office)
        await first.resign(office)
        await eventually(lambda: seen[-1] is None)
        await first.resign(office)  # A repeat is harmless.
        later = await second.campaign(2)
        assert later == Manager(node_id=2, epoch=2)
        await first.resign(office)  # A resignation from a past term does not end the next one.
        await until(first.manager, lambda manager: manager == later)
        await second.close()
        await until(first.manager, lambda manager: manager is None)
        assert (await first.campaign(1)).epoch == 3

    side.run(scenario)


def test_a_restarted_controller_gets_a_new_term_at_once(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        before = await first.campaign(1)
        after = await second.campaign(1)
        assert after.epoch > before.epoch
        await first.close()
        assert await second.manager() == after

    side.run(scenario)


def test_one_of_many_candidates_is_elected(side: Side) -> None:
    async def scenario(make: Make) -> None:
        nodes = [await make() for _ in range(5)]
        said = await asyncio.gather(*(node.campaign(number) for number, node in enumerate(nodes, 1)))
        assert len(set(said)) == 1
        assert said[0].epoch == 1

    side.run(scenario)


def test_a_shard_is_changed_by_compare_and_set(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        assert await first.shard(7) is None
        made = await first.change_shard(
            None, ShardState(shard=7, leader=1, epoch=4, replicas=(1, 2, 3), in_sync=(1, 2, 3))
        )
        assert made.version == 0
        with pytest.raises(Conflict):
            await second.change_shard(None, ShardState(shard=7))
        assert await second.shard(7) == made
        smaller = await second.change_shard(made, msgspec.structs.replace(made, in_sync=(1, 2)))
        assert smaller.version == 1
        with pytest.raises(Conflict):
            await first.change_shard(made, msgspec.structs.replace(made, leader=2, epoch=5))
        assert await first.shard(7) == smaller
        with pytest.raises(Conflict):
            await first.remove_shard(made)
        await first.remove_shard(smaller)
        await until(second.shards, lambda shards: shards == {})

    side.run(scenario)


def test_one_of_many_concurrent_changes_succeeds(side: Side) -> None:
    async def scenario(make: Make) -> None:
        nodes = [await make() for _ in range(4)]
        made = await nodes[0].change_shard(None, ShardState(shard=1, epoch=1))

        async def take(number: int) -> bool:
            epoch = await nodes[number].next_epoch(above=made.epoch)
            try:
                await nodes[number].change_shard(made, ShardState(shard=1, leader=number + 1, epoch=epoch))
            except Conflict:
                return False
            return True

        won = await asyncio.gather(*(take(number) for number in range(4)))
        assert sum(won) == 1
        state = await nodes[3].shard(1)
        assert state is not None
        assert won[state.leader - 1]

    side.run(scenario)


def test_a_deposed_controller_changes_nothing(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        old = await first.campaign(1)
        made = await first.change_shard(None, ShardState(shard=1, leader=1, epoch=1), under=old)
        changed = await first.change_shard(made, msgspec.structs.replace(made, leader=2, epoch=2), under=old)
        assert changed.version == 1
        await first.resign(old)
        after = msgspec.structs.replace(changed, leader=1, epoch=3)
        with pytest.raises(Conflict):
            await first.change_shard(changed, after, under=old)
        new = await second.campaign(2)
        with pytest.raises(Conflict):
            await first.change_shard(changed, after, under=old)
        assert await first.shard(1) == changed
        assert (await second.change_shard(changed, after, under=new)).leader == 1

    side.run(scenario)


def test_shards_are_watched(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        seen: list[dict[int, ShardState]] = []
        watch = second.watch_shards(lambda shards: seen.append(dict(shards)))
        states = {n: await first.change_shard(None, ShardState(shard=n, epoch=1)) for n in range(12)}
        await eventually(lambda: bool(seen) and seen[-1] == states)
        assert list(seen[-1]) == list(range(12))
        for number in (3, 11, 3):
            after = msgspec.structs.replace(states[number], in_sync=(*states[number].in_sync, number))
            states[number] = await first.change_shard(states[number], after)
        await first.remove_shard(states.pop(5))
        await eventually(lambda: seen[-1] == states)
        # Removed and created between two reads: the current value counts.
        await first.remove_shard(states.pop(6))
        states[6] = await first.change_shard(None, ShardState(shard=6, leader=9, epoch=8))
        await eventually(lambda: seen[-1] == states)
        watch.cancel()
        told = len(seen)
        await first.remove_shard(states.pop(6))
        await asyncio.sleep(0.05)
        assert len(seen) == told
        assert await second.shards() == states

    side.run(scenario)


def test_fields_of_a_later_version_are_preserved(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        made = await first.change_shard(None, ShardState(shard=1, epoch=1, more={"color": ["red"], "size": 3}))
        read = await second.shard(1)
        assert read == made
        assert read is not None
        await second.change_shard(read, msgspec.structs.replace(read, leader=1, epoch=2))
        again = await first.shard(1)
        assert again is not None
        assert again.more == {"color": ["red"], "size": 3}

    side.run(scenario)


def test_epochs_and_numbers_are_given_once(side: Side) -> None:
    async def scenario(make: Make) -> None:
        nodes = [await make() for _ in range(3)]
        epochs = await asyncio.gather(*(node.next_epoch() for node in nodes for _ in range(4)))
        assert len(set(epochs)) == 12
        assert await nodes[0].next_epoch() > max(epochs)
        assert await nodes[1].next_epoch(above=1000) == 1001
        assert await nodes[2].next_epoch(above=10) == 1002
        blocks = await asyncio.gather(*(node.take_ids(Ids.PRODUCERS, 100) for node in nodes for _ in range(3)))
        assert len({number for block in blocks for number in block}) == 900
        assert await nodes[0].take_ids(Ids.PARTITIONS, 5, first_min=70) == range(70, 75)
        assert await nodes[1].take_ids(Ids.PARTITIONS, 1) == range(75, 76)

    side.run(scenario)


def test_the_feature_level_is_raised_by_compare_and_set(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        none = await first.feature_level()
        assert none == FeatureLevel(level=0, version=-1)
        one = await first.change_feature_level(none, 1)
        with pytest.raises(Conflict):
            await second.change_feature_level(none, 2)
        assert await second.feature_level() == one
        two = await second.change_feature_level(one, 2)
        assert (two.level, two.version) == (2, 1)

    side.run(scenario)


def test_hosts_are_marked_for_draining(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        seen: list[frozenset[int]] = []
        second.watch_drains(seen.append)
        await first.mark_drain(3)
        await first.mark_drain(3)
        await first.mark_drain(4)
        await eventually(lambda: bool(seen) and seen[-1] == {3, 4})
        await first.clear_drain(3)
        await first.clear_drain(3)
        await eventually(lambda: seen[-1] == {4})
        assert await first.drains() == {4}

    side.run(scenario)


def test_wings_are_created_by_one_node_and_seen_by_all(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        seen: list[dict[str, ReplicationGroup]] = []
        second.watch_wings(lambda wings: seen.append(dict(wings)))
        await eventually(lambda: seen == [{}])
        made = await first.change_wing(None, ReplicationGroup(name="a", number=1, hosts=(1, 2)))
        await eventually(lambda: seen[-1] == {"a": made})
        with pytest.raises(Conflict):
            await second.change_wing(None, ReplicationGroup(name="a", number=2))
        moved = await second.change_wing(made, msgspec.structs.replace(made, hosts=(2, 3), reserved=True))
        with pytest.raises(Conflict):
            await first.change_wing(made, made)
        await eventually(lambda: seen[-1] == {"a": moved})
        await until(first.wings, lambda wings: wings == {"a": moved})

    side.run(scenario)


def test_a_wing_has_its_own_coordinator_in_the_same_session(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first, second = await make(), await make()
        await first.change_wing(None, ReplicationGroup(name="a", number=1))
        there, here = first.beside("a"), second.beside("a")
        await there.start()
        await here.start()
        assert there.session is first.session
        assert await there.cluster_id("wing") == "wing"
        assert await first.cluster_id("hall") == "hall"
        seen: list[dict[int, MemberDescription]] = []
        here.watch_members(lambda members: seen.append(dict(members)))
        mine = await there.register(ONE)
        await eventually(lambda: seen[-1:] == [{1: mine}])
        assert await second.members() == {}, "a node of the wing is not a node of the hall"
        state = await there.change_shard(None, ShardState(shard=0, leader=1, epoch=1, replicas=(1,), in_sync=(1,)))
        await until(lambda: here.shard(0), lambda found: found == state)
        assert await first.shard(0) is None
        manager = await there.campaign(1)
        await until(here.manager, lambda found: found == manager)
        assert await first.manager() is None
        await here.close()
        assert await second.cluster_id("") == "hall", "the session continues"
        await first.close()
        await eventually(lambda: there.session is Session.CLOSED)
        again = second.beside("a")
        await again.start()
        await until(again.members, lambda members: members == {})

    side.run(scenario)


def test_a_closed_coordinator_does_nothing(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first = await make()
        heard: list[Session] = []
        first.on_session(heard.append)
        assert first.session is Session.CONNECTED
        await first.close()
        assert heard == [Session.CLOSED]
        with pytest.raises(Expired):
            await first.change_shard(None, ShardState(shard=1))

    side.run(scenario)


def test_a_watch_continues_after_its_callback_failed(side: Side) -> None:
    async def scenario(make: Make) -> None:
        first = await make()
        failures: list[object] = []
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        seen: list[frozenset[int]] = []

        def heard(drains: frozenset[int]) -> None:
            seen.append(drains)
            if drains:
                raise ValueError("not this one")

        first.watch_drains(heard)
        await eventually(lambda: seen == [frozenset()])
        await first.mark_drain(1)
        await eventually(lambda: len(failures) == 1)
        await first.clear_drain(1)
        await eventually(lambda: seen[-1] == frozenset())
        loop.set_exception_handler(before)

    side.run(scenario)
