"""The checks of the soak find the violations that they are for; a check that never fails would prove nothing."""

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


def test_a_complete_log_has_no_violation() -> None:
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


def test_duplicates_and_disorder_are_found() -> None:
    assert history.repeated_or_out_of_order(Seen({PLACE: {1: b"i1:1", 2: b"i1:1"}}))
    assert history.repeated_or_out_of_order(Seen({PLACE: {1: b"i1:2", 2: b"i1:1"}}))
    assert history.repeated_or_out_of_order(Seen({PLACE: {1: b"t1:2:1", 2: b"t1:2:0"}}))
    assert not history.repeated_or_out_of_order(Seen({PLACE: {1: b"i1:2", 2: b"i2:1"}, OTHER: {1: b"i1:1"}}))


def test_a_half_visible_transaction_is_found() -> None:
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


def test_an_offset_below_an_acknowledged_commit_is_found() -> None:
    book = History()
    book.committed("group", PLACE, 6)
    book.committed("group", PLACE, 4)  # A late answer does not lower the acknowledged offset.
    assert history.behind(book.snapshot(), {("group", PLACE): 5})
    assert history.behind(book.snapshot(), {})


def test_records_copied_twice_or_never_are_found() -> None:
    def complaints(*carried: bytes) -> list[str]:
        target = dict(enumerate(carried))
        seen = Seen({("a", 0): {0: b"i:1", 1: b"i:2", 2: b"i:3"}, ("b", 0): target})
        return history.carried_wrong(seen, "a", "b", {("a", 0): 2})

    assert complaints(b"i:1", b"i:2") == []
    assert complaints(b"i:1")
    assert complaints(b"i:1", b"i:1", b"i:2")
    assert complaints(b"i:1", b"i:2", b"i:3")
