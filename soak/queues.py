"""Kills the node under queue load, restarts it, and checks everything that it acknowledged.

`python -m soak.queues --rounds 100` ends with 0 when no acknowledged message was lost, none was delivered while leased
or before it was due, none came back after its settle, no group was out of order, no deduplication id was accepted
twice, no message was delivered more often than its queue allows, and every dead letter is in one place. On a violation
it prints the violation, keeps the data directory and the node's log, and ends with 1. `--endpoint` runs the same load
on a running server, and kills nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from soak import queue_load
from soak.fates import Book
from soak.kill import Say, Violation
from soak.node import Node
from soak.queue_load import ATTEMPTS_MAX, DEAD, DELAY_SECONDS_MAX, LEASE_SECONDS, ORDERED, POISON, QUEUES, REVIVED

LOAD_SECONDS: Final = (0.3, 2.0)
# The longest lease, extension or delay.
QUIET_SECONDS: Final = LEASE_SECONDS + DELAY_SECONDS_MAX + 2.0
READY_SECONDS_MAX: Final = 30.0
DRAIN_SECONDS_MAX: Final = 300.0


class QueueSoak:
    """A node, its load and the book over many restarts."""

    def __init__(self, directory: Path, seed: int, say: Say = print, endpoint: str = "") -> None:
        self.book = Book()
        self._random = random.Random(seed)
        self._say = say
        self.node: Node | None = None
        self._endpoint = endpoint
        if not endpoint:
            address = f"127.0.0.1:{free_port()}"
            self.node = Node(directory / "data", options=["--sqs", address])
            self._endpoint = f"http://{address}"
        self._workers: list[queue_load.QueueWorker] = []
        self._mover: queue_load.Mover | None = None

    def run(self, rounds: int) -> dict[str, int]:
        """Run all rounds and the final check; raises Violation. Returns the counts."""
        if self.node is not None:
            self.node.start()
        try:
            urls, arns = self._make_queues()
            self._workers, self._mover = queue_load.workers(self._endpoint, urls, arns, self.book)
            for worker in self._workers:
                worker.start()
            for number in range(1, rounds + 1):
                self._one_round(number, rounds)
            return self._at_rest(urls)
        finally:
            for worker in self._workers:
                worker.stopping.set()
            if self.node is not None:
                self.node.kill()

    def _make_queues(self) -> tuple[dict[str, str], dict[str, str]]:
        client = queue_load.new_client(self._endpoint)
        urls: dict[str, str] = {}
        arns: dict[str, str] = {}
        # The dead-letter queue must exist before the queue that names it.
        for name in sorted(QUEUES, key=lambda each: each == POISON):
            attributes = {"VisibilityTimeout": str(LEASE_SECONDS)}
            if name == ORDERED:
                attributes["FifoQueue"] = "true"
            if name == POISON:
                policy = {"deadLetterTargetArn": arns[DEAD], "maxReceiveCount": ATTEMPTS_MAX}
                attributes["RedrivePolicy"] = json.dumps(policy)
            urls[name] = client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
            said = client.get_queue_attributes(QueueUrl=urls[name], AttributeNames=["QueueArn"])
            arns[name] = said["Attributes"]["QueueArn"]
        return urls, arns

    def _one_round(self, number: int, rounds: int) -> None:
        time.sleep(self._random.uniform(*LOAD_SECONDS))
        ready_seconds = 0.0
        if self.node is not None:
            self.node.kill()
            self.book.life += 1
            began = time.monotonic()
            self.node.start()
            ready_seconds = time.monotonic() - began
            self._redrive_goes_on()
        failed = [f"{worker.name} died: {worker.failure!r}" for worker in self._workers if worker.failure is not None]
        self._judge([*self.book.complaints, *failed])
        counts = ", ".join(f"{count} {what}" for what, count in self.book.counts().items())
        self._say(f"round {number}/{rounds}: {counts}, ready in {ready_seconds:.2f} s")

    def _redrive_goes_on(self) -> None:
        """Check that the last redrive is still listed, and did not fail because of the kill."""
        assert self._mover is not None
        started_ms = self._mover.started_ms
        if started_ms is None:
            return
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            try:
                tasks = self._mover.tasks()
                break
            except queue_load.Unanswered:
                if time.monotonic() > deadline:
                    raise
        found = [task for task in tasks if task["StartedTimestamp"] == started_ms]
        if not found or found[0]["Status"] == "FAILED":
            self.book.complain(f"the redrive of {started_ms} did not continue: {tasks[:2]}")

    def _at_rest(self, urls: dict[str, str]) -> dict[str, int]:
        """Stop all clients and check that settled and remaining messages are all that were acknowledged."""
        for worker in self._workers:
            worker.finish()
        found = self._drain(urls)
        complaints = list(self.book.complaints)
        for queue in (queue_load.PLAIN, ORDERED):
            complaints += self.book.missing(queue, set(found[queue]))
        for queue in QUEUES:
            complaints += self.book.resurrected(queue, set(found[queue]))
        complaints += self._dead_letters(found)
        for queue, keys in found.items():
            twice = sorted({key for key in keys if keys.count(key) > 1}) if len(set(keys)) < len(keys) else []
            complaints += [f"{queue}: {key} was in the queue more than once at the end" for key in twice[:5]]
        self._judge(complaints)
        return self.book.counts()

    def _drain(self, urls: dict[str, str]) -> dict[str, list[str]]:
        """Receive and settle until nothing was received from any queue for longer than any message may be hidden."""
        client = queue_load.new_client(self._endpoint)
        found: dict[str, list[str]] = {queue: [] for queue in QUEUES}
        began = quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < QUIET_SECONDS or self._redrive_runs():
            if time.monotonic() - began > DRAIN_SECONDS_MAX:
                raise Violation("the queues were not empty in time")
            for queue, url in urls.items():
                if queue == DEAD and self._redrive_runs():
                    continue  # Messages of a running redrive come when it ends.
                for message in client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
                    found[queue].append(message["Body"])
                    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                    quiet_since = time.monotonic()
        return found

    def _redrive_runs(self) -> bool:
        assert self._mover is not None
        try:
            tasks: list[dict[str, Any]] = self._mover.tasks()
        except (queue_load.Unanswered, BotoCoreError, ClientError):
            return False
        return bool(tasks) and tasks[0]["Status"] in ("RUNNING", "CANCELLING")

    def _dead_letters(self, found: dict[str, list[str]]) -> list[str]:
        """Check that every acknowledged poison message is in one place: in its queue, dead, redriven, or settled
        there.
        """
        complaints = []
        for key in self.book.acknowledged_keys(POISON):
            places = [queue for queue in (POISON, DEAD, REVIVED) if key in found[queue]]
            try:
                revived = self.book.fate(REVIVED, key)
            except KeyError:
                revived = None
            if revived is None or not revived.settle_tried:
                if not places:
                    complaints.append(f"{POISON}: {key} was acknowledged and is missing")
            elif revived.settled_at is not None and places:
                complaints.append(f"{POISON}: {key} was settled in {REVIVED} and is still in {places}")
            if len(places) > 1:
                complaints.append(f"{POISON}: {key} is in {places}")
            fate = self.book.fate(POISON, key)
            # Deliveries lost in a kill count for the node and are unknown here; without a kill the count is exact.
            if self.node is None or self.book.life == 0:
                if (DEAD in places or revived is not None) and fate.deliveries != ATTEMPTS_MAX:
                    complaints.append(f"{POISON}: {key} died after {fate.deliveries} deliveries, not {ATTEMPTS_MAX}")
        return complaints[:10]

    def _judge(self, complaints: list[str]) -> None:
        if complaints:
            log = ["the end of the node's log:", self.node.log_tail()] if self.node is not None else []
            raise Violation("\n  ".join([*complaints, *log]))


def free_port() -> int:
    """A free port for all starts, since clients keep the address that they know."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak.queues", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="data directory; not removed")
    parser.add_argument("--endpoint", default="", help="a running server to use; nothing is killed")
    given = parser.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="longhall-queues-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        soak = QueueSoak(directory, given.seed, lambda line: print(line, flush=True), given.endpoint)
        counts = soak.run(given.rounds)
    except Violation as violation:
        print(f"VIOLATION (seed {given.seed}, kept in {directory}):\n  {violation}", file=sys.stderr)
        return 1
    said = ", ".join(f"{count} {what}" for what, count in counts.items())
    print(f"{given.rounds} rounds: {said}, all verified")
    if given.directory is None:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
