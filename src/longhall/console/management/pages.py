"""Lists as the management API shows them: filtered by name, sorted, cut into pages, reduced to columns.

With thousands of objects only the page is measured: the rows of a list are cheap, `fill` makes the objects of those
that are shown. A sort by something that is measured needs all of them.

    name, use_regex       objects whose name has this text, or matches this expression
    sort, sort_reverse    a column, with dots for a field of a field
    page, page_size       at most 500 a page; without `page` the answer is an array of everything
    columns               these fields only
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from longhall.console.api.asked import Asked, Reply
from longhall.errors import Code, LonghallError
from longhall.exchanges.patterns import compile_pattern

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
CHEAP: Final = ("", "name", "vhost")

Row = dict[str, Any]
Fill = Callable[[list[Row]], Awaitable[list[Row]]]


class _Query(msgspec.Struct):
    """The fields of the query that every list takes; others are of one list, or of newer clients."""

    name: str = ""
    use_regex: bool = False
    sort: str = ""
    sort_reverse: bool = False
    page: int = 0
    page_size: int = PAGE_SIZE
    columns: str = ""


async def listed(asked: Asked, rows: list[Row], fill: Fill | None = None) -> Reply:
    """The reply of a list. INVALID_REQUEST for a page that there is not."""
    query = _query(asked)
    total = len(rows)
    rows = _matching(rows, query)
    sorts_late = fill is not None and query.sort not in CHEAP
    if sorts_late and fill is not None:
        rows = await fill(rows)
    if query.sort:
        rows = sorted(rows, key=lambda row: _order(_at(row, query.sort)), reverse=query.sort_reverse)
    found = len(rows)
    pages = max(1, -(-found // query.page_size))
    if query.page:
        if query.page > pages:
            text = f"page out of range, page: {query.page} page size: {query.page_size}, len: {found}"
            raise LonghallError(Code.INVALID_REQUEST, text)
        rows = rows[(query.page - 1) * query.page_size : query.page * query.page_size]
    if fill is not None and not sorts_late:
        rows = await fill(rows)
    if query.columns:
        rows = [_columns(row, query.columns.split(",")) for row in rows]
    if not query.page:
        return Reply(rows)
    return Reply(
        {
            "total_count": total,
            "item_count": len(rows),
            "filtered_count": found,
            "page": query.page,
            "page_size": query.page_size,
            "page_count": pages,
            "items": rows,
        }
    )


def shown(asked: Asked, row: Row) -> Reply:
    """The reply with one object, reduced to the columns that the client wants."""
    columns = asked.query.get("columns", "")
    return Reply(_columns(row, columns.split(",")) if columns else row)


def _query(asked: Asked) -> _Query:
    given = {name: value for name, value in asked.query.items() if value != ""}
    try:
        query = msgspec.convert(given, _Query, strict=False)
    except msgspec.ValidationError as error:
        raise LonghallError(Code.INVALID_REQUEST, f"the query: {error}") from None
    if not 1 <= query.page_size <= PAGE_SIZE_MAX or query.page < 0:
        raise LonghallError(Code.INVALID_REQUEST, f"page_size is from 1 to {PAGE_SIZE_MAX}, and page from 1")
    return query


def _matching(rows: list[Row], query: _Query) -> list[Row]:
    if not query.name:
        return rows
    if query.use_regex:
        pattern = compile_pattern(query.name)
        return [row for row in rows if pattern.search(str(row.get("name", "")))]
    wanted = query.name.lower()
    return [row for row in rows if wanted in str(row.get("name", "")).lower()]


def _at(row: Any, path: str) -> Any:
    for part in path.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    return row


def _order(value: Any) -> tuple[int, Any]:
    """Values of several types in one order: nothing, numbers, texts, the rest."""
    if value is None:
        return 0, 0
    if isinstance(value, bool | int | float):
        return 1, value
    return (2, value) if isinstance(value, str) else (3, str(value))


def _columns(row: Row, columns: list[str]) -> Row:
    picked: Row = {}
    for column in columns:
        first, dot, rest = column.strip().partition(".")
        if first not in row:
            continue
        if not dot:
            picked[first] = row[first]
        elif isinstance(row[first], dict):
            inner = _columns(row[first], [rest])
            picked[first] = {**picked.get(first, {}), **inner}
    return picked
