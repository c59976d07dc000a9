"""The window against a dictionary that remembers everything, through restarts; its bounds."""

from __future__ import annotations

import hashlib
from array import array

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code
from longhall.queues.deduplication import DeduplicationWindow, FirstSend, deduplication_id, fingerprint
from longhall.queues.envelope import derive_message_id

WINDOW_MS = 300_000


def message_id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


def test_a_repeat_gets_the_first_reply_until_the_window_ends() -> None:
    window = DeduplicationWindow()
    mark = fingerprint("order-1")
    assert window.decide(mark, 1000, WINDOW_MS, False) is None
    window.remember(mark, message_id(9), 17, 1000, WINDOW_MS)
    again = window.decide(mark, 1000 + WINDOW_MS - 1, WINDOW_MS, False)
    assert isinstance(again, FirstSend)
    assert (again.message_id, again.sequence, again.at_ms) == (message_id(9), 17, 1000)
    assert window.decide(mark, 1000 + WINDOW_MS - 1, WINDOW_MS, True) is Code.REPEATED_SEND
    assert window.decide(mark, 1000 + WINDOW_MS, WINDOW_MS, True) is None


def test_a_repeat_does_not_extend_the_window() -> None:
    window = DeduplicationWindow()
    mark = fingerprint("a")
    window.remember(mark, message_id(1), 1, 0, WINDOW_MS)
    assert window.find(mark, WINDOW_MS - 1, WINDOW_MS) is not None
    assert window.find(mark, WINDOW_MS, WINDOW_MS) is None


def test_content_deduplication_uses_the_body_unless_an_id_is_given() -> None:
    digest = hashlib.sha256(b"body").hexdigest()
    assert deduplication_id("", b"body", True) == digest
    assert deduplication_id("mine", b"body", True) == "mine"
    assert deduplication_id("", b"body", False) == ""
    # Whoever names the hash by hand means the same message.
    assert fingerprint(deduplication_id(digest, b"other", True)) == fingerprint(deduplication_id("", b"body", True))


@given(st.text(), st.text(), st.text(), st.text())
def test_fingerprints_of_groups_and_ids_do_not_collide(group: str, one: str, other_group: str, other: str) -> None:
    same = (group, one) == (other_group, other)
    assert (fingerprint(one, group) == fingerprint(other, other_group)) is same


sends = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30), st.sampled_from(["", "", "restart", "expire"])))


@given(sends, st.integers(20, 200))
def test_it_behaves_like_a_dictionary_through_restarts(plan: list[tuple[int, int, str]], window_ms: int) -> None:
    window = DeduplicationWindow()
    model: dict[int, tuple[int, int]] = {}
    now_ms = 0
    for number, (name, passed_ms, then) in enumerate(plan):
        now_ms += passed_ms
        first = model.get(name)
        found = window.find(fingerprint(str(name)), now_ms, window_ms)
        if first is not None and first[1] + window_ms > now_ms:
            assert found is not None
            assert (found.sequence, found.message_id, found.at_ms) == (first[0], message_id(first[0]), first[1])
        else:
            assert found is None
            window.remember(fingerprint(str(name)), message_id(number), number, now_ms, window_ms)
            model[name] = (number, now_ms)
        if then == "restart":
            kept = msgspec.msgpack.decode(msgspec.msgpack.encode(window.snapshot()))
            count = window.count
            window = DeduplicationWindow()
            window.restore(kept)
            assert window.count == count
        elif then == "expire":
            window.expire(now_ms, window_ms)
            if all(at_ms + window_ms <= now_ms for _, at_ms in model.values()):
                assert window.count == 0


def test_memory_is_bounded_and_the_newest_entries_stay() -> None:
    window = DeduplicationWindow(entries_max=1000)
    for number in range(10_000):
        window.remember(fingerprint(str(number)), message_id(number), number, number, WINDOW_MS)
        assert window.count <= 2000
    for number in range(9_000, 10_000):
        assert window.find(fingerprint(str(number)), 10_000, WINDOW_MS) is not None
    assert window.find(fingerprint("1"), 10_000, WINDOW_MS) is None


def test_expiry_empties_the_window() -> None:
    window = DeduplicationWindow()
    for number in range(5_000):
        window.remember(fingerprint(str(number)), message_id(number), number, number * 10, 1000)
        assert window.count <= 400


def test_derived_ids_are_derived_again() -> None:
    window = DeduplicationWindow()
    window.remember(fingerprint("a"), "", 17, 1000, WINDOW_MS, lane=5)
    window.remember(fingerprint("b"), message_id(3), 18, 1000, WINDOW_MS, lane=5)
    window.remember(fingerprint("c"), "made up by a producer", 19, 1000, WINDOW_MS, lane=5)
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(window.snapshot()))
    again = DeduplicationWindow()
    again.restore(kept)
    for one in (window, again):
        told = [one.find(fingerprint(name), 1000, WINDOW_MS) for name in "abc"]
        ids = [found.message_id for found in told if found is not None]
        assert ids == [derive_message_id(5, 17), message_id(3), derive_message_id(5, 19)]
    again.remember(fingerprint("b"), "", 20, 1000, WINDOW_MS, lane=6)
    found = again.find(fingerprint("b"), 1000, WINDOW_MS)
    assert found is not None
    assert found.message_id == derive_message_id(6, 20)


def test_a_snapshot_in_the_old_format_is_read() -> None:
    marks = [fingerprint(str(number)) for number in range(40)]
    ids = b"".join(bytes.fromhex(message_id(number).replace("-", "")) for number in range(40))
    numbers = array("q", range(40)).tobytes()
    window = DeduplicationWindow()
    window.restore([[64, 39, b"".join(marks), ids, numbers, numbers]])
    assert window.count == 40
    for number, mark in enumerate(marks):
        found = window.find(mark, 39, WINDOW_MS)
        assert found is not None
        assert (found.message_id, found.sequence, found.at_ms) == (message_id(number), number, number)
