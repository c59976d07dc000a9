"""Receipts: whole, bound to their queue, and impossible to make up."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code
from longhall.queues.receipts import Receipts

NUMBERS = st.integers(0, 2**63 - 1)
SECRET = b"a secret of the hall"


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_a_receipt_round_trips(queue: int, lane: int, offset: int, number: int) -> None:
    receipts = Receipts(SECRET, queue)
    text = receipts.encode(lane, offset, number)
    assert re.fullmatch(r"[A-Za-z0-9_-]{56}", text)
    assert receipts.verify(text) == (lane, offset, number)


def test_a_receipt_is_valid_in_its_queue_and_hall_only() -> None:
    text = Receipts(SECRET, 1).encode(2, 3, 4)
    assert Receipts(SECRET, 2).verify(text) is Code.INVALID_RECEIPT
    assert Receipts(b"another", 1).verify(text) is Code.INVALID_RECEIPT


@given(st.integers(0, 55), st.sampled_from("ABCDwxyz0189_-=+/ \n\u00e9"))
def test_a_changed_receipt_is_refused(at: int, character: str) -> None:
    receipts = Receipts(SECRET, 1)
    text = receipts.encode(2, 3, 4)
    changed = text[:at] + character + text[at + 1 :]
    if changed == text:
        assert receipts.verify(changed) == (2, 3, 4)
    else:
        # One of the first two characters may make it a receipt of another version.
        assert receipts.verify(changed) in (Code.INVALID_RECEIPT, Code.RECEIPT_OF_OTHER_VERSION)[: 2 if at < 2 else 1]


def test_a_receipt_has_the_report_flag() -> None:
    receipts = Receipts(SECRET, 1)
    plain = receipts.encode(2, 3, 4)
    asking = receipts.encode(2, 3, 4, True)
    assert receipts.verify(asking) == receipts.verify(plain) == (2, 3, 4)
    assert (receipts.reports(asking), receipts.reports(plain)) == (True, False)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.booleans())
def test_a_receipt_of_a_session_round_trips(queue: int, lane: int, offset: int, number: int, asks: bool) -> None:
    receipts = Receipts(SECRET, queue)
    text = receipts.encode_for_session(lane, offset, number, asks)
    assert receipts.verify(text) == (lane, offset, number)
    assert receipts.reports(text) is asks


@given(st.integers(0, 24), st.sampled_from("ABCDwxyz0189_-=+/ \n\u00e9"))
def test_a_receipt_of_a_session_needs_the_pass_of_its_queue(at: int, character: str) -> None:
    receipts = Receipts(SECRET, 1)
    text = receipts.encode_for_session(2, 3, 4)
    assert Receipts(SECRET, 2).verify(text) is Code.INVALID_RECEIPT
    assert Receipts(b"another", 1).verify(text) is Code.INVALID_RECEIPT
    changed = text[:at] + character + text[at + 1 :]
    assert receipts.verify(changed) == ((2, 3, 4) if changed == text else Code.INVALID_RECEIPT)


@given(st.text(min_size=32, max_size=32))
def test_what_follows_the_pass_is_no_receipt_unless_it_is_base64(rest: str) -> None:
    receipts = Receipts(SECRET, 1)
    text = receipts.encode_for_session(2, 3, 4)
    verified = receipts.verify(text[:25] + rest)
    assert verified is Code.INVALID_RECEIPT or isinstance(verified, tuple)


def test_another_version_is_distinguished_from_an_invalid_receipt() -> None:
    receipts = Receipts(SECRET, 1)
    text = receipts.encode(2, 3, 4)
    raw = urlsafe_b64decode(text)
    for version, expected in (
        (0, Code.INVALID_RECEIPT),
        (2, Code.INVALID_RECEIPT),  # Ours, but the MAC is of another.
        (3, Code.RECEIPT_OF_OTHER_VERSION),
        (15, Code.RECEIPT_OF_OTHER_VERSION),
        (16, Code.INVALID_RECEIPT),
    ):
        assert receipts.verify(urlsafe_b64encode(bytes([version]) + raw[1:]).decode()) is expected


@given(st.text(max_size=80))
def test_anything_else_is_refused(text: str) -> None:
    assert Receipts(SECRET, 1).verify(text) in (Code.INVALID_RECEIPT, Code.RECEIPT_OF_OTHER_VERSION)
