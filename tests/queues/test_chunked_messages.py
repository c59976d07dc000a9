"""Which records stand for a large message, and where its chunks are: through moves, restarts and the end."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code
from longhall.queues.auxiliary_events import UploadEnded, WholeEvent, WholeFreed
from longhall.queues.chunked_messages import PLACES_MAX, ChunkedMessages
from longhall.queues.chunks import ChunkManifest

decoder = msgspec.msgpack.Decoder(WholeEvent)


def made(messages: ChunkedMessages, name: str, offsets: list[int], place: tuple[int, int] = (1, 10)) -> None:
    manifest = ChunkManifest(9, offsets, 100, UploadEnded(upload_id=name, why="joined"))
    write(messages, messages.decide_make(name, manifest, place))


def write(messages: ChunkedMessages, event: WholeEvent | Code) -> None:
    assert not isinstance(event, Code)
    messages.apply(decoder.decode(msgspec.msgpack.encode(event)))


def again(messages: ChunkedMessages) -> ChunkedMessages:
    restored = ChunkedMessages()
    restored.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(messages.snapshot())))
    return restored


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30, unique=True))
def test_chunks_are_found_in_order(offsets: list[int]) -> None:
    messages = ChunkedMessages()
    made(messages, "a", offsets)
    whole = again(messages).get("a")
    assert whole is not None
    assert whole.count == len(offsets)
    assert [whole.offset_of(number) for number in range(len(offsets))] == offsets
    assert [whole.offset_of(number) for number in (-1, len(offsets))] == [-1, -1]


def test_a_move_adds_a_reference_and_the_end_removes_all() -> None:
    messages = ChunkedMessages(messages_max=1)
    assert not messages.is_full
    made(messages, "a", [0])
    assert messages.is_full
    write(messages, messages.decide_hold("a", (2, 20)))
    assert messages.decide_hold("b", (2, 21)) is Code.INVALID_REQUEST
    messages = again(messages)
    assert messages.at((1, 10)) is messages.at((2, 20)) is messages.get("a")
    assert messages.at((2, 21)) is None
    write(messages, WholeFreed(whole="a"))
    write(messages, WholeFreed(whole="a"))
    assert (len(messages), messages.at((1, 10)), messages.get("a")) == (0, None, None)


def test_references_are_bounded() -> None:
    messages = ChunkedMessages()
    made(messages, "a", [0])
    for number in range(PLACES_MAX):
        write(messages, messages.decide_hold("a", (3, number)))
    for one in (messages, again(messages)):
        assert one.at((1, 10)) is None, "the oldest"
        assert one.at((3, 0)) is one.at((3, PLACES_MAX - 1)) is not None
