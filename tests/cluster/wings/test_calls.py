"""Verbs between halls: what is asked arrives as it was, and what is no call is refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.broker.queues.desk import Desk
from longhall.cluster.wings import calls
from longhall.cluster.wings.sums import all_moves, one_move, parts_of_move
from longhall.errors import Code, LonghallError
from longhall.queues.messages import MoveTask, Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings

OF_WINGS = {"receive", "enough", "furnish", "clear", "inventory"}


def test_every_verb_is_one_of_the_desk_or_of_wings() -> None:
    for name in calls.VERBS:
        assert name in OF_WINGS or callable(getattr(Desk, name)), name


@given(st.text(max_size=20), st.binary(max_size=50), st.text(max_size=10))
def test_a_call_arrives_as_it_was(name: str, body: bytes, group: str) -> None:
    message = Outgoing(body=body, group=group, attributes={"a": ("Binary", body)})
    call = calls.encode_call(calls.SEND, name, [message], life=b"1")
    assert calls.decode_call(call) == ("send", (name, [message]), b"1")
    codes = [None, Code.INVALID_RECEIPT]
    assert calls.decode_result(calls.SETTLE, calls.encode_result(codes)) == codes


@given(st.binary(max_size=100))
def test_what_is_no_call_is_refused(noise: bytes) -> None:
    with pytest.raises(LonghallError) as refused:
        calls.decode_call(noise)
    assert refused.value.code is Code.INVALID_REQUEST


@pytest.mark.parametrize("answer", [b"", b"\x80\x80", b"\xff", b"\x01"])
def test_what_is_no_answer_is_a_reason_to_try_again(answer: bytes) -> None:
    with pytest.raises(LonghallError) as refused:
        calls.decode_result(calls.LETTER, answer)
    assert refused.value.code is Code.NOT_READY


def test_unknown_verbs_and_wrong_arguments_are_refused() -> None:
    for verb, arguments in (("eval", ("1",)), ("send", ("q",)), ("settle", ("q", [1], "")), ("purge", (3,))):
        call = calls.encode_result((verb, arguments, b""))
        with pytest.raises(LonghallError) as refused:
            calls.decode_call(call)
        assert refused.value.code is Code.INVALID_REQUEST


def test_a_fingerprint_is_that_of_the_values_whatever_their_order() -> None:
    names = [f"n{number}" for number in range(20)]
    shuffled = random.Random(1).sample(names, len(names))

    def furniture(order: list[str], lease_ms: int = 1) -> calls.Furniture:
        settings = QueueSettings(lease_ms=lease_ms, tags=dict.fromkeys(order, "t"), dead_letters=DeadLetters(queue="d"))
        return calls.Furniture(
            name="q", topic_id=b"\x00\xff", partitions=3, configuration=dict.fromkeys(order, "1"), queue=settings
        )

    assert calls.fingerprint(furniture(names)) == calls.fingerprint(furniture(shuffled))
    assert calls.fingerprint(furniture(names)) != calls.fingerprint(furniture(names, lease_ms=2))


def test_a_move_in_several_wings_is_one() -> None:
    def move(wing: int, number: int, state: str = "COMPLETED") -> MoveTask:
        return MoveTask(task_id=f"m{wing}{number}", source="s", state=state, moved=wing, to_move=10, started_ms=number)

    whole = one_move((4, 7), [move(4, 1), move(7, 1, "RUNNING")])
    assert (whole.task_id, whole.state, whole.moved, whole.to_move) == ("4.m41+7.m71", "RUNNING", 11, 20)
    assert parts_of_move(whole.task_id) == [(4, "m41"), (7, "m71")]
    assert parts_of_move("plain") == parts_of_move("x.y") == parts_of_move("1.a+b") == []
    newest, oldest = all_moves((4, 7), [[move(4, 2), move(4, 1)], [move(7, 1), move(7, 2)]])
    assert (newest.task_id, oldest.task_id) == ("4.m42+7.m72", "4.m41+7.m71")
