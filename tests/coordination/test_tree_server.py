"""Workers and the server of their tree: missing tokens, broken connections, and malformed frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.coordination import tree_client as module
from longhall.coordination.embedded import EmbeddedStore
from longhall.coordination.frames import (
    FRAME_BYTES_MAX,
    FrameError,
    FrameReader,
    Reply,
    Request,
    frame,
    read_reply,
    read_request,
)
from longhall.coordination.ports import MemberDescription, OutcomeUnknown, Session
from longhall.coordination.tree import Check, Create, Delete, Node, Put
from longhall.coordination.tree_client import worker_coordinator
from longhall.coordination.tree_server import TreeServer, serve_tree
from longhall.world.real.world import RealWorld, real_world
from tests.coordination.sides import eventually

Served = tuple[RealWorld, TreeServer]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    world = real_world(str(tmp_path / "data"))
    server = await serve_tree(EmbeddedStore(world.disk), world.network, world.entropy)
    yield world, server
    server.close()
    await asyncio.sleep(0)
    world.close()


async def test_the_session_of_a_dead_worker_ends_at_once(served: Served) -> None:
    world, server = served
    first = worker_coordinator(world.network, server.port, server.token)
    second = worker_coordinator(world.network, server.port, server.token)
    await first.start()
    await second.start()
    heard: list[Session] = []
    first.on_session(heard.append)
    seen: list[set[int]] = []
    second.watch_members(lambda members: seen.append(set(members)))
    before = await first.register(MemberDescription(node_id=1, directory="d"))
    await eventually(lambda: bool(seen) and seen[-1] == {1})
    first._tree._link.close()
    await eventually(lambda: heard == [Session.SUSPENDED, Session.EXPIRED, Session.CONNECTED])
    await eventually(lambda: seen[-1] == set())
    after = await first.register(MemberDescription(node_id=1, directory="d"))
    assert after.generation > before.generation
    await eventually(lambda: seen[-1] == {1})
    await first.close()
    await second.close()


async def test_a_connection_without_the_token_is_closed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    world, server = served
    monkeypatch.setattr(module, "CONNECT_S", 0.3)
    stranger = worker_coordinator(world.network, server.port, b"guess")
    with pytest.raises(OutcomeUnknown):
        await stranger.start()
    for words in (frame(Request(1, "get", "/")), b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x01\xc1"):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(words)
        assert await reader.read() == b""
        writer.close()


numbers = st.integers(0, 2**63 - 1)
words = st.text(max_size=8)
data = st.binary(max_size=8)
operations = st.one_of(
    st.builds(Create, words, data, st.booleans()),
    st.builds(Put, words, data, numbers),
    st.builds(Delete, words, numbers),
    st.builds(Check, words, numbers),
)
requests = st.builds(Request, numbers, words, words, st.booleans(), st.lists(operations, max_size=3), data)
nodes = st.builds(Node, data, numbers, numbers, numbers)
few = st.lists(words, max_size=3)
versions = st.lists(st.integers(-1, 2**31), max_size=3)
replies = st.builds(Reply, numbers, st.none() | nodes, few, versions, numbers, numbers, st.none() | words, words)


@settings(max_examples=50)
@given(st.lists(requests, max_size=3), st.lists(replies, max_size=3), st.integers(1, 50))
def test_frames_round_trip_in_any_chunks(asked: list[Request], answered: list[Reply], step: int) -> None:
    for messages, read in ((asked, read_request), (answered, read_reply)):
        data = b"".join(frame(message) for message in messages)
        reader = FrameReader()
        pieces = [data[start : start + step] for start in range(0, len(data), step)]
        found = [read(body) for piece in pieces for body in reader.feed(piece)]
        assert found == messages


@given(st.binary(max_size=200))
def test_malformed_messages_are_refused(body: bytes) -> None:
    for read in (read_request, read_reply):
        try:
            read(body)
        except FrameError:
            pass


def test_a_size_above_the_bound_is_refused_at_once() -> None:
    with pytest.raises(FrameError):
        list(FrameReader().feed((FRAME_BYTES_MAX + 1).to_bytes(4, "big")))
