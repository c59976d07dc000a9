"""Gathering batches from other members: from whoever has them, in pieces if need be, and nothing that does not fit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import msgspec
import pytest

from longhall.cluster.replication import repair_source
from longhall.cluster.replication.repair_source import READ, BatchesReply, BatchesRequest, BatchState, gather
from longhall.cluster.rpc.peers import Peers
from longhall.errors import Code, LonghallError
from longhall.log.epochs import Epochs
from longhall.log.segment_repair import Stretch
from longhall.records.batch import Record, build_batch

BATCHES = [
    build_batch([Record(-1, 1, None, b"%d" % at * 50), Record(-1, 1, None, b"x")], base_offset=2 * at, leader_epoch=7)
    for at in range(5)
]
STRETCH = Stretch(1000, len(BATCHES[1]) + len(BATCHES[2]), 2, 6)
WANTED = BATCHES[1] + BATCHES[2]

Answer = Callable[[BatchesRequest], bytes]


class Members:
    """Some that answer, by number; what was asked of whom."""

    def __init__(self, **answers: Answer) -> None:
        self.asked: list[int] = []
        self._answers = {int(name.removeprefix("n")): answer for name, answer in answers.items()}

    async def request(self, node: int, verb: str, body: bytes, timeout_s: float) -> bytes:
        assert verb == READ
        asked = msgspec.msgpack.decode(body, type=BatchesRequest)
        self.asked.append(node)
        data = self._answers[node](asked)
        piece = data[asked.skip : asked.skip + repair_source.PIECE_BYTES]
        return msgspec.msgpack.encode(BatchesReply(size=len(data), data=piece))


def has(*batches: bytes) -> Answer:
    """Gives those of them that are wanted, up to the first that it lacks."""

    def answer(asked: BatchesRequest) -> bytes:
        first = [batch for batch in batches if asked.first <= int.from_bytes(batch[:8], "big") < asked.behind]
        if not first or int.from_bytes(first[0][:8], "big") != asked.first:
            raise LonghallError(Code.STORAGE_DAMAGED, "damaged")
        whole: list[bytes] = []
        for batch in first:
            if int.from_bytes(batch[:8], "big") == asked.first + 2 * len(whole):
                whole.append(batch)
        return b"".join(whole)

    return answer


def says(error: Exception) -> Answer:
    def answer(asked: BatchesRequest) -> bytes:
        raise error

    return answer


def gives(data: bytes) -> Answer:
    return lambda asked: data


def outcome(members: Members, epoch: int = 7, nodes: tuple[int, ...] = (1, 2)) -> tuple[BatchState, bytes]:
    epochs = Epochs()
    epochs.note(epoch, 0)
    return asyncio.run(gather(cast(Peers, members), list(nodes), 9, STRETCH, epochs))


def test_the_first_who_has_it_gives_it() -> None:
    members = Members(n1=has(*BATCHES), n2=has(*BATCHES))
    assert outcome(members) == (BatchState.WHOLE, WANTED)
    assert set(members.asked) == {1}


def test_what_one_lacks_comes_from_the_next() -> None:
    assert outcome(Members(n1=has(BATCHES[2]), n2=has(BATCHES[1]))) == (BatchState.WHOLE, WANTED)
    assert outcome(Members(n1=has(BATCHES[1]), n2=says(TimeoutError()), n3=has(*BATCHES)), nodes=(1, 2, 3)) == (
        BatchState.WHOLE,
        WANTED,
    )


def test_large_batches_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_source, "PIECE_BYTES", 50)
    members = Members(n1=has(*BATCHES))
    assert outcome(members, nodes=(1,)) == (BatchState.WHOLE, WANTED)
    assert len(members.asked) > 4


def test_it_is_lost_only_if_everybody_says_so() -> None:
    damaged = LonghallError(Code.STORAGE_DAMAGED, "")
    assert outcome(Members(n1=says(damaged), n2=says(damaged))) == (BatchState.DAMAGED, b"")
    for error in (
        ConnectionError(),
        TimeoutError(),
        LonghallError(Code.NOT_READY, "an earlier version"),
        LonghallError(Code.OVERLOADED, ""),
        LonghallError(Code.OFFSET_OUT_OF_RANGE, ""),
    ):
        assert outcome(Members(n1=says(damaged), n2=says(error))) == (BatchState.UNKNOWN, b"")
        assert outcome(Members(n1=says(error), n2=says(damaged))) == (BatchState.UNKNOWN, b"")


@pytest.mark.parametrize(
    "data",
    [
        b"",  # The cleaner left nothing there.
        BATCHES[1],
        BATCHES[1] + BATCHES[2] + BATCHES[3],
        BATCHES[2] + BATCHES[1],
        WANTED[:-1],
        WANTED + b"x" * 200,
        build_batch([Record(2, 1, None, b"otherwise"), Record(5, 1, None, b"y")], base_offset=2, leader_epoch=7),
    ],
)
def test_what_does_not_fit_is_not_taken(data: bytes) -> None:
    assert outcome(Members(n1=gives(data), n2=says(LonghallError(Code.STORAGE_DAMAGED, "")))) == (
        BatchState.OTHERWISE,
        b"",
    )


def test_batches_of_another_history_are_not_taken() -> None:
    assert outcome(Members(n1=has(*BATCHES), n2=has(*BATCHES)), epoch=8) == (BatchState.DAMAGED, b"")


def test_an_endless_giver_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    members = Members()

    async def request(node: int, verb: str, body: bytes, timeout_s: float) -> bytes:
        members.asked.append(node)
        return msgspec.msgpack.encode(BatchesReply(size=1 << 60, data=b"\0" * 100))

    monkeypatch.setattr(members, "request", request)
    assert outcome(members, nodes=(1,))[1] == b""
    assert len(members.asked) < 20
