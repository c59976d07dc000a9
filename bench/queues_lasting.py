"""Long delays: messages that are delayed by months."""

from __future__ import annotations

import json
from http.client import HTTPConnection

from bench.peers.question import tell
from bench.peers.sqs import LonghallQueues
from bench.queues_steps import BODY_BYTES, Figures, Sizes, resident, restart

_MONTHS_MS = 92 * 24 * 3_600_000
_CALL_MESSAGES = 100


def months(sizes: Sizes) -> Figures:
    """Messages that are due in three months: their memory, and whether they survive restarts.

    The queue retains delivered messages for an hour only; a message that is not due yet must outlive that.
    """
    with LonghallQueues() as node:
        tell(node.http, "POST", "queues", {"name": "months", "settings": {"retention_ms": 3_600_000}})
        before = resident(node)
        _send_delayed(node, "months", sizes.months)
        after = resident(node)
        node.stop()
        clean_seconds = restart(node, "months")
        node.kill()
        killed_seconds = restart(node, "months")
        told = tell(node.http, "GET", "queues/months")["depth"]
        return {
            "messages": sizes.months,
            "delayed_after_restarts": told["delayed"],
            "available_after_restarts": told["available"],
            "before_mb": before / 1e6,
            "after_mb": after / 1e6,
            "restarted_mb": resident(node) / 1e6,
            "restart_clean_seconds": clean_seconds,
            "restart_killed_seconds": killed_seconds,
        }


def _send_delayed(node: LonghallQueues, name: str, count: int) -> None:
    """Send through the API, since SQS has no delay above fifteen minutes."""
    connection = HTTPConnection(node.http, timeout=60)
    body = "x" * BODY_BYTES
    for first in range(0, count, _CALL_MESSAGES):
        number = min(_CALL_MESSAGES, count - first)
        messages = [{"body": body, "delay_ms": _MONTHS_MS + first} for _ in range(number)]
        connection.request(
            "POST",
            f"/api/v1/queues/{name}/messages",
            json.dumps({"messages": messages}),
            {"Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status < 300, said[:500]
    connection.close()
