"""The bytes between nodes: what is written is read back, in whatever pieces it arrives; nonsense is refused."""

from __future__ import annotations

import itertools

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.cluster.rpc.wire import (
    ANSWER,
    FOLLOW,
    FRAME_BYTES_BEFORE_GREETING,
    PEER_FRAME_BYTES_MAX,
    PUSH,
    REQUEST,
    Follow,
    Greeting,
    Splitter,
    decode,
    decode_answer,
    decode_push,
    decode_request,
    encode,
    encode_answer,
    encode_push,
    encode_request,
)
from longhall.errors import Code, LonghallError
from longhall.log.frames import BATCH, EVENT, Entry, encode_entry

NUMBERS = st.integers(0, (1 << 63) - 1)
SMALL = st.integers(0, 9)
ENTRIES = st.lists(
    st.builds(Entry, st.just(EVENT), SMALL, SMALL, NUMBERS, SMALL, st.binary(min_size=1, max_size=50)), max_size=20
)


def in_pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


def frames_of(data: bytes, cuts: list[int]) -> list[tuple[int, bytes]]:
    splitter = Splitter()
    splitter.bytes_max = PEER_FRAME_BYTES_MAX
    return [frame for piece in in_pieces(data, cuts) for frame in splitter.feed(piece)]


@given(ENTRIES, NUMBERS, NUMBERS, st.lists(st.integers(0, 3_000)))
@settings(deadline=None)
def test_a_push_arrives_as_it_was_sent(entries: list[Entry], first: int, committed: int, cuts: list[int]) -> None:
    blob = b"".join(encode_entry(entry) for entry in entries)
    data = encode_push(7, committed, first, len(entries), -5, len(blob), crc32c(blob)) + blob
    [(kind, body), (again, _)] = frames_of(data + data, cuts)
    assert kind == again == PUSH
    push = decode_push(body)
    assert (push.epoch, push.first, push.committed, push.time_ms) == (7, first, committed, -5)
    found = push.decode()
    assert [vars_of(entry) for entry in found] == [vars_of(entry) for entry in entries]


def vars_of(entry: Entry) -> tuple[object, ...]:
    return entry.kind, entry.flags, entry.shard, entry.sequence, entry.epoch, entry.body


@given(NUMBERS, st.text(max_size=30), st.binary(max_size=100), st.lists(st.integers(0, 200)))
@settings(deadline=None)
def test_requests_and_answers_arrive(number: int, verb: str, body: bytes, cuts: list[int]) -> None:
    asked = encode_request(number, verb, body)
    given_back = encode_answer(number, None, body) + encode_answer(number, Code.OVERLOADED, b"later")
    [(first, question), (second, answer), (_, refusal)] = frames_of(asked + given_back, cuts)
    assert (first, second) == (REQUEST, ANSWER)
    assert decode_request(question) == (number, verb, body)
    assert decode_answer(answer) == (number, None, body)
    assert decode_answer(refusal) == (number, Code.OVERLOADED, b"later")


def test_fields_that_are_not_known_are_passed_over() -> None:
    class Newer(Greeting):
        flavour: str = "new"

    data = encode(FOLLOW, Newer(hall="h", node=1, incarnation=2, purpose="follow"))
    [(_, body)] = frames_of(data, [])
    assert decode(body, Greeting).purpose == "follow"


def test_a_refusal_that_is_not_known_is_still_one() -> None:
    word = b"a-word-from-the-future"
    body = (5).to_bytes(8, "big") + bytes((len(word),)) + word + b"why"
    assert decode_answer(body) == (5, Code.INVALID_REQUEST, b"why")


def test_sizes_are_looked_at_first() -> None:
    splitter = Splitter()
    with pytest.raises(LonghallError):
        list(splitter.feed((FRAME_BYTES_BEFORE_GREETING + 1).to_bytes(4, "big") + b"\x01"))
    with pytest.raises(LonghallError):
        frames_of(bytes(4) + b"\x01", [])
    with pytest.raises(LonghallError):
        frames_of((PEER_FRAME_BYTES_MAX + 1).to_bytes(4, "big") + b"\x01", [])


@pytest.mark.parametrize("body", [b"", b"short", bytes(35)])
def test_a_push_that_is_cut_short_is_refused(body: bytes) -> None:
    with pytest.raises(LonghallError):
        decode_push(body)


def test_a_push_with_another_checksum_is_refused() -> None:
    blob = encode_entry(Entry(EVENT, 0, 0, 1, 1, b"\x04event"))
    head = encode_push(1, 0, 1, 1, 0, len(blob), crc32c(blob))
    [(_, body)] = frames_of(head + blob[:-1] + b"X", [])
    with pytest.raises(LonghallError) as caught:
        decode_push(body)
    assert caught.value.code is Code.CORRUPT_MESSAGE


def test_a_push_that_lacks_entries_is_refused() -> None:
    blob = encode_entry(Entry(EVENT, 0, 0, 1, 1, b"\x04event"))
    push = decode_push(frames_of(encode_push(1, 0, 1, 2, 0, len(blob), crc32c(blob)) + blob, [])[0][1])
    with pytest.raises(LonghallError):
        push.decode()


@pytest.mark.parametrize("piece", [1 << 20, 65_000, 4_099])
def test_large_frames_arrive_between_small_ones(piece: int) -> None:
    batch = Entry(BATCH, 1, 2, 3, 4, (77).to_bytes(8, "big") + bytes(range(256)) * 600)
    blob = encode_entry(Entry(EVENT, 0, 0, 1, 1, b"\x04event")) + encode_entry(batch)
    push = encode_push(1, 0, 1, 2, 0, len(blob), crc32c(blob)) + blob
    asked = encode_request(9, "carry", bytes(200_000))
    data = push + asked + encode_request(10, "small", b"x") + push
    frames = frames_of(data, list(range(0, len(data), piece)))
    assert [kind for kind, _ in frames] == [PUSH, REQUEST, REQUEST, PUSH]
    assert decode_request(frames[1][1]) == (9, "carry", bytes(200_000))
    assert decode_request(frames[2][1]) == (10, "small", b"x")
    for _, body in (frames[0], frames[3]):
        _, found = decode_push(body).decode()
        assert vars_of(found) == vars_of(batch)
        assert found.partition() == batch.partition() == 77
        assert found.batch() == batch.batch()
        assert type(found.batch()) is bytes
        assert encode_entry(found) == encode_entry(batch)


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_are_refused_or_read_and_nothing_else(data: bytes) -> None:
    splitter = Splitter()
    readers = (decode_push, decode_request, decode_answer, lambda body: decode(body, Follow))
    try:
        for _, body in splitter.feed(data):
            for reader in readers:
                try:
                    reader(body)
                except LonghallError:
                    pass
    except LonghallError:
        pass
