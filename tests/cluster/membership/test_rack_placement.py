"""Where copies belong: spread over racks as far as there are any, and nobody moved who need not be."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from longhall.cluster.membership.rack_placement import crowded, place

RACKS = st.dictionaries(st.integers(1, 7), st.sampled_from(["", "a", "b", "c"]), min_size=1)


def is_spread(keepers: set[int], racks: dict[int, str]) -> bool:
    """No rack has two copies while one that has none has a host to spare."""
    used = [racks[node] for node in keepers if node in racks]
    spare = {racks[node] for node in racks if node not in keepers} - set(used)
    return not spare or len(used) == len(set(used))


@given(RACKS, st.data(), st.integers(1, 5))
def test_copies_are_spread_and_few_are_moved(racks: dict[int, str], data: st.DataObject, count: int) -> None:
    keepers = data.draw(st.lists(st.sampled_from(sorted(racks)), unique=True, max_size=5))
    chosen = place(keepers, racks, count)
    assert len(set(chosen)) == len(chosen) == min(count, len(racks))
    assert is_spread(set(chosen), racks)
    # Nobody could have done it with fewer copies that move.
    best = max(
        len(set(keepers) & set(other)) for other in combinations(racks, len(chosen)) if is_spread(set(other), racks)
    )
    assert len(set(keepers) & set(chosen)) == best
    assert place(chosen, racks, count) == chosen  # It comes to rest.


@given(RACKS, st.lists(st.integers(1, 9), unique=True, min_size=1, max_size=4))
def test_who_is_away_stays_where_it_is(racks: dict[int, str], keepers: list[int]) -> None:
    chosen = place(keepers, racks, len(keepers))
    assert set(keepers) - set(racks) <= set(chosen)
    assert len(chosen) == len(keepers)


def test_the_leader_is_the_last_to_be_moved() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "c"}
    assert crowded([1, 2, 3], racks, {2}) == (1, 4)
    assert crowded([1, 2, 3], racks, {1}) == (2, 4)
    assert crowded([1, 3], racks) is None
    assert place([1, 2, 3], racks, 2, {2}) == [2, 3]
    assert place([1, 2, 3], {1: "", 2: "", 3: "", 4: ""}, 3) == [1, 2, 3]
