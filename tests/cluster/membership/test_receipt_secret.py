"""The secret of receipts: on record below level 4, told by members from then on, and the same everywhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from longhall.broker.feature_gates import RECEIPT_SECRET_LEVEL
from longhall.broker.recovery import Identity
from longhall.cluster.membership import receipt_secret
from longhall.cluster.membership.join import share_identity
from longhall.cluster.membership.receipt_secret import (
    DIGEST,
    SECRET,
    digest_of,
    learn_secret,
    serve_secret,
    withdraw_secret,
)
from longhall.cluster.rpc.authentication import Secrets
from longhall.cluster.rpc.peers import Peers
from longhall.coordination.ports import Coordinator, MemberDescription, ShardState
from longhall.world.real.world import real_world
from tests.cluster.membership.test_join import coordinators

FIRST = Identity(hall_id="a" * 32, shards=8, secret="b" * 64)
OTHER = Identity(hall_id="c" * 32, shards=3, secret="d" * 64)
SECRETS = Secrets([b"of this cluster, with 32 letters"])


async def state_of(coordinator: Coordinator) -> ShardState:
    state = await coordinator.shard(0)
    assert state is not None
    return state


async def test_below_the_level_whoever_joins_reads_it_in_the_record(tmp_path: Path) -> None:
    one, two = await coordinators(tmp_path / "tree", 2)
    await share_identity(one, 1, FIRST, RECEIPT_SECRET_LEVEL - 1)
    assert (await share_identity(two, 2, OTHER, RECEIPT_SECRET_LEVEL)).secret == FIRST.secret
    assert (await state_of(one)).more == {"shards": 8, SECRET: FIRST.secret}


async def test_from_the_level_on_it_is_not_in_the_record(tmp_path: Path) -> None:
    one, two = await coordinators(tmp_path / "tree", 2)
    kept: list[Identity] = []
    first = await share_identity(one, 1, FIRST, RECEIPT_SECRET_LEVEL, kept.append)
    assert kept == [FIRST], "it is in the directory before anybody hears of its digest"
    assert first.secret == FIRST.secret
    assert (await state_of(one)).more == {"shards": 8, DIGEST: digest_of(FIRST.secret)}
    other = await share_identity(two, 2, OTHER, RECEIPT_SECRET_LEVEL, kept.append)
    assert (other.hall_id, other.shards, other.secret) == (FIRST.hall_id, 8, "")
    assert kept == [FIRST]


async def test_a_node_that_joins_is_told_it_by_a_member(tmp_path: Path) -> None:
    one, two = await coordinators(tmp_path / "tree", 2)
    await share_identity(one, 1, FIRST, RECEIPT_SECRET_LEVEL)
    state = await state_of(one)
    await one.change_shard(state, msgspec.structs.replace(state, epoch=1, leader=1))
    worlds = [real_world(str(tmp_path / str(number))) for number in range(3)]
    liar, member, joiner = (
        Peers(world, FIRST.hall_id, number, 1, secrets=SECRETS) for world, number in zip(worlds, (1, 2, 3), strict=True)
    )
    serve_secret(liar, "e" * 64)
    serve_secret(member, FIRST.secret)
    learning = asyncio.ensure_future(learn_secret(two, joiner, OTHER, _never))
    try:
        for peers, coordinator in ((liar, one), (member, two)):
            await asyncio.sleep(3 * receipt_secret.PAUSE_S)
            assert not learning.done(), "nobody has told it yet, or not the one on record"
            port = await peers.open("127.0.0.1", 0)
            described = MemberDescription(node_id=peers.node, directory="d", addresses={"peer": f"127.0.0.1:{port}"})
            await coordinator.register(described)
        async with asyncio.timeout(30):
            assert await learning == FIRST.secret
    finally:
        learning.cancel()
        for peers in (liar, member, joiner):
            await peers.close()
        for world in worlds:
            world.close()


def _never(identity: Identity) -> None:
    raise AssertionError("another one was first")


async def test_one_that_lost_its_directory_before_anybody_led_brings_another(tmp_path: Path) -> None:
    (one,) = await coordinators(tmp_path / "tree", 1)
    await share_identity(one, 1, FIRST, RECEIPT_SECRET_LEVEL)
    world = real_world(str(tmp_path / "world"))
    kept: list[Identity] = []
    try:
        peers = Peers(world, FIRST.hall_id, 1, 1, secrets=SECRETS)
        assert await learn_secret(one, peers, OTHER, kept.append) == OTHER.secret
    finally:
        world.close()
    assert kept == [OTHER]
    assert (await state_of(one)).more[DIGEST] == digest_of(OTHER.secret)


async def test_when_the_level_is_raised_it_leaves_the_record(tmp_path: Path) -> None:
    (one,) = await coordinators(tmp_path / "tree", 1)
    await share_identity(one, 1, FIRST, RECEIPT_SECRET_LEVEL - 1)
    before = await state_of(one)
    await withdraw_secret(one)
    after = await state_of(one)
    assert after.more == {"shards": 8, DIGEST: digest_of(FIRST.secret)}
    assert msgspec.structs.replace(after, more=before.more, version=before.version) == before
    await withdraw_secret(one)
    assert await state_of(one) == after
    assert (await share_identity(one, 2, FIRST, RECEIPT_SECRET_LEVEL)).secret == FIRST.secret
