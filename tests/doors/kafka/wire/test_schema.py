"""Messages by table: encoded messages can be decoded, and every other input raises WireError."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.doors.kafka.wire.apis import API
from longhall.doors.kafka.wire.headers import FLEXIBLE_FROM
from longhall.doors.kafka.wire.malformed import WireError
from longhall.doors.kafka.wire.messages.cluster import MetadataRequest, MetadataRequestTopic
from longhall.doors.kafka.wire.messages.commits import OffsetCommitRequest
from longhall.doors.kafka.wire.messages.groups import HeartbeatRequest, JoinGroupRequest
from longhall.doors.kafka.wire.messages.membership import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_membership,
)
from longhall.doors.kafka.wire.messages.versions import ApiVersionsRequest
from longhall.doors.kafka.wire.schema import Message, decode, encode, within
from tests.doors.kafka.wire.samples import every_message, sample
from tests.examples import examples

EVERY = every_message()


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(EVERY), st.randoms(use_true_random=False))
def test_every_message_comes_back(which: tuple[type[Message], int], random: Random) -> None:
    cls, version = which
    message = sample(cls, version, random)
    encoded = encode(message, version)
    decoded, at = decode(cls, version, b"before" + encoded + b"after", 6)
    assert decoded == message
    assert at == 6 + len(encoded)


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(EVERY), st.binary(max_size=300))
def test_arbitrary_bytes_are_read_or_refused(which: tuple[type[Message], int], buffer: bytes) -> None:
    cls, version = which
    try:
        _, at = decode(cls, version, buffer, 0)
    except WireError:
        return
    assert at <= len(buffer)


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(EVERY), st.randoms(use_true_random=False), st.data())
def test_damaged_messages_are_read_or_refused(
    which: tuple[type[Message], int], random: Random, data: st.DataObject
) -> None:
    cls, version = which
    encoded = bytearray(encode(sample(cls, version, random), version))
    for _ in range(data.draw(st.integers(1, 3))):
        if encoded:
            encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)))
    try:
        decode(cls, version, bytes(encoded), 0)
    except WireError:
        pass


@pytest.mark.parametrize(("cls", "version"), EVERY)
def test_every_cut_is_refused(cls: type[Message], version: int) -> None:
    encoded = encode(sample(cls, version, Random(1)), version)
    for size in range(0, len(encoded), max(1, len(encoded) // 20)):
        with pytest.raises(WireError):
            decode(cls, version, encoded[:size], 0)


def test_the_table_agrees_with_the_messages() -> None:
    assert set(FLEXIBLE_FROM) == set(API)
    for api in API.values():
        assert api.request.FLEXIBLE == api.response.FLEXIBLE == FLEXIBLE_FROM[api.key]
        assert api.request.__name__ == api.name + "Request"
        assert api.response.__name__ == api.name + "Response"
        assert api.version_min <= api.version_max


def test_versions_are_ranges() -> None:
    assert [within("2-4", version) for version in (1, 2, 4, 5)] == [False, True, True, False]
    assert [within("3+", version) for version in (2, 3, 99)] == [False, True, True]
    assert [within("3", version) for version in (2, 3, 4)] == [False, True, False]
    assert not within("", 0)


def test_fields_of_other_versions_keep_their_defaults() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m", group_instance_id="left out")
    assert decode(HeartbeatRequest, 0, encode(request, 0))[0] == HeartbeatRequest(
        group_id="g", generation_id=3, member_id="m"
    )


def test_a_count_is_checked_before_anything_is_made() -> None:
    announced = (0x7FFFFFFF).to_bytes(4, "big")
    with pytest.raises(WireError, match="elements are announced"):
        decode(MetadataRequest, 1, announced + bytes(64))


def test_elements_of_one_message_have_a_budget() -> None:
    count = 1_100_000
    many = b"\x00" + (count).to_bytes(4, "big") + bytes(2 * count)
    with pytest.raises(WireError, match="More than"):
        decode(MetadataRequest, 1, many[1:])


def test_null_is_refused_where_the_version_has_none() -> None:
    null = (-1).to_bytes(4, "big", signed=True)
    assert decode(MetadataRequest, 1, null)[0].topics is None
    with pytest.raises(WireError, match="Null"):
        decode(MetadataRequest, 0, null)
    with pytest.raises(WireError, match="no null"):
        encode(MetadataRequest(topics=None), 0)


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = encode(ApiVersionsRequest(client_software_name="a", client_software_version="b"), 3)
    assert plain.endswith(b"\0")
    tagged = plain[:-1] + b"\x02" + b"\x63\x03abc" + b"\x64\x00"
    decoded, at = decode(ApiVersionsRequest, 3, tagged)
    assert decoded == ApiVersionsRequest(client_software_name="a", client_software_version="b")
    assert at == len(tagged)
    with pytest.raises(WireError):
        decode(ApiVersionsRequest, 3, plain[:-1] + b"\x01\x63\x04abc")


def test_what_the_wire_cannot_carry_is_refused() -> None:
    with pytest.raises(WireError):
        encode(HeartbeatRequest(generation_id=2**31), 0)
    with pytest.raises(WireError):
        encode(HeartbeatRequest(group_id="x" * 40_000), 4)
    with pytest.raises(WireError):
        encode(HeartbeatRequest(group_id="\udc80"), 0)
    with pytest.raises(WireError):
        encode(MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"short")]), 12)


def test_text_must_be_text() -> None:
    with pytest.raises(WireError, match="UTF-8"):
        decode(HeartbeatRequest, 0, b"\x00\x01\xff" + bytes(6))


def test_a_position_outside_the_frame_is_refused() -> None:
    for at in (-1, 2):
        with pytest.raises(WireError):
            decode(OffsetCommitRequest, 2, b"\0", at)


def test_defaults_are_not_shared() -> None:
    first, second = JoinGroupRequest(), JoinGroupRequest()
    assert first.protocols == second.protocols == []
    assert first.protocols is not second.protocols


def test_membership_travels_behind_its_version() -> None:
    subscription = ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"x")
    assert decode_subscription(encode_membership(subscription)) == subscription
    later = b"\x00\x09" + encode(subscription, 3) + b"more of a later version"
    assert decode_subscription(later) == subscription
    assert decode_assignment(b"") == ConsumerProtocolAssignment()
    with pytest.raises(WireError):
        decode_subscription(b"\xff\xff")
