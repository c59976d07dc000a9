"""Limits of clients: which entity decides, who shares a bucket, and the bound of the table."""

from __future__ import annotations

import pytest

from longhall.directory.client_limits import (
    CONSUME,
    DEFAULT,
    LIMIT_KIND,
    PRODUCE,
    LimitChange,
    LimitEntity,
    check_change,
    decode_limit,
    encode_rates,
    entry_name,
)
from longhall.directory.directory import Directory
from longhall.directory.events import DirectoryChanged, DirectoryEntry
from longhall.errors import LonghallError
from longhall.front import rate_buckets
from longhall.front.client_limits import ClientLimits
from longhall.front.identity import ANONYMOUS, Principal
from longhall.front.rate_buckets import RateBuckets

ANN = Principal("default", "ann", "user")
BEN = Principal("default", "ben", "user")


def limits_of(rates: dict[LimitEntity, dict[str, int]]) -> tuple[Directory, ClientLimits]:
    directory = Directory()
    limits = ClientLimits(directory, RateBuckets())
    put(directory, rates)
    return directory, limits


def put(directory: Directory, rates: dict[LimitEntity, dict[str, int]]) -> None:
    entries = [DirectoryEntry(LIMIT_KIND, entry_name(entity), encode_rates(one)) for entity, one in rates.items()]
    directory.apply(DirectoryChanged(put=entries, removed=[]))


PRECEDENCE = [
    LimitEntity("ann", "app"),
    LimitEntity("ann", DEFAULT),
    LimitEntity("ann"),
    LimitEntity(DEFAULT, "app"),
    LimitEntity(DEFAULT, DEFAULT),
    LimitEntity(DEFAULT),
    LimitEntity(None, "app"),
    LimitEntity(None, DEFAULT),
]


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_most_specific_entity_decides(first: int) -> None:
    # Each entity has another rate, so that the debt tells which of them decided.
    rates = {entity: {PRODUCE: 1000 * (number + 1)} for number, entity in enumerate(PRECEDENCE)}
    _, limits = limits_of({entity: rates[entity] for entity in PRECEDENCE[first:]})
    rate = 1000 * (first + 1)
    assert limits.produced(ANN, "app", 3 * rate, 0) == 2000  # A second's worth is free.


@pytest.mark.parametrize(
    ("entity", "shared_by_user", "shared_by_program"),
    [
        (LimitEntity(DEFAULT, DEFAULT), False, False),
        (LimitEntity(DEFAULT), True, False),
        (LimitEntity(None, DEFAULT), False, True),
    ],
)
def test_a_default_has_a_bucket_for_each_client(
    entity: LimitEntity, shared_by_user: bool, shared_by_program: bool
) -> None:
    _, limits = limits_of({entity: {PRODUCE: 1000}})
    assert limits.produced(ANN, "app", 5000, 0) == 4000
    assert bool(limits.produced(ANN, "other", 1, 0)) == shared_by_user
    assert bool(limits.produced(BEN, "app", 1, 0)) == shared_by_program
    assert limits.throttled == 1 + shared_by_user + shared_by_program


def test_without_limits_nothing_is_counted_and_one_removed_ends() -> None:
    directory, limits = limits_of({})
    assert not limits.active
    put(directory, {LimitEntity("ann"): {PRODUCE: 10}})
    assert limits.active
    assert limits.produced(ANN, None, 1000, 0) == 60_000  # No debt is longer than a minute.
    assert limits.produced(BEN, None, 1000, 0) == 0
    assert limits.consumed(ANN, None, 1000, 0) == 0
    directory.apply(DirectoryChanged(put=[], removed=[(LIMIT_KIND, entry_name(LimitEntity("ann")))]))
    assert not limits.active
    assert limits.produced(ANN, None, 1000, 0) == 0


def test_time_pays_the_debt_and_a_client_without_a_name_is_a_user_too() -> None:
    _, limits = limits_of({LimitEntity("ANONYMOUS"): {CONSUME: 1000}})
    assert limits.consumed(ANONYMOUS, "app", 3000, 0) == 2000
    assert limits.consumed(ANONYMOUS, "app", 0, 1500) == 500
    assert limits.consumed(ANONYMOUS, "app", 0, 2000) == 0


def test_the_table_is_bounded_and_the_idle_bucket_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_buckets, "BUCKETS_MAX", 2)
    _, limits = limits_of({LimitEntity(None, DEFAULT): {PRODUCE: 1000}})
    for program in ("a", "b", "a", "c"):
        limits.produced(ANN, program, 2000, 0)
    assert len(limits._buckets) == 2
    assert limits.produced(ANN, "a", 0, 0) > 0
    assert limits.produced(ANN, "b", 0, 0) == 0


@pytest.mark.parametrize("entity", [*PRECEDENCE, LimitEntity("<default>", "a,b=c"), LimitEntity("Grüße /%")])
def test_an_entity_survives_its_entry(entity: LimitEntity) -> None:
    found = decode_limit(entry_name(entity), encode_rates({PRODUCE: 5}))
    assert found is not None
    assert found.entity == entity
    assert found.rates == {PRODUCE: 5}


@pytest.mark.parametrize(
    "change",
    [
        LimitChange(LimitEntity(), {PRODUCE: 1}),
        LimitChange(LimitEntity("u" * 129), {PRODUCE: 1}),
        LimitChange(LimitEntity("€" * 128), {PRODUCE: 1}),
        LimitChange(LimitEntity("ann"), {PRODUCE: 0}),
        LimitChange(LimitEntity("ann"), {"speed": 1}),
        LimitChange(LimitEntity("ann"), {}, ["speed"]),
    ],
)
def test_a_limit_that_means_nothing_is_refused(change: LimitChange) -> None:
    with pytest.raises(LonghallError):
        check_change(change)


def test_an_entry_of_a_newer_version_is_no_limit() -> None:
    assert decode_limit("region=north", encode_rates({PRODUCE: 5})) is None
    assert decode_limit("user=ann", b"\xc1") is None
