"""Sealed messages and batches: what opens, what does not, and nonces that never repeat."""

from __future__ import annotations

import secrets

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.front.sealing.batches import BatchSealer
from longhall.front.sealing.cipher import DataCipher, NonceSource
from longhall.front.sealing.messages import MessageSealer
from longhall.front.sealing.seal_order import SealOrder
from longhall.queues.messages import Delivery, Outgoing
from longhall.queues.settings import QueueSettings
from longhall.records.batch import build_batch, parse_header, read_records, stored_prefix
from longhall.records.record import Record
from longhall.records.seal import Seal, parse_seal
from tests.front.sealing.catalogue import Catalogue, CountingMasters, data_keys

SEALED = QueueSettings(sealed="house")


def sealer(catalogue: Catalogue, masters: CountingMasters | None = None) -> MessageSealer:
    return MessageSealer(data_keys(catalogue, masters or CountingMasters()), secrets.token_bytes)


def delivered(message: Outgoing, **changes: object) -> Delivery:
    delivery = Delivery(message_id=message.message_id, receipt="r", body=message.body, seal=message.seal)
    return msgspec.structs.replace(delivery, **changes)


async def code_of(opener: MessageSealer, queue: str, delivery: Delivery) -> Code:
    with pytest.raises(LonghallError) as caught:
        await opener.open_one(queue, delivery)
    return caught.value.code


async def test_a_message_opens_where_it_was_sealed_and_nowhere_else() -> None:
    catalogue, masters = Catalogue("q", "other"), CountingMasters()
    here, there = sealer(catalogue, masters), sealer(catalogue, masters)
    [first, second] = await here.seal("q", SEALED, [Outgoing(body=b"one"), Outgoing(body=b"two")])
    assert b"one" not in first.body
    assert (await there.open_one("q", delivered(first))).body == b"one", "another process has the same keys"
    assert here.open_now("q", [delivered(first), delivered(second)]) is not None
    for bad in (
        delivered(first, body=second.body),
        delivered(first, body=second.body, seal=second.seal),
        delivered(first, message_id=second.message_id),
        delivered(first, body=first.body[:-1]),
        delivered(first, body=first.body[:10]),
        delivered(first, body=b""),
        delivered(first, seal=first.seal[:-1]),
    ):
        assert await code_of(there, "q", bad) is Code.SEAL_BROKEN
    assert await code_of(there, "other", delivered(first)) is Code.SEAL_BROKEN
    dead = delivered(first, dead_letter_source="q")
    assert (await there.open_one("other", dead)).body == b"one"
    seal = parse_seal(first.seal)
    unknown = Seal(seal.topic_id, 9, seal.prefix, seal.counter).encode()
    assert await code_of(there, "q", delivered(first, seal=unknown)) is Code.KEY_UNKNOWN


async def test_a_message_of_a_key_that_was_rotated_stays_readable() -> None:
    catalogue = Catalogue()
    one = sealer(catalogue)
    [old] = await one.seal("q", SEALED, [Outgoing(body=b"old")])
    await one.keys.rotate(await one.keys.read_ring("q"))
    [new] = await one.seal("q", SEALED, [Outgoing(body=b"new")])
    assert [parse_seal(message.seal).key_number for message in (old, new)] == [1, 2]
    assert [(await one.open_one("q", delivered(message))).body for message in (old, new)] == [b"old", b"new"]


async def test_digests_of_contents_are_keyed_and_survive_a_rotation() -> None:
    one = sealer(Catalogue())
    settings = QueueSettings(sealed="house", deduplication="content")
    [first] = await one.seal("q", settings, [Outgoing(body=b"same")])
    await one.keys.rotate(await one.keys.read_ring("q"))
    [second] = await one.seal("q", settings, [Outgoing(body=b"same")])
    [other] = await one.seal("q", settings, [Outgoing(body=b"other")])
    [given_id] = await one.seal("q", settings, [Outgoing(body=b"other", deduplication_id="mine")])
    assert first.deduplication_id == second.deduplication_id != other.deduplication_id
    assert given_id.deduplication_id == "mine"
    assert sealer(Catalogue()).seal_now("q", settings, [first]) is None


def test_nonces_do_not_repeat_over_keys_processes_and_restarts() -> None:
    """The pair of prefix and counter is what a key is used with: each process has its prefix, and counts."""
    seen = set()
    for _ in range(50):
        nonces = NonceSource(secrets.token_bytes)
        for cipher in (DataCipher(b"t" * 16, 1, bytes(32)), DataCipher(b"t" * 16, 2, bytes(32))):
            for _ in range(20):
                raw, _aes, nonce = cipher.seal(nonces)
                seal = parse_seal(raw)
                assert int.from_bytes(nonce, "big") == seal.counter
                seen.add((seal.prefix, nonce))
    assert len(seen) == 50 * 2 * 20


def test_processes_derive_different_keys_from_one_data_key() -> None:
    cipher = DataCipher(b"t" * 16, 1, bytes(32))
    texts = set()
    for _ in range(10):
        _, aes, _ = cipher.seal(NonceSource(secrets.token_bytes))
        texts.add(aes.encrypt(bytes(12), b"the same nonce and text", b""))
    assert len(texts) == 10


def records(count: int) -> list[Record]:
    return [Record(-1, 1000 + at, b"key", b"value %d" % at, (("h", b"x"),)) for at in range(count)]


def stored(batch: bytes, offset: int) -> bytes:
    return stored_prefix(offset, len(batch), 3) + batch[16:]


@given(st.integers(1, 5), st.sampled_from([0, 1, 2, 3, 4]), st.booleans())
def test_a_batch_is_opened_as_it_was_produced(count: int, compression: int, transactional: bool) -> None:
    import asyncio

    async def play() -> None:
        one = sealer(Catalogue("t"))
        batches = BatchSealer(one, secrets.token_bytes)
        wire = build_batch(
            records(count),
            producer_id=7,
            producer_epoch=0,
            base_sequence=5,
            compression=compression,
            transactional=transactional,
        )
        cipher = await one.keys.fetch_sealing("t")
        sealed = stored(batches.seal_batch(cipher, 2, b"frame" + wire, 5, len(wire)), 40)
        assert b"value" not in sealed
        assert b"key" not in sealed
        assert await batches.open_all("t", 2, sealed) == [stored(wire, 40)]
        by_record = batches.seal_records(cipher, None, wire, 0, len(wire))
        assert b"value" not in by_record
        [opened] = await batches.open_all("t", 2, by_record)
        assert [(one.key, one.value, one.headers[-1]) for one in read_records(opened, 0)] == [
            (one.key, one.value, ("h", b"x")) for one in records(count)
        ]
        assert parse_header(opened, 0).base_sequence == 5

    asyncio.run(play())


async def test_a_batch_of_another_topic_partition_or_place_does_not_open() -> None:
    one = sealer(Catalogue("t", "u"))
    batches = BatchSealer(one, secrets.token_bytes)
    wire = build_batch(records(2))
    cipher = await one.keys.fetch_sealing("t")
    first, second = (stored(batches.seal_batch(cipher, 0, wire, 0, len(wire)), offset) for offset in (0, 2))
    assert len(await batches.open_all("t", 0, first + second)) == 2
    for topic, partition, data in (("u", 0, first), ("t", 1, first), ("t", 0, stored(first, 4)), ("t", 0, first[:100])):
        with pytest.raises(LonghallError) as caught:
            await batches.open_all(topic, partition, data)
        assert caught.value.code in (Code.SEAL_BROKEN, Code.KEY_UNKNOWN), (topic, partition)
    assert len(await batches.open_all("t", 0, first + stored(first, 2) + second)) == 1, "up to the first that is wrong"
    assert len(await BatchSealer(one, secrets.token_bytes).open_all("t", 0, second)) == 1, "a reader that starts later"


def test_the_order_of_seals() -> None:
    order = SealOrder()
    places = [(10, 1), (20, 5), (30, 9)]
    for offset, counter in [*places, *reversed(places), (25, 7)]:
        order.check(b"t", 0, Seal(b"t", 1, b"p", counter), offset)
    for offset, counter in [(40, 9), (40, 5), (30, 8), (20, 10)]:
        with pytest.raises(LonghallError):
            order.check(b"t", 0, Seal(b"t", 1, b"p", counter), offset)
    order.check(b"t", 0, Seal(b"t", 1, b"another process", 1), 40)
    order.check(b"t", 1, Seal(b"t", 1, b"p", 1), 40)
