"""Data keys of a process: made once, shared by front ends, given up in time, and never replaced by clear text."""

from __future__ import annotations

import asyncio

import pytest

from longhall.errors import Code, LonghallError
from longhall.front.sealing.data_keys import RING_S, DataKeys
from tests.front.sealing.catalogue import Catalogue, CountingMasters, data_keys


async def test_front_ends_that_begin_together_seal_under_one_key() -> None:
    catalogue, masters = Catalogue(), CountingMasters()
    processes = [data_keys(catalogue, masters) for _ in range(4)]
    ciphers = await asyncio.gather(*(keys.fetch_sealing("q") for keys in processes for _ in range(3)))
    assert {cipher.number for cipher in ciphers} == {1}
    assert len({cipher.digest(b"body") for cipher in ciphers}) == 1, "it is the same key"
    assert len(catalogue.rings["q"].keys) == 1


async def test_a_key_is_asked_for_again_after_the_reuse_period() -> None:
    reuse_ms = 60_000  # seal_reuse_ms of a queue, longhall.seal.reuse.ms of a topic, KmsDataKeyReusePeriodSeconds.
    catalogue, masters = Catalogue(reuse_ms=reuse_ms), CountingMasters()
    keys = data_keys(catalogue, masters)
    await keys.fetch_sealing("q")
    masters.text = "# no keys any more\n"
    catalogue.clock.ms += reuse_ms - 1
    assert (await keys.fetch_sealing("q")).number == 1, "in use, whatever its provider says"
    catalogue.clock.ms += 1
    assert keys.sealing("q") is None
    with pytest.raises(LonghallError) as caught:
        await keys.fetch_sealing("q")
    assert caught.value.code is Code.KEY_UNKNOWN


async def test_a_rotation_of_another_process_is_noticed_and_a_destroyed_key_refused() -> None:
    catalogue, masters = Catalogue(), CountingMasters()
    here, there = data_keys(catalogue, masters), data_keys(catalogue, masters)
    old = await here.fetch_sealing("q")
    ring = await there.rotate(await there.read_ring("q"))
    assert there.sealing("q") is not None
    catalogue.clock.ms += int(RING_S * 1000)
    new = await here.fetch_sealing("q")
    assert (old.number, new.number) == (1, 2)
    assert (await here.fetch_opening(ring.topic_id, 1)).number == 1
    wrapped = catalogue.rings["q"].keys[0].wrapped
    ring = await there.rewrap(ring)
    assert catalogue.rings["q"].keys[0].wrapped != wrapped
    await there.destroy(ring, 1)
    catalogue.clock.ms += int(RING_S * 1000)
    assert here.opening(ring.topic_id, 1) is None
    with pytest.raises(LonghallError, match="destroyed") as caught:
        await here.fetch_opening(ring.topic_id, 1)
    assert caught.value.code is Code.KEY_UNKNOWN


async def test_another_master_key_holds_for_the_next_message() -> None:
    catalogue, masters = Catalogue(), CountingMasters()
    keys = data_keys(catalogue, masters)
    await keys.fetch_sealing("q")
    catalogue.set_master("q", "other")
    keys.forget("q")
    assert (await keys.fetch_sealing("q")).number == 2
    assert [key.master for key in catalogue.rings["q"].keys] == ["house", "other"]
    catalogue.set_master("q", "unlisted")
    keys.forget("q")
    with pytest.raises(LonghallError, match="unlisted") as caught:
        await keys.fetch_sealing("q")
    assert caught.value.code is Code.KEY_UNKNOWN


async def test_a_node_without_master_keys_refuses() -> None:
    catalogue = Catalogue()
    keys = DataKeys(None, catalogue.call, catalogue.clock)
    with pytest.raises(LonghallError, match="--keys") as caught:
        await keys.fetch_sealing("q")
    assert caught.value.code is Code.KEY_UNKNOWN


@pytest.mark.parametrize("name", ["managed", "alias/aws/sqs", "house"])
def test_names_of_the_managed_key(name: str) -> None:
    assert data_keys(Catalogue(), CountingMasters()).master_of(name) == "house"


async def test_many_who_ask_share_one_call() -> None:
    catalogue, masters = Catalogue(), CountingMasters()
    keys = data_keys(catalogue, masters)
    await asyncio.gather(*(keys.fetch_sealing("q") for _ in range(100)))
    assert catalogue.reads == 1
