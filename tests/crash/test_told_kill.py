"""A real node, killed repeatedly while consumers answer, settle and fail: the audit topic and the reports match
the queue.
"""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from soak.node import Node
from tests.clients.librdkafka import read_all

ROUNDS = 4
LOAD_SECONDS = (0.3, 1.2)


class Api:
    """The HTTP API of a node; a call that a kill interrupted returns None."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self._node.http}/api/v1/{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as refusal:
            return {"refused": refusal.code}
        except (OSError, ValueError, KeyError):
            return None


class Load:
    """Senders and workers that run until they are stopped."""

    def __init__(self, api: Api, seed: int) -> None:
        self._api = api
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._work, self._work)]
        self.sent = 0

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)

    def _produce(self) -> None:
        message = {"body": "what?", "reply_to": "replies", "report_fate": True}
        while not self._over.is_set():
            answer = self._api.ask("POST", "queues/work/messages", {"messages": [message] * 3})
            self.sent += len(answer["messages"]) if answer and "messages" in answer else 0

    def _work(self) -> None:
        while not self._over.is_set():
            got = self._api.ask("POST", "queues/work/receive", {"count": 5, "lease_ms": 500})
            for one in got.get("messages", []) if got else []:
                receipt = one["receipt"]
                match self._chance.choice(("answer", "settle", "return", "forget")):
                    case "answer":
                        answer = {"receipt": receipt, "message": {"body": "that"}}
                        self._api.ask("POST", "queues/work/answer", answer)
                    case "settle":
                        self._api.ask("POST", "queues/work/settle", {"receipts": [receipt]})
                    case "return":
                        change = {"receipt": receipt, "lease_ms": 0}
                        self._api.ask("POST", "queues/work/leases", {"changes": [change]})
                    case _:
                        pass


def check(node: Node, api: Api) -> int:
    """Compare the topics with the queue; returns the number of messages that have ended."""
    told = [json.loads(message.value() or b"") for message in read_all(node.bootstrap, "work.deliveries")]
    ended = Counter(one["offset"] for one in told if one["kind"] in ("settled", "died"))
    assert set(ended.values()) <= {1}, "a message ended twice"
    kinds = Counter(one["kind"] for one in told)
    assert len(read_all(node.bootstrap, "replies")) == kinds["settled"] + kinds["died"]
    assert len(read_all(node.bootstrap, "dead")) == kinds["died"]
    in_queue = set()
    page: dict[str, Any] = {"next": ""}
    while "next" in page:
        after = f"&after={page['next']}" if page["next"] else ""
        page = api.ask("GET", f"queues/work/messages?count=100{after}")
        in_queue |= {one["offset"] for one in page["messages"]}
    everything = {message.offset() for message in read_all(node.bootstrap, "work")}
    assert in_queue.isdisjoint(ended)
    assert in_queue | set(ended) == everything
    return len(ended)


@pytest.mark.timeout(180)
def test_answers_and_reports_match_settles_and_events(tmp_path: Path) -> None:
    chance = random.Random(7)
    with Node(tmp_path / "data") as node:
        api = Api(node)
        for name in ("dead", "replies"):
            assert "refused" not in api.ask("POST", "queues", {"name": name, "settings": {"settled": "keep"}})
        letters = {"queue": "dead", "attempts_max": 2}
        settings = {"audit": "deliveries", "settled": "keep", "dead_letters": letters}
        assert "refused" not in api.ask("POST", "queues", {"name": "work", "settings": settings})
        sent = ended = 0
        for round_ in range(ROUNDS):
            load = Load(api, seed=round_)
            load.start()
            time.sleep(chance.uniform(*LOAD_SECONDS))
            node.kill()
            load.stop()
            sent += load.sent
            node.start()
            ended = check(node, api)
        assert sent > 0
        assert ended > 0
