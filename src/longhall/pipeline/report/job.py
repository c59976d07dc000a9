"""The report job: names to measured values to one file, which is written whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from longhall.client.hall import Hall
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.fates import Period
from longhall.pipeline.reconcile import InputRecords
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.report.measures import measure
from longhall.pipeline.report.page import page

GROUPS_MAX: Final = 1000

Gather = Callable[[str], tuple[InputRecords, bool]]  # What there is of a name, and whether it is a queue with an audit.


def make_report(
    names: Sequence[str],
    gather: Gather,
    period: Period,
    *,
    groups: Sequence[Mapping[str, Any]] = (),
    disk_free_bytes: int = 0,
    told: Callable[[str, int], None] = lambda name, done: None,
    known: Mapping[str, dict[str, Any]] | None = None,
    learnt: Callable[[str, dict[str, Any]], None] = lambda name, facts: None,
) -> tuple[list[dict[str, Any]], str]:
    """The measured values of each name, and the page. What is `known` is not measured again."""
    reports = []
    for number, name in enumerate(names):
        told(name, number)
        facts = (known or {}).get(name)
        if facts is None:
            evidence, is_queue = gather(name)
            facts = measure(name, evidence, period, is_queue=is_queue, disk_free_bytes=disk_free_bytes)
            learnt(name, facts)
        reports.append(facts)
    made_ms = int(time.time() * 1000)
    return reports, page(reports, period.from_ms, period.until_ms, [dict(each) for each in groups], made_ms)


def lags(bootstrap: str, topics: Sequence[str]) -> list[dict[str, Any]]:
    """The lag of consumer groups on these topics now, the largest first."""

    async def ask(hall: Hall) -> list[dict[str, Any]]:
        found: dict[tuple[str, str], int] = {}
        for group in (await hall.groups.list())[:GROUPS_MAX]:
            for (topic, _), (committed, end) in (await hall.groups.lag(group.group_id)).items():
                if topic in topics:
                    name = (group.group_id, topic)
                    found[name] = found.get(name, 0) + max(end - max(committed.offset, 0), 0)
        rows = [{"group": group, "topic": topic, "lag": behind} for (group, topic), behind in found.items()]
        return sorted(rows, key=lambda row: -int(row["lag"]))

    with BlockingClient(bootstrap) as client:
        return client.ask(ask)


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears when it is complete. Raises PipelineError."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, "utf-8")
        fresh.replace(path)
    except OSError as failure:
        fresh.unlink(missing_ok=True)
        raise PipelineError(f"{path} cannot be written: {failure.strerror}") from None
