"""Lists of the management API: pages, filters, sorting, columns; and rates from counters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from longhall.cluster.rpc.operation import Caller
from longhall.console.api.asked import Asked
from longhall.console.management.pages import Row, listed
from longhall.console.management.rates import SAMPLED_MAX, Rates
from longhall.errors import LonghallError

ROWS = [{"name": f"queue-{number}", "vhost": "/"} for number in range(7)]


class Filling:
    """Counts the rows that are measured."""

    def __init__(self) -> None:
        self.filled = 0

    async def __call__(self, rows: list[Row]) -> list[Row]:
        self.filled += len(rows)
        return [{**row, "messages": -int(row["name"][-1]), "message_stats": {"publish": 1, "ack": 2}} for row in rows]


def ask(fill: Filling | None = None, /, **query: str) -> Any:
    asked = Asked((), query, b"", "", Caller())
    return asyncio.run(listed(asked, list(ROWS), fill)).value


def test_only_the_page_is_measured_unless_the_order_needs_all() -> None:
    fill = Filling()
    page = ask(fill, page="2", page_size="3")
    assert [row["name"] for row in page["items"]] == ["queue-3", "queue-4", "queue-5"]
    assert {name: page[name] for name in page if name != "items"} == {
        "total_count": 7,
        "item_count": 3,
        "filtered_count": 7,
        "page": 2,
        "page_size": 3,
        "page_count": 3,
    }
    assert fill.filled == 3
    assert [row["name"] for row in ask(fill, page="1", page_size="1", sort="messages")["items"]] == ["queue-6"]
    assert fill.filled == 3 + 7


def test_names_are_matched_as_text_or_as_an_expression() -> None:
    assert [row["name"] for row in ask(name="UEUE-3")] == ["queue-3"]
    assert [row["name"] for row in ask(name="-[12]$", use_regex="true")] == ["queue-1", "queue-2"]
    page = ask(page="1", name="-[12]$", use_regex="true")
    assert (page["filtered_count"], page["total_count"]) == (2, 7)
    assert next(row["name"] for row in ask(sort="name", sort_reverse="true")) == "queue-6"


def test_columns_are_fields_and_fields_of_fields() -> None:
    assert ask(Filling(), columns="name,message_stats.ack", name="queue-1") == [
        {"name": "queue-1", "message_stats": {"ack": 2}}
    ]


@pytest.mark.parametrize(
    "wrong",
    [{"page": "3", "page_size": "5"}, {"page_size": "501"}, {"page": "x"}, {"name": "(a+)+", "use_regex": "true"}],
)
def test_what_is_no_page_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(LonghallError):
        ask(**wrong)


class Ticking:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now_ms = 0

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_us(self) -> int:
        return self.now_ms * 1000


def test_a_rate_is_the_growth_since_an_earlier_request() -> None:
    clock = Ticking()
    rates = Rates(clock)
    assert rates.with_details("q", {"publish": 100}) == {"publish": 100, "publish_details": {"rate": 0.0}}
    clock.now_ms = 10_000
    assert rates.rates("q", {"publish": 150}) == {"publish": 5.0}
    clock.now_ms = 11_000  # Another tool asks right after: it does not take the first one's measure.
    assert rates.rates("q", {"publish": 161})["publish"] == pytest.approx(61 / 11)
    clock.now_ms = 20_000
    assert rates.rates("q", {"publish": 250})["publish"] == pytest.approx(10.0)
    for number in range(SAMPLED_MAX + 10):
        rates.rates(f"thing {number}", {"publish": 1})
    assert len(rates._samples) == SAMPLED_MAX
