"""The state of usage: everything that was noted is in the rows, in the report, or was written, and never in two."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from longhall.broker.usage import usage_totals
from longhall.broker.usage.usage_events import UsageEvent, UsageNoted, UsageTaken, UsageWritten, usage_decoder
from longhall.broker.usage.usage_records import records_of
from longhall.broker.usage.usage_totals import METERS, UsageTotals

NAMES = st.sampled_from(["a", "b", "c"])


def noted(tenant: str, resource: str, count: int, at_ms: int = 1) -> UsageNoted:
    return UsageNoted(at_ms=at_ms, rows=[(tenant, "u", "sqs", resource, [count, 0, 0, 0, 0, 0])])


def held(totals: UsageTotals) -> int:
    report = sum(row[4][0] for row in totals.report.rows) if totals.report is not None else 0
    return sum(row[0] for row in totals.rows.values()) + report


@given(st.lists(st.one_of(st.tuples(NAMES, NAMES, st.integers(1, 9)), st.sampled_from(["close", "write", "restart"]))))
def test_nothing_is_lost_or_doubled(steps: list[tuple[str, str, int] | str]) -> None:
    totals = UsageTotals()
    counted = written = 0
    for step in steps:
        if isinstance(step, tuple):
            totals.apply(usage_decoder.decode(msgspec.msgpack.encode(noted(*step))))
            counted += step[2]
        elif step == "close":
            closed = totals.decide_close()
            if closed is not None:
                totals.apply(closed)
        elif step == "write" and totals.report is not None:
            written += sum(row[4][0] for row in totals.report.rows)
            totals.apply(UsageWritten(number=totals.report.number))
        elif step == "restart":
            state = msgspec.msgpack.decode(msgspec.msgpack.encode(totals.snapshot()))
            totals = UsageTotals()
            totals.restore(state)
        assert held(totals) + written == counted


def test_a_report_does_not_change_while_usage_goes_on() -> None:
    totals = UsageTotals()
    events: list[UsageEvent] = [noted("acme", "orders", 3, at_ms=1_000), noted("acme", "orders", 4, at_ms=3_000)]
    for event in events:
        totals.apply(event)
    closed = totals.decide_close()
    assert closed is not None
    totals.apply(closed)
    totals.apply(noted("acme", "orders", 5, at_ms=4_000))
    assert totals.decide_close() is None
    assert totals.report is not None
    (record,) = records_of("source", totals.report)
    told = msgspec.json.decode(record)
    assert (told["id"], told["start_ms"], told["end_ms"]) == ("source-1-0", 1_000, 3_000)
    assert told["usage"] == {METERS[0]: 7}


def test_beyond_the_bound_usage_is_counted_without_the_resource() -> None:
    totals = UsageTotals()
    for number in range(usage_totals.ROWS_MAX + 2):
        totals.apply(noted("acme", f"q{number}", 1))
    assert len(totals.rows) == usage_totals.ROWS_MAX + 1
    assert totals.rows["acme", "u", "sqs", ""][0] == 2


def test_sources_that_are_silent_longest_are_forgotten() -> None:
    totals = UsageTotals()
    for number in range(usage_totals.SOURCES_MAX + 1):
        totals.apply(UsageTaken(source=f"s{number}", number=1))
        totals.apply(UsageTaken(source="busy", number=number))
    assert "s0" not in totals.sources
    assert totals.sources["busy"] == usage_totals.SOURCES_MAX
