"""The oracle of an audit topic: it has every delivery and every settle that a client knows of, each once."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from simulation.checkers.messages import NEVER
from simulation.checkers.queues import QueueOracle
from simulation.checkers.violation import demand


def audit(oracle: QueueOracle, queue: str, values: list[bytes]) -> None:
    """Compare the whole audit topic with what clients saw."""
    attempts: dict[str, list[int]] = {}
    settles: Counter[str] = Counter()
    for value in values:
        told: dict[str, Any] = json.loads(value)
        demand(told["queue"] == queue, f"the audit topic of {queue} has an entry of {told['queue']}")
        if told["kind"] == "delivered":
            attempts.setdefault(told["message_id"], []).append(told["attempt"])
        elif told["kind"] == "returned" and told.get("reason") == "unseen":
            attempts[told["message_id"]].pop()  # It was leased and not delivered, which counts as no attempt.
        elif told["kind"] == "settled":
            settles[told["message_id"]] += 1
    for message_id, counted in attempts.items():
        whole = list(range(1, len(counted) + 1))
        demand(counted == whole, f"the audit topic of {queue} has the attempts {counted} of {message_id}")
    for message in oracle.messages.values():
        if message.home != queue or not message.message_id:
            continue
        told_of = len(attempts.get(message.message_id, ()))
        demand(
            told_of >= message.attempts,
            f"the audit topic has {told_of} attempts of {message}, clients saw {message.attempts}",
        )
        count = settles[message.message_id]
        demand(count <= 1, f"the audit topic has {count} settles of {message}")
        demand(
            message.settled_s == NEVER or count == 1, f"{message} was settled, and the audit topic has no settle of it"
        )
