"""Jobs that process one name after another, once or repeatedly: reconcile and report.

The results of a pass are stored in a file of the user for this very command. A command that was interrupted and is
repeated soon continues with the same period and skips the names that are done; a complete pass removes the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, final

import typer

from longhall.cli.pipeline.input_options import period_of
from longhall.cli.timestamps import show_timestamp

if TYPE_CHECKING:
    from longhall.cli.pipeline.input_options import InputOptions
    from longhall.pipeline.fates import Period

RESUMED_MS_MAX: Final = 3_600_000  # Later than that "24h ago" means another day, and a new pass starts.

IntervalOption = Annotated[
    float, typer.Option("--interval", min=1.0, metavar="SECONDS", help="The interval of a continuous job.")
]


def passes(
    job: str,
    words: Mapping[str, Any],
    evidence: InputOptions,
    *,
    once: bool,
    interval_s: float,
    wait: Callable[[float], bool],
) -> Iterator[Pass]:
    """The passes of a command: one, or one every `interval_s` seconds with the current period.

    `wait` sleeps for that time and returns true if the pass was the last.
    """
    while True:
        yield Pass(job, {**words, "since": evidence.since, "until": evidence.until}, evidence.since, evidence.until)
        if once or wait(interval_s):
            return


@final
class Pass:
    """One pass: its period, and the results so far."""

    def __init__(self, job: str, words: Mapping[str, Any], since: str, until: str) -> None:
        name = hashlib.sha256(json.dumps(words, sort_keys=True, default=str).encode()).hexdigest()[:16]
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        self._file = base / "longhall" / job / f"{name}.json"
        self.known: dict[str, Any] = {}
        self.resumed = ""
        begun = self._begun()
        if begun is None:
            self.begun_ms = int(time.time() * 1000)
            self.period = period_of(since, until)
        else:
            self.begun_ms, self.period, self.known = begun
            self.resumed = f"going on with what began at {show_timestamp(self.begun_ms)}; {len(self.known)} are done"

    def note(self, name: str, found: Any) -> None:
        """Store a result. If the disk refuses it, a repeated command only takes longer."""
        self.known[name] = found
        document = {"begun_ms": self.begun_ms, "period": list(self.period), "known": self.known}
        fresh = self._file.with_suffix(f".{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps(document))
            fresh.replace(self._file)
        except OSError:
            pass

    def end(self) -> None:
        """Remove the file: all names are done."""
        try:
            self._file.unlink(missing_ok=True)
        except OSError:
            pass

    def _begun(self) -> tuple[int, Period, dict[str, Any]] | None:
        from longhall.pipeline.fates import Period

        try:
            document = json.loads(self._file.read_text())
            begun_ms, known = int(document["begun_ms"]), dict(document["known"])
            period = Period(*(int(each) for each in document["period"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return (begun_ms, period, known) if 0 <= time.time() * 1000 - begun_ms <= RESUMED_MS_MAX else None
