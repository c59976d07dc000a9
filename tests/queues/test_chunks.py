"""Large messages in chunks: whole or not at all, through crashes; bounds; who dies half-way leaves nothing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from longhall.errors import Code, LonghallError
from longhall.queues.auxiliary_events import UploadEvent
from longhall.queues.chunks import IDLE_MS, ChunkManifest, Uploads, chunk_count, join, split
from tests.examples import examples

decoder = msgspec.msgpack.Decoder(UploadEvent)
BYTES_MAX = 40
LANE = 9


@given(st.binary(max_size=60), st.integers(1, 20))
def test_split_bodies_are_joined_unchanged(body: bytes, chunk_bytes: int) -> None:
    chunks = split(body, chunk_bytes)
    assert len(chunks) == chunk_count(len(body), chunk_bytes)
    assert all(len(chunk) <= chunk_bytes for chunk in chunks)
    assert join(chunks, len(body)) == body


def test_a_body_of_another_size_is_corrupt() -> None:
    with pytest.raises(LonghallError) as refusal:
        join([b"ab", b"c"], 4)
    assert refusal.value.code is Code.CORRUPT_MESSAGE


class UploadMachine(RuleBasedStateMachine):
    """Uploads against a model of dictionaries, with a journal and crashes."""

    def __init__(self) -> None:
        super().__init__()
        self.uploads = Uploads(uploads_max=3)
        self.kept: bytes = msgspec.msgpack.encode([])
        self.journal: list[bytes] = []
        self.lane: list[bytes] = []
        self.model: dict[str, dict[int, bytes]] = {}
        self.touched: dict[str, int] = {}
        self.now_ms = 1000

    def write(self, event: UploadEvent) -> None:
        self.journal.append(msgspec.msgpack.encode(event))
        self.uploads.apply(event)

    names = st.sampled_from(["a", "b", "c", "d"])

    @rule(name=names)
    def start(self, name: str) -> None:
        event = self.uploads.decide_start(name, LANE, BYTES_MAX, self.now_ms, chunks_max=6)
        if name in self.model:
            assert event is Code.INVALID_REQUEST
        elif len(self.model) == 3:
            assert event is Code.OVERLOADED
        else:
            assert not isinstance(event, Code)
            self.write(event)
            self.model[name] = {}
            self.touched[name] = self.now_ms

    @rule(name=names, number=st.integers(-1, 6), body=st.binary(max_size=15))
    def chunk(self, name: str, number: int, body: bytes) -> None:
        event = self.uploads.decide_chunk(name, number, len(self.lane), len(body), self.now_ms)
        sent = self.model.get(name)
        if sent is None or not 0 <= number < 6 or self.touched[name] + IDLE_MS <= self.now_ms:
            assert event is Code.INVALID_REQUEST
        elif sum(len(one) for at, one in sent.items() if at != number) + len(body) > BYTES_MAX:
            assert event is Code.MESSAGE_TOO_LARGE
        else:
            assert not isinstance(event, Code)
            self.lane.append(body)
            self.write(event)
            sent[number] = body
            self.touched[name] = self.now_ms

    @rule(name=names, count=st.integers(0, 6))
    def finish(self, name: str, count: int) -> None:
        manifest = self.uploads.decide_finish(name, count, self.now_ms)
        sent = self.model.get(name)
        late = sent is not None and self.touched[name] + IDLE_MS <= self.now_ms
        if sent is None or late or count < 1 or sorted(sent) != list(range(count)):
            assert manifest is Code.INVALID_REQUEST
            if sent is not None:
                assert self.uploads.missing(name, count) == [at for at in range(count) if at not in sent]
            return
        assert isinstance(manifest, ChunkManifest)
        assert manifest.lane == LANE
        body = join([self.lane[offset] for offset in manifest.offsets], manifest.size_bytes)
        assert body == b"".join(sent[at] for at in range(count))
        self.write(manifest.ended)
        del self.model[name]

    @rule(name=names)
    def abort(self, name: str) -> None:
        event = self.uploads.decide_abort(name)
        if name in self.model:
            assert not isinstance(event, Code)
            self.write(event)
            del self.model[name]
        else:
            assert event is Code.INVALID_REQUEST

    @rule(passed_ms=st.sampled_from([1, IDLE_MS // 2, IDLE_MS]))
    def pass_time(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule()
    def expire(self) -> None:
        late = {name for name in self.model if self.touched[name] + IDLE_MS <= self.now_ms}
        events = self.uploads.expired(self.now_ms)
        assert {event.upload_id for event in events} == late
        for event in events:
            self.write(event)
            del self.model[event.upload_id]

    @rule()
    def keep(self) -> None:
        self.kept = msgspec.msgpack.encode(self.uploads.snapshot())
        self.journal = []

    @rule()
    def crash(self) -> None:
        self.uploads = Uploads(uploads_max=3)
        self.uploads.restore(msgspec.msgpack.decode(self.kept))
        for event in self.journal:
            self.uploads.apply(decoder.decode(event))

    @invariant()
    def the_lane_is_freed_up_to_the_first_chunk_in_use(self) -> None:
        floor = self.uploads.lane_floor(LANE, len(self.lane))
        assert self.uploads.lane_floor(LANE + 1, 5) == 5
        if not any(self.model.values()):
            assert floor == len(self.lane)
        for name, sent in self.model.items():
            if sent and sorted(sent) == list(range(len(sent))):
                manifest = self.uploads.decide_finish(name, len(sent), self.touched[name])
                assert isinstance(manifest, ChunkManifest)
                assert floor <= min(manifest.offsets)

    @invariant()
    def it_says_when_the_next_runs_out(self) -> None:
        expected = min((self.touched[name] + IDLE_MS for name in self.model), default=None)
        assert self.uploads.next_deadline_ms() == expected
        assert self.uploads.count == len(self.model)


TestUploads = UploadMachine.TestCase
TestUploads.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
