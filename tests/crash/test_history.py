"""The checks of the soak find what they are there to find; a check that never complains would prove nothing."""

from __future__ import annotations

from soak import history
from soak.history import History, Outcome, Seen, Told

PLACE = ("plain", 0)
OTHER = ("plain", 1)


def told_of(**outcomes: Outcome) -> Told:
    """Transactions of two parts each, by name and outcome."""
    book = History()
    for name, outcome in outcomes.items():
        book.began(name, [(PLACE, f"{name}:1".encode()), (OTHER, f"{name}:2".encode())])
        book.ended(name, outcome)
    return book.snapshot()


def test_what_is_all_there_raises_no_complaint() -> None:
    book = History()
    book.acknowledged(PLACE, 5, b"i1:1")
    book.committed("group", PLACE, 6)
    told = book.snapshot()
    seen = Seen({PLACE: {5: b"i1:1", 6: b"i1:2"}})
    assert history.missing(told, seen) == []
    assert history.repeated_or_out_of_order(seen) == []
    assert history.behind(told, {("group", PLACE): 6}) == []


def test_a_missing_or_moved_record_is_found() -> None:
    book = History()
    book.acknowledged(PLACE, 5, b"i1:1")
    told = book.snapshot()
    assert history.missing(told, Seen({PLACE: {}}))
    assert history.missing(told, Seen({PLACE: {6: b"i1:1"}}))
    assert history.missing(told, Seen({PLACE: {5: b"i1:2"}}))


def test_a_snapshot_does_not_grow() -> None:
    book = History()
    told = book.snapshot()
    book.acknowledged(PLACE, 5, b"i1:1")
    assert told.count() == 0


def test_doubles_and_disorder_are_found() -> None:
    assert history.repeated_or_out_of_order(Seen({PLACE: {1: b"i1:1", 2: b"i1:1"}}))
    assert history.repeated_or_out_of_order(Seen({PLACE: {1: b"i1:2", 2: b"i1:1"}}))
    assert history.repeated_or_out_of_order(Seen({PLACE: {1: b"t1:2:1", 2: b"t1:2:0"}}))
    assert not history.repeated_or_out_of_order(Seen({PLACE: {1: b"i1:2", 2: b"i2:1"}, OTHER: {1: b"i1:1"}}))


def test_half_a_transaction_is_found() -> None:
    whole = Seen({PLACE: {1: b"t:1"}, OTHER: {1: b"t:2"}})
    half = Seen({PLACE: {1: b"t:1"}, OTHER: {}})
    nothing = Seen({})
    assert history.missing(told_of(t=Outcome.COMMITTED), half)
    assert history.missing(told_of(t=Outcome.COMMITTED), whole) == []
    assert history.half_visible(told_of(t=Outcome.ABORTED), half, at_rest=False)
    assert history.half_visible(told_of(t=Outcome.ABORTED), nothing, at_rest=True) == []
    for outcome in (Outcome.UNKNOWN, Outcome.OPEN):
        assert history.half_visible(told_of(t=outcome), half, at_rest=False) == []
        assert history.half_visible(told_of(t=outcome), half, at_rest=True)
        assert history.half_visible(told_of(t=outcome), whole, at_rest=True) == []
        assert history.half_visible(told_of(t=outcome), nothing, at_rest=True) == []


def test_a_commit_that_went_back_is_found() -> None:
    book = History()
    book.committed("group", PLACE, 6)
    book.committed("group", PLACE, 4)  # An answer that came late does not lower what was promised.
    assert history.behind(book.snapshot(), {("group", PLACE): 5})
    assert history.behind(book.snapshot(), {})


def test_what_was_carried_twice_or_not_at_all_is_found() -> None:
    def complaints(*carried: bytes) -> list[str]:
        target = dict(enumerate(carried))
        seen = Seen({("a", 0): {0: b"i:1", 1: b"i:2", 2: b"i:3"}, ("b", 0): target})
        return history.carried_wrong(seen, "a", "b", {("a", 0): 2})

    assert complaints(b"i:1", b"i:2") == []
    assert complaints(b"i:1")
    assert complaints(b"i:1", b"i:1", b"i:2")
    assert complaints(b"i:1", b"i:2", b"i:3")
