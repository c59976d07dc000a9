"""Assignment by range."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.client.assignment import assign_by_range


def test_the_first_members_get_one_more() -> None:
    assert assign_by_range({"b": ["t"], "a": ["t", "u"]}, {"t": 3, "u": 1}) == {
        "a": [("t", 0), ("t", 1), ("u", 0)],
        "b": [("t", 2)],
    }


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("tuvw"), unique=True), min_size=1),
    st.dictionaries(st.sampled_from("tuvw"), st.integers(0, 20)),
)
def test_every_partition_has_one_reader(wishes: dict[str, list[str]], counts: dict[str, int]) -> None:
    assigned = assign_by_range(wishes, counts)
    assert set(assigned) == set(wishes)
    places = [place for given in assigned.values() for place in given]
    wanted = {topic for wish in wishes.values() for topic in wish}
    assert sorted(places) == [(t, n) for t in sorted(counts) if t in wanted for n in range(counts[t])]
    for member, given_to_it in assigned.items():
        assert all(topic in wishes[member] for topic, _ in given_to_it)
    for topic in counts:
        sizes = [sum(t == topic for t, _ in assigned[member]) for member in wishes if topic in wishes[member]]
        assert not sizes or max(sizes) - min(sizes) <= 1
