"""Metric families, and their Prometheus text form.

A collector is called at scrape time and yields families whose samples are already numbers; counting itself costs the
hot paths nothing but an addition. The registry renders in slices and lets the loop run between them, because a hall
with thousands of partitions has tens of thousands of samples; however many scrapers ask at once, one rendering serves
them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, final

from longhall.meters import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["counter", "gauge", "histogram", "summary"]
Labels = tuple[tuple[str, str], ...]

_SLICE_LINES: Final = 500
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@final
class Family:
    """All samples of one name."""

    __slots__ = ("help", "kind", "name", "samples")

    def __init__(self, name: str, kind: Kind, help: str) -> None:
        self.name = name
        self.kind = kind
        self.help = help
        self.samples: list[tuple[str, Labels, float]] = []  # What follows the name, labels, value.

    def add(self, value: float, *labels: tuple[str, str]) -> Family:
        """One plain sample."""
        self.samples.append(("", labels, value))
        return self

    def add_histogram(self, histogram: Histogram, *labels: tuple[str, str]) -> Family:
        """The cumulative buckets of a distribution."""
        below = 0
        for bound, count in zip((*histogram.bounds, math.inf), histogram.counts, strict=True):
            below += count
            self.samples.append(("_bucket", (*labels, ("le", number(bound))), below))
        self.samples.append(("_sum", labels, histogram.total))
        self.samples.append(("_count", labels, below))
        return self

    def add_summary(
        self, quantiles: Sequence[tuple[float, float]], total: float, count: int, *labels: tuple[str, str]
    ) -> Family:
        """Quantiles that were computed here, for dashboards that expect them ready-made."""
        for share, value in quantiles:
            self.samples.append(("", (*labels, ("quantile", number(share))), value))
        self.samples.append(("_sum", labels, total))
        self.samples.append(("_count", labels, count))
        return self


Collector = Callable[[], Iterable[Family]]


@final
class Registry:
    """Everything that a scrape shows."""

    def __init__(self) -> None:
        self._collectors: list[Collector] = []
        self._rendering: asyncio.Task[bytes] | None = None

    def collect(self, collector: Collector) -> None:
        """Call `collector` at every scrape. A family's name must come from one collector only."""
        self._collectors.append(collector)

    async def render(self) -> bytes:
        """The whole exposition. Calls that overlap get the same one."""
        if self._rendering is None:
            self._rendering = asyncio.create_task(self._render())
            self._rendering.add_done_callback(self._rendered)
        # One scraper that goes away must not take the answer of the others with it.
        return await asyncio.shield(self._rendering)

    def _rendered(self, _: asyncio.Task[bytes]) -> None:
        self._rendering = None

    async def _render(self) -> bytes:
        slices: list[str] = []
        lines: list[str] = []
        for collector in self._collectors:
            for family in collector():
                for line in family_lines(family):
                    lines.append(line)
                    if len(lines) >= _SLICE_LINES:
                        slices.append("".join(lines))
                        lines.clear()
                        await asyncio.sleep(0)
            await asyncio.sleep(0)
        return ("".join(slices) + "".join(lines)).encode()


def family_lines(family: Family) -> Iterator[str]:
    """The lines of one family, each with its line end; none if it has no samples."""
    if not family.samples:
        return
    yield f"# HELP {family.name} {escape_help(family.help)}\n"
    yield f"# TYPE {family.name} {family.kind}\n"
    for suffix, labels, value in family.samples:
        if labels:
            inside = ",".join([f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels])
            yield f"{family.name}{suffix}{{{inside}}} {number(value)}\n"
        else:
            yield f"{family.name}{suffix} {number(value)}\n"


def escape_help(text: str) -> str:
    """Help may hold quotes as they are; only line ends and backslashes would break it."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def number(value: float) -> str:
    """A number as Prometheus reads it; whole numbers stay whole however large they are."""
    if isinstance(value, int):
        return str(value)
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)
