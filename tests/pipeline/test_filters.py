"""Filters that reading obeys let through exactly the rows that they say."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark

from longhall.pipeline.filters import FilterWanted

COMPARISONS = {
    spark.EqualTo: operator.eq,
    spark.GreaterThan: operator.gt,
    spark.GreaterThanOrEqual: operator.ge,
    spark.LessThan: operator.lt,
    spark.LessThanOrEqual: operator.le,
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.sampled_from(list(COMPARISONS)), st.integers(-5, 105))
def test_offsets(kind: type[spark.Filter], value: int) -> None:
    wanted = FilterWanted()
    assert list(wanted.take([kind(("offset",), value)])) == []  # type: ignore[call-arg]
    let_through = [offset for offset in range(100) if wanted.first_offset <= offset < wanted.end_offset]
    assert let_through == [offset for offset in range(100) if COMPARISONS[kind](offset, value)]


@given(st.sampled_from(list(COMPARISONS)), st.integers(-3000, 50_000))
def test_times_also_between_two_milliseconds(kind: type[spark.Filter], value_us: int) -> None:
    wanted = FilterWanted()
    bound = EPOCH + timedelta(microseconds=value_us)
    left = list(wanted.take([kind(("timestamp",), bound)]))  # type: ignore[call-arg]
    let_through = {ms for ms in range(-5, 50) if wanted.first_ms <= ms <= wanted.last_ms}
    exact = {ms for ms in range(-5, 50) if COMPARISONS[kind](ms * 1000, value_us)}
    assert let_through >= exact
    assert left or let_through == exact


def test_partitions_topics_and_filters_left_to_spark() -> None:
    wanted = FilterWanted()
    strange = [spark.EqualTo(("value",), b"x"), spark.Not(spark.EqualTo(("partition",), 1)), spark.IsNull(("offset",))]
    known = [spark.In(("partition",), (1, 2)), spark.EqualTo(("topic",), "a"), spark.IsNotNull(("topic",))]
    assert list(wanted.take([*strange, *known])) == strange
    assert [wanted.has(*place) for place in (("a", 1), ("a", 3), ("b", 1))] == [True, False, False]
