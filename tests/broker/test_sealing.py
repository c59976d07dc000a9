"""Data keys in the catalogue: added once, kept through changes, destroyed; and what cannot be sealed."""

from __future__ import annotations

import msgspec
import pytest

from longhall.broker import sealing
from longhall.broker.configuration import SEAL_KEYS, SEALED, check
from longhall.broker.feature_gates import SEALED_LEVEL, check_sealed
from longhall.broker.hall import Hall
from longhall.broker.queues.service import QueueService
from longhall.broker.seal_keys import KEYS_MAX, WrappedKey, decode_keys, encode_keys
from longhall.broker.topic_administration import configure_topic, create_topic
from longhall.errors import Code, LonghallError
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.shards.replica import Replica
from tests.broker.desk import Desk, Life


def key(number: int, wrapped: bytes = b"w") -> WrappedKey:
    return WrappedKey(number, "master", wrapped, 5)


async def sealed_topic(hall: Hall, name: str = "t") -> bytes:
    topic = await create_topic(hall, name, 1, {SEALED: "master"})
    assert topic is not None
    return topic.topic_id


async def refusal(work: object) -> Code:
    with pytest.raises(LonghallError) as caught:
        await work  # type: ignore[misc]
    return caught.value.code


def test_of_two_front_ends_that_add_the_same_key_one_wins() -> None:
    async def play(life: Life) -> None:
        hall = life.hall
        topic_id = await sealed_topic(hall)
        first = await sealing.add_key(hall, topic_id, key(1, b"mine"))
        second = await sealing.add_key(hall, topic_id, key(1, b"yours"))
        assert first == second == sealing.read_ring(hall, "t")
        assert [one.wrapped for one in second.keys] == [b"mine"]
        assert (await sealing.rewrap_key(hall, topic_id, key(1, b"anew"))).keys == [key(1, b"anew")]
        assert await refusal(sealing.rewrap_key(hall, topic_id, key(2))) is Code.KEY_UNKNOWN

    Desk().live(play)


def test_the_key_that_seals_is_not_destroyed_and_numbers_are_not_used_again() -> None:
    async def play(life: Life) -> None:
        hall = life.hall
        topic_id = await sealed_topic(hall)
        await sealing.add_key(hall, topic_id, key(1))
        assert await refusal(sealing.destroy_key(hall, topic_id, 1)) is Code.INVALID_REQUEST
        await sealing.add_key(hall, topic_id, key(2))
        assert (await sealing.destroy_key(hall, topic_id, 1)).keys == [key(2)]
        assert await refusal(sealing.destroy_key(hall, topic_id, 1)) is Code.KEY_UNKNOWN
        assert (await sealing.add_key(hall, topic_id, key(1))).keys == [key(2)]
        assert (await sealing.add_key(hall, topic_id, key(3))).next_number == 4
        for number in range(4, KEYS_MAX + 3):
            if number - 2 < KEYS_MAX:
                await sealing.add_key(hall, topic_id, key(number))
        assert await refusal(sealing.add_key(hall, topic_id, key(KEYS_MAX + 2))) is Code.INVALID_REQUEST

    Desk().live(play)


def test_data_keys_are_not_for_users_to_set() -> None:
    async def play(life: Life) -> None:
        hall = life.hall
        made = encode_keys(2, [key(1)])
        assert decode_keys(made) == (2, [key(1)])
        assert (
            await refusal(create_topic(hall, "t", 1, {SEALED: "m", "longhall.seal.keys": made}))
            is Code.INVALID_CONFIGURATION
        )
        topic_id = await sealed_topic(hall)
        await sealing.add_key(hall, topic_id, key(1))
        assert await refusal(configure_topic(hall, "t", {SEAL_KEYS: made + "="})) is Code.INVALID_CONFIGURATION
        await configure_topic(
            hall, "t", {"retention.ms": "5000"}
        )  # It is not sealed any more; what was sealed is readable.
        ring = sealing.read_ring(hall, "t")
        assert (ring.master, ring.keys) == ("", [key(1)])

    Desk().live(play)


@pytest.mark.parametrize("other", [{"cleanup.policy": "compact"}, {"compression.type": "zstd"}])
def test_a_sealed_topic_is_neither_compacted_nor_compressed_by_the_broker(other: dict[str, str]) -> None:
    with pytest.raises(LonghallError, match=r"longhall\.sealed"):
        check({SEALED: "m", **other})


def test_queues_and_sealed_topics() -> None:
    async def play(life: Life) -> None:
        hall = life.hall
        await sealed_topic(hall)
        queues = QueueService(hall)
        assert await refusal(queues.declare("over", "t", QueueSettings())) is Code.SEALED
        await create_topic(hall, "clear", 1, {})
        await queues.declare("cursor", "clear", QueueSettings())
        assert await refusal(configure_topic(hall, "clear", {SEALED: "m"})) is Code.INVALID_CONFIGURATION
        sealed = QueueSettings(sealed="m", settled="keep")
        await queues.create("q", sealed)
        assert await refusal(configure_topic(hall, "q", {})) is Code.INVALID_CONFIGURATION
        await queues.fork("q", "fork")
        for bad in (
            msgspec.structs.replace(sealed, whole_bytes_max=1 << 30),
            msgspec.structs.replace(sealed, dead_letters=DeadLetters(queue="d", after_delete=True)),
        ):
            assert await refusal(queues.create("bad", bad)) is Code.INVALID_CONFIGURATION

    Desk().live(play)


def test_sealing_needs_its_feature_level() -> None:
    async def play(life: Life) -> None:
        assert await create_topic(life.hall, "lone", 1, {SEALED: "m"}) is not None
        life.hall.replica = Replica(1)
        life.hall.feature_level = SEALED_LEVEL - 1
        with pytest.raises(LonghallError, match=f"feature level {SEALED_LEVEL}"):
            await create_topic(life.hall, "t", 1, {SEALED: "m"})
        life.hall.feature_level = SEALED_LEVEL
        check_sealed(life.hall)
        life.hall.replica = None

    Desk().live(play)
