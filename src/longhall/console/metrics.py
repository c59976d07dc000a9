"""Metric families, and their Prometheus text form.

A collector is called at scrape time and returns families whose samples may be generated while they are written; a
counter costs the hot paths only an addition. The registry renders in slices and lets the loop run between them, because
a hall with thousands of partitions has tens of thousands of samples. Concurrent scrapes share one rendering.

If several processes serve one hall, each labels its samples, and the process that is scraped merges those of the others
into its own: each family appears once, with the samples of all processes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeVar, final

from longhall.meters import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SLICE_LINES: Final = 500  # About one millisecond.
SLICE_THINGS: Final = 100  # Topics or groups per turn of the loop.

Kind = Literal["counter", "gauge", "histogram", "summary", "untyped"]
Sample = tuple[str, str, float]  # Suffix of the name, labels as text, value.

_T = TypeVar("_T")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Family(NamedTuple):
    """All samples of one name."""

    name: str
    kind: Kind
    help: str
    samples: Iterable[Sample]


class Block(NamedTuple):
    """One family as rendered by another process: its header and its samples."""

    head: str
    samples: str


Others = Callable[[], Awaitable[dict[str, list[Block]]]]  # By the name of the family.
Collector = Callable[[], Iterable[Family] | Awaitable[Iterable[Family]]]


def gauge(name: str, help: str, value: float) -> Family:
    """A single number that goes up and down."""
    return Family(name, "gauge", help, (("", "", value),))


def counter(name: str, help: str, value: float) -> Family:
    """A single number that only goes up."""
    return Family(name, "counter", help, (("", "", value),))


def labels(*pairs: tuple[str, str]) -> str:
    """Labels as text between the braces. Format them once if many samples share them."""
    return ",".join([f'{name}="{text.translate(_ESCAPES)}"' for name, text in pairs])


def histogram_samples(histogram: Histogram, labelled: str = "") -> Iterator[Sample]:
    """The cumulative buckets of a distribution."""
    comma = "," if labelled else ""
    below = 0
    for bound, count in zip((*histogram.bounds, math.inf), histogram.counts, strict=True):
        below += count
        yield "_bucket", f'{labelled}{comma}le="{number(bound)}"', below
    yield "_sum", labelled, histogram.total
    yield "_count", labelled, below


def summary_samples(
    quantiles: Sequence[tuple[float, float]], total: float, count: int, labelled: str = ""
) -> Iterator[Sample]:
    """Quantiles computed here, for dashboards that expect them."""
    comma = "," if labelled else ""
    for share, value in quantiles:
        yield "", f'{labelled}{comma}quantile="{number(share)}"', value
    yield "_sum", labelled, total
    yield "_count", labelled, count


@final
class Registry:
    """All collectors of a process, and the rendering of their families."""

    def __init__(self, label: str = "") -> None:
        """Every sample has the `label`."""
        self.others: Others | None = None
        self._label = label
        self._collectors: list[Collector] = []
        self._rendering: asyncio.Task[bytes] | None = None

    def collect(self, collector: Collector) -> None:
        """Call `collector` at every scrape. A family's name must come from one collector only."""
        self._collectors.append(collector)

    async def render(self) -> bytes:
        """The complete exposition. Concurrent calls get the same one."""
        if self._rendering is None:
            self._rendering = asyncio.create_task(self._render())
            self._rendering.add_done_callback(self._rendered)
        # A scraper that disconnects must not cancel the rendering for the others.
        return await asyncio.shield(self._rendering)

    def _rendered(self, _: asyncio.Task[bytes]) -> None:
        self._rendering = None

    async def _render(self) -> bytes:
        slices: list[bytes] = []
        lines: list[str] = []
        others = await self.others() if self.others is not None else {}
        for collector in self._collectors:
            collected = collector()
            families = await collected if isinstance(collected, Awaitable) else collected
            for family in families:
                headed = False
                for line in family_lines(family, self._label):
                    headed = True
                    lines.append(line)
                    if len(lines) >= SLICE_LINES:
                        slices.append("".join(lines).encode())
                        lines.clear()
                        await asyncio.sleep(0)
                if headed and family.name in others:
                    lines += [block.samples for block in others.pop(family.name)]
            await asyncio.sleep(0)
        for blocks in others.values():
            lines += [blocks[0].head, *(block.samples for block in blocks)]
        slices.append("".join(lines).encode())
        return b"".join(slices)


async def gathered(things: Iterable[_T], slice_things: int = SLICE_THINGS) -> list[_T]:
    """All things as a list, some in each turn of the loop, because each may take time to generate."""
    found: list[_T] = []
    for thing in things:
        found.append(thing)
        if len(found) % slice_things == 0:
            await asyncio.sleep(0)
    return found


def blocks_of(text: str) -> dict[str, Block]:
    """A rendered exposition, split by family."""
    found: dict[str, Block] = {}
    for part in ("\n" + text).split("\n# HELP ")[1:]:
        help_line, type_line, samples = part.rstrip("\n").split("\n", 2)
        found[help_line.partition(" ")[0]] = Block(f"# HELP {help_line}\n{type_line}\n", samples + "\n")
    return found


def family_lines(family: Family, label: str = "") -> Iterator[str]:
    """The lines of one family, each with its line end; none if it has no samples. Every sample gets the `label`."""
    name = family.name
    headed = False
    for suffix, labelled, value in family.samples:
        if not headed:
            headed = True
            yield f"# HELP {name} {escape_help(family.help)}\n"
            yield f"# TYPE {name} {family.kind}\n"
        shown = value if type(value) is int else number(value)
        if label:
            labelled = f"{label},{labelled}" if labelled else label
        yield f"{name}{suffix}{{{labelled}}} {shown}\n" if labelled else f"{name}{suffix} {shown}\n"


def escape_help(text: str) -> str:
    """Help may hold quotes as they are; only line ends and backslashes would break it."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def number(value: float) -> str:
    """A number as Prometheus reads it; whole numbers stay whole however large they are."""
    if isinstance(value, int):
        return str(int(value))
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)
