"""Plots as inline SVG: lines over time, columns over time, bars by name. Pure: values in, text out.

Every plot has a scale with marks, names of its axes with their units, and a title on shapes, which is a
tooltip in browsers. Colours are classes (`s0` to `s5`) and everything else inherits, so that one style sheet serves
light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 250
LEFT: Final = 78
RIGHT: Final = 24
TOP: Final = 12
BOTTOM: Final = 46
BAR: Final = 22  # Of a bar by name, with the space below it.
NAME_WIDTH: Final = 190
CHARACTERS_MAX: Final = 26

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
STEPS_MS: Final = (
    *(1000 * seconds for seconds in (1, 5, 10, 30)),
    *(_MINUTE_MS * minutes for minutes in (1, 5, 10, 15, 30)),
    *(_HOUR_MS * hours for hours in (1, 2, 3, 4, 6, 12, 24, 48, 168)),
)

Series = Mapping[str, Sequence[float | None]]


def count_words(value: float) -> str:
    """A number in about three digits: 950, 1.2k, 3.4M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def byte_words(value: float) -> str:
    """A size in about three digits."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if abs(value) >= 1024**power:
            return f"{value / 1024**power:.3g} {unit}"
    return f"{value:.0f} B"


def span_words(value_ms: float) -> str:
    """A time span in about three digits."""
    for limit, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if abs(value_ms) >= limit:
            return f"{value_ms / limit:.3g} {unit}"
    return f"{value_ms:.3g} ms"


def ticks(top: float, count: int = 4) -> list[float]:
    """Round marks from 0 to at least `top`."""
    if top < 1e-12:  # Smaller values than this are taken for zero.
        return [0.0, 1.0]
    rough = top / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * 0.999)
    return [step * at for at in range(math.ceil(top / step - 1e-9) + 1)]


def marks_to(top: float, words: Callable[[float], str]) -> list[float]:
    """Marks that are round in their unit; counts have whole marks."""
    if words is count_words:
        step = math.ceil(ticks(top)[1])
        return [float(step * at) for at in range(max(math.ceil(top / step), 1) + 1)]
    if words is not byte_words:
        return ticks(top)
    unit = next((1024.0**power for power in (4, 3, 2, 1) if top >= 1024**power), 1.0)
    return [unit * mark for mark in ticks(top / unit)]


def time_ticks(begin_ms: int, end_ms: int, count_max: int = 8) -> list[int]:
    """Round moments between two, in UTC."""
    span = max(end_ms - begin_ms, 1)
    step = next(
        (each for each in STEPS_MS if span / each <= count_max), STEPS_MS[-1] * math.ceil(span / STEPS_MS[-1] / 8)
    )
    first = -(-begin_ms // step) * step
    return list(range(first, end_ms + 1, step))


def moment_words(at_ms: int, span_ms: int) -> str:
    """A moment on an axis: the day where there are many, else the time."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    if span_ms > 3 * 86_400_000:
        return moment.strftime("%b %d")
    return moment.strftime("%H:%M:%S" if span_ms < 600_000 else "%H:%M")


def lines_over_time(
    begin_ms: int, step_ms: int, series: Series, y_name: str, words: Callable[[float], str] = count_words
) -> str:
    """One line a series; a value of None is a break in it."""
    size = max((len(values) for values in series.values()), default=0)
    frame = _Frame(begin_ms, begin_ms + step_ms * max(size, 1), _top(series), y_name, words)
    shapes = []
    for number, (name, values) in enumerate(series.items()):
        points: list[str] = []
        for at, value in enumerate([*values, None]):
            if value is not None:
                middle = begin_ms + at * step_ms + step_ms // 2
                points.append(f"{frame.x(middle):.1f},{frame.y(value):.1f}")
            elif points:
                shape = f'<polyline class="line s{number % 6}" points="{" ".join(points)}">'
                shapes.append(f"{shape}<title>{escape(name)}</title></polyline>")
                if len(points) == 1:
                    x, y = points[0].split(",")
                    shapes.append(f'<circle class="dot s{number % 6}" cx="{x}" cy="{y}" r="2.5"/>')
                points = []
    return frame.around(shapes) + _legend(list(series))


def columns_over_time(
    begin_ms: int, step_ms: int, series: Series, y_name: str, words: Callable[[float], str] = count_words
) -> str:
    """Columns that stand on each other, one a step."""
    size = max((len(values) for values in series.values()), default=0)
    sums = [sum(values[at] or 0 for values in series.values()) for at in range(size)]
    frame = _Frame(begin_ms, begin_ms + step_ms * max(size, 1), max(sums, default=0), y_name, words)
    shapes = []
    floors = [0.0] * size
    for number, (name, values) in enumerate(series.items()):
        for at, value in enumerate(values):
            if not value:
                continue
            x, x_end = frame.x(begin_ms + at * step_ms), frame.x(begin_ms + (at + 1) * step_ms)
            y, y_floor = frame.y(floors[at] + value), frame.y(floors[at])
            floors[at] += value
            when = moment_words(begin_ms + at * step_ms, step_ms * size)
            shapes.append(
                f'<rect class="s{number % 6}" x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(x_end - x - 1, 0.8):.1f}" '
                f'height="{max(y_floor - y, 0.6):.1f}">'
                f"<title>{when}: {escape(words(value))} {escape(name)}</title></rect>"
            )
    return frame.around(shapes) + _legend(list(series))


def bars_by_name(
    rows: Sequence[tuple[str, float, str]],
    x_name: str,
    marked: Sequence[str] = (),
    words: Callable[[float], str] = count_words,
) -> str:
    """A bar a row: its name, its length, and what is written behind it. Those that are `marked` have another colour."""
    top = max((value for _, value, _ in rows), default=0)
    marks = marks_to(top, words)
    width = WIDTH - NAME_WIDTH - 90
    height = TOP + BAR * len(rows) + BOTTOM
    scale = width / marks[-1]
    out = [_open(height, x_name)]
    floor = TOP + BAR * len(rows)
    for mark in marks:
        x = NAME_WIDTH + mark * scale
        out.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{floor}"/>')
        out.append(f'<text class="mark" x="{x:.1f}" y="{floor + 15}" text-anchor="middle">{escape(words(mark))}</text>')
    for at, (name, value, behind) in enumerate(rows):
        y = TOP + BAR * at
        kind = "s1" if name in marked else "s0"
        short = name if len(name) <= CHARACTERS_MAX else name[: CHARACTERS_MAX - 1] + "…"
        out.append(f'<text class="name" x="{NAME_WIDTH - 8}" y="{y + 14}" text-anchor="end">{escape(short)}</text>')
        out.append(
            f'<rect class="{kind}" x="{NAME_WIDTH}" y="{y + 2}" width="{max(value * scale, 0.8):.1f}" '
            f'height="{BAR - 6}">'
            f"<title>{escape(name)}: {escape(behind)}</title></rect>"
        )
        out.append(f'<text class="mark" x="{NAME_WIDTH + value * scale + 6:.1f}" y="{y + 14}">{escape(behind)}</text>')
    out.append(
        f'<text class="axis" x="{NAME_WIDTH + width / 2}" y="{height - 8}" text-anchor="middle">{escape(x_name)}</text>'
    )
    return "".join(out) + "</svg>"


class _Frame:
    """Axes over time: where a moment and a value are, and the picture around shapes."""

    def __init__(self, begin_ms: int, end_ms: int, top: float, y_name: str, words: Callable[[float], str]) -> None:
        self._begin_ms = begin_ms
        self._span_ms = max(end_ms - begin_ms, 1)
        self._marks = marks_to(top, words)
        self._y_name = y_name
        self._words = words

    def x(self, at_ms: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at_ms - self._begin_ms) / self._span_ms

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self._marks[-1]

    def around(self, shapes: Sequence[str]) -> str:
        out = [_open(HEIGHT, self._y_name)]
        for mark in self._marks:
            y = self.y(mark)
            out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            out.append(
                f'<text class="mark" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
                f"{escape(self._words(mark))}</text>"
            )
        for at_ms in time_ticks(self._begin_ms, self._begin_ms + self._span_ms):
            x, floor = self.x(at_ms), HEIGHT - BOTTOM
            out.append(f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{floor}" y2="{floor + 4}"/>')
            words = moment_words(at_ms, self._span_ms)
            out.append(f'<text class="mark" x="{x:.1f}" y="{floor + 17}" text-anchor="middle">{words}</text>')
        out.extend(shapes)
        middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
        out.append(
            f'<text class="axis" transform="translate(13 {middle:.0f}) rotate(-90)" text-anchor="middle">'
            f"{escape(self._y_name)}</text>"
        )
        out.append(
            f'<text class="axis" x="{LEFT + (WIDTH - LEFT - RIGHT) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
            "time (UTC)</text>"
        )
        return "".join(out) + "</svg>"


def _open(height: int, name: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(name)}">'


def _top(series: Series) -> float:
    return max((value for values in series.values() for value in values if value is not None), default=0)


def _legend(names: Sequence[str]) -> str:
    if len(names) < 2:
        return ""
    entries = "".join(f'<span><i class="s{number % 6}"></i>{escape(name)}</span>' for number, name in enumerate(names))
    return f'<div class="legend">{entries}</div>'
