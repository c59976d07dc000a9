"""The book of the kill loop finds each broken guarantee, and accepts the same sequence without the violation."""

from __future__ import annotations

import pytest

from soak.fates import Book, Delivery

QUEUE = "queue"


def told(book: Book, key: str, at: float, *, lease: float = 3.0, message_id: str = "") -> None:
    book.delivered(QUEUE, [Delivery(key, message_id or f"id-{key}", 1)], at, at + 0.01, lease)


@pytest.fixture
def book() -> Book:
    """Two single messages and three of a group, all acknowledged."""
    book = Book()
    for key in ("a", "b", "g/1", "g/2", "g/3"):
        book.sending(QUEUE, key, 0.0)
        book.acknowledged(QUEUE, key, f"id-{key}")
    return book


def settle(book: Book, key: str, at: float, *, lease_until: float) -> None:
    book.settling(QUEUE, key)
    book.settled(QUEUE, key, at, lease_until)


def test_a_correct_history_has_no_violation(book: Book) -> None:
    told(book, "a", 1.0)
    told(book, "a", 4.1)  # Its lease had ended.
    settle(book, "a", 5.0, lease_until=7.1)
    for number, at in ((1, 1.0), (2, 2.0), (3, 3.0)):
        told(book, f"g/{number}", at)
        settle(book, f"g/{number}", at + 0.5, lease_until=at + 3)
    assert book.complaints == []
    assert book.missing(QUEUE, {"b"}) == []
    assert book.counts() == {"acknowledged": 5, "delivered": 5, "settled": 4}


def test_a_lost_message_is_found(book: Book) -> None:
    assert book.missing(QUEUE, {"a", "g/1", "g/2", "g/3"}) == ["queue: b was acknowledged and is missing"]


def test_a_message_without_an_answer_may_be_stored_or_not(book: Book) -> None:
    book.sending(QUEUE, "unknown", 0.0)
    everything = {"a", "b", "g/1", "g/2", "g/3"}
    assert book.missing(QUEUE, everything) == []
    assert book.missing(QUEUE, everything | {"unknown"}) == []


def test_a_delivery_while_leased_is_found(book: Book) -> None:
    told(book, "a", 1.0)
    told(book, "a", 3.5)
    assert "before its lease ended" in book.complaints[0]


def test_an_answer_that_arrives_after_its_lease_is_no_violation(book: Book) -> None:
    told(book, "a", 5.0)
    book.delivered(QUEUE, [Delivery("a", "id-a", 1)], 1.0, 6.0, 3.0)  # Delivered before 2, and delayed on the way.
    assert book.complaints == []
    told(book, "a", 7.0)
    assert "before its lease ended" in book.complaints[0]


def test_a_delivery_after_a_give_back_is_accepted(book: Book) -> None:
    told(book, "a", 1.0)
    book.giving_back(QUEUE, "a")
    told(book, "a", 1.1)
    assert book.complaints == []


def test_a_delivery_within_an_extended_lease_is_found(book: Book) -> None:
    told(book, "a", 1.0)
    book.extended(QUEUE, "a", 7.0)
    told(book, "a", 5.0)
    assert "before its lease ended" in book.complaints[0]


def test_a_delivery_before_it_was_due_is_found() -> None:
    book = Book()
    book.sending(QUEUE, "later", 0.0, delay_seconds=2.0)
    told(book, "later", 1.0)
    assert "before it was due" in book.complaints[0]


def test_a_delivery_after_the_settle_is_found(book: Book) -> None:
    told(book, "a", 1.0)
    settle(book, "a", 1.5, lease_until=4.0)
    told(book, "a", 6.0)
    assert "after it was settled" in book.complaints[0]
    assert book.resurrected(QUEUE, {"a"}) == ["queue: a was settled and is in the queue again"]


def test_a_late_settle_guarantees_nothing(book: Book) -> None:
    told(book, "a", 1.0)
    settle(book, "a", 5.0, lease_until=4.0)
    told(book, "a", 6.0)
    assert book.complaints == []


def test_a_message_that_was_accepted_twice_is_found(book: Book) -> None:
    told(book, "g/1", 1.0, message_id="another")
    assert "more than once" in book.complaints[0]


def test_an_overtaken_group_is_found(book: Book) -> None:
    told(book, "g/1", 1.0)
    told(book, "g/2", 1.1)
    assert "overtook [1]" in book.complaints[0]


def test_a_group_that_goes_back_is_found(book: Book) -> None:
    told(book, "g/1", 1.0)
    book.settling(QUEUE, "g/1")  # No answer: it may be settled or not.
    told(book, "g/2", 2.0)
    told(book, "g/1", 5.0)
    assert "went back to 1" in book.complaints[0]


def test_an_answer_in_the_wrong_order_is_found(book: Book) -> None:
    answer = [Delivery("g/2", "id-g/2", 1), Delivery("g/1", "id-g/1", 1)]
    book.delivered(QUEUE, answer, 1.0, 1.1, 3.0)
    assert "delivered as [2, 1]" in book.complaints[0]


def test_a_whole_answer_again_is_in_order(book: Book) -> None:
    answer = [Delivery(f"g/{number}", f"id-g/{number}", 1) for number in (1, 2, 3)]
    book.delivered(QUEUE, answer, 1.0, 1.1, 3.0)
    book.delivered(QUEUE, answer, 4.5, 4.6, 3.0)
    assert book.complaints == []
