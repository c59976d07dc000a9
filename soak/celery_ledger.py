"""What the workers of the Celery soak noted, and what is wrong with it.

A task is lost if its publication was confirmed and it never ran. A message was acknowledged if the worker received it
and wrote the acknowledgement during one life of the broker, and that life went on for SETTLE_SECONDS: AMQP answers no
acknowledgement, so one that was written just before a kill may not have arrived. Such a message must not run again. The
retry of a message that was delivered twice is two messages: each delivery asked for it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Final

from soak.kill import Violation

SETTLE_SECONDS: Final = 2.0
# The environment of workers and clients: URL of the broker, file of notes, directory of results.
BROKER: Final = "SOAK_BROKER"
LEDGER: Final = "SOAK_LEDGER"
RESULTS: Final = "SOAK_RESULTS"


class Ledger:
    """The notes of all messages, and the lives of the broker."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lives: list[tuple[float, float]] = []

    def lived(self, began: float, ended: float) -> None:
        """The broker was ready at `began` and killed at `ended`."""
        self._lives.append((began, ended))

    def notes(self) -> dict[str, dict[str, list[float]]]:
        """The times of each kind of note, by message."""
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        text = self._path.read_text() if self._path.exists() else ""
        for line in text.splitlines():
            one = json.loads(line)
            found[one["message"]][one["what"]].append(one["at"])
        return found

    def outstanding(self, confirmed: dict[str, int]) -> list[str]:
        """Tasks whose publication was confirmed and whose last message has not run. `confirmed` has their retries."""
        notes = self.notes()
        return [task for task, retries in confirmed.items() if not notes.get(f"{task}.{retries}", {}).get("ran")]

    def judge(self, confirmed: dict[str, int]) -> dict[str, int]:
        """Counts for the report; raises Violation if a task was lost, or ran again after its acknowledgement."""
        lost = self.outstanding(confirmed)
        if lost:
            raise Violation(f"{len(lost)} tasks were confirmed and never ran: {lost[:5]}")
        notes = self.notes()
        again = [
            message for message, times in notes.items() if self._ran_again(times) and not _is_doubled(message, notes)
        ]
        if again:
            shown = "; ".join(f"{message}: {dict(notes[message])}" for message in again[:3])
            raise Violation(f"{len(again)} messages ran again after they were acknowledged: {shown}")
        ran = [len(times["ran"]) for times in notes.values() if times["ran"]]
        acknowledged = sum(1 for times in notes.values() if self._acknowledged_at(times) is not None)
        return {
            "confirmed": len(confirmed),
            "ran": len(ran),
            "acknowledged": acknowledged,
            "ran_more_than_once": sum(1 for count in ran if count > 1),
        }

    def _ran_again(self, times: dict[str, list[float]]) -> bool:
        acknowledged = self._acknowledged_at(times)
        return acknowledged is not None and any(at > acknowledged + SETTLE_SECONDS for at in times["ran"])

    def _acknowledged_at(self, times: dict[str, list[float]]) -> float | None:
        """When the broker had the acknowledgement for certain, less SETTLE_SECONDS."""
        for at in times["acked"]:
            received = [each for each in times["received"] if each <= at]
            if received and any(began <= received[-1] and at + SETTLE_SECONDS <= ended for began, ended in self._lives):
                return at
        return None


def _is_doubled(message: str, notes: dict[str, dict[str, list[float]]]) -> bool:
    """True for a retry whose first try was delivered more than once."""
    task, _, retries = message.rpartition(".")
    return int(retries) > 0 and len(notes.get(f"{task}.{int(retries) - 1}", {}).get("received", ())) > 1
