"""`./dev walk OPERATION [--through follower|worker|group]`: the files and functions that one real request passes.

A node, or a whole deployment, runs as plain Python, and a client sends the same request several times. The output lists
the functions that every one of these requests called before its reply, in order, for each process. The last line counts
them: `files N, processes M`.

    sqs-send, sqs-receive, sqs-settle     through the SQS door, its JSON protocol
    kafka-produce, kafka-fetch            through the Kafka door, with librdkafka

Without --through the request goes to a single node. `follower` is a node of a cluster that does not lead, `worker` a
process of `serve --workers 2` that has no data, `group` a queue or topic in a replication group of its own.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from house.environment import ROOT, child_environment

TIMES: Final = 5
WARM_TIMES: Final = 5
READY_S_MAX: Final = 90.0
WRITTEN_S_MAX: Final = 10.0
NAME: Final = "walk"
BODY: Final = "one real message"
THROUGH: Final = ("follower", "worker", "group")
CONNECTIONS_MAX: Final = 64


class Call(NamedTuple):
    """A function of Longhall that was called."""

    at_ns: int
    process: str
    file: str
    function: str


class Door(NamedTuple):
    """The address and protocol of a door."""

    sqs: str
    kafka: str


class Failed(Exception):
    """The walk could not be recorded."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev walk", description=__doc__.split("\n")[0])
    parser.add_argument("operation", choices=sorted(OPERATIONS))
    parser.add_argument("--through", choices=THROUGH)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="longhall-walk-") as scratch:
        directory = Path(scratch)
        (directory / "calls").mkdir()
        try:
            with _deployed(directory, given.through or "") as door:
                walks = _through(directory / "calls", OPERATIONS[given.operation], door, given.through or "")
        except Failed as failure:
            print(f"longhall: {failure}", file=sys.stderr)
            return 1
    _print(_common(walks))
    return 0


# The deployment.


@contextmanager
def _deployed(directory: Path, through: str) -> Iterator[Door]:
    environment = child_environment(
        PYTHONPATH=f"{ROOT / 'house' / 'walk_hook'}:{ROOT / 'src'}",
        LONGHALL_WALK_SOURCE=f"{ROOT / 'src' / 'longhall'}/",
        LONGHALL_WALK_DIRECTORY=str(directory / "calls"),
    )
    ready = directory / "ready.json"
    command = [sys.executable, "-m", "longhall.cli", *_command(directory, through), "--ready-file", str(ready)]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=directory, stdout=log, stderr=log)
        try:
            until = time.monotonic() + READY_S_MAX
            while not ready.exists():
                if process.poll() is not None or time.monotonic() > until:
                    raise Failed(f"it did not start:\n{(directory / 'log').read_text()[-2000:]}")
                time.sleep(0.05)
            yield _door(json.loads(ready.read_text()), through)
        finally:
            process.terminate()
            process.wait()


def _command(directory: Path, through: str) -> list[str]:
    data = ["--data", str(directory / "data")]
    if through in ("follower", "group"):
        hall = (
            ["--set", "default_placement=hall"] if through == "follower" else []
        )  # The leader of the hall carries it out.
        return ["cluster", "up", "--nodes", "3", *hall, *data]
    doors = [
        word
        for door in ("kafka", "sqs", "amqp", "stomp", "stomp-websocket", "management", "prometheus", "http")
        for word in (f"--{door}", "127.0.0.1:0")
    ]
    return ["serve", *data, *doors, *(["--workers", "2"] if through == "worker" else [])]


def _door(ready: dict[str, Any], through: str) -> Door:
    if through not in ("follower", "group"):
        return Door(ready["sqs"], ready["kafka"])
    nodes = ready["nodes"]
    leader = json.loads(_get(nodes[0]["http"], "/cluster"))["leader"]
    chosen = next(node for node in nodes if (node["node"] == leader) == (through == "group"))
    return Door(chosen["sqs"], chosen["kafka"])


def _get(address: str, path: str) -> bytes:
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("GET", path)
    return connection.getresponse().read()


# The client.

Request = Callable[[], object]


class SqsClient:
    """One connection to the SQS door."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=30)

    def call(self, action: str, **values: Any) -> dict[str, Any]:
        headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
        self._connection.request("POST", "/", json.dumps(values), headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise Failed(f"{action} was answered with {answer.status}: {body[:500].decode(errors='replace')}")
        found: dict[str, Any] = json.loads(body or b"{}")
        return found


def _queue(door: Door, through: str) -> tuple[SqsClient, str]:
    client = SqsClient(door.sqs)
    attributes = {"LonghallPlacement": "share"} if through == "group" else {}
    url = client.call("CreateQueue", QueueName=NAME, Attributes=attributes)["QueueUrl"]
    return client, url


def _sqs_send(door: Door, through: str) -> Iterator[Request]:
    client, url = _queue(door, through)
    while True:
        yield partial(client.call, "SendMessage", QueueUrl=url, MessageBody=BODY)


def _sqs_receive(door: Door, through: str) -> Iterator[Request]:
    client, url = _queue(door, through)
    while True:
        client.call("SendMessage", QueueUrl=url, MessageBody=BODY)
        time.sleep(0.1)
        yield partial(_received, client, url)


def _received(client: SqsClient, url: str) -> str:
    for _ in range(50):
        found = client.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=1).get("Messages", [])
        if found:
            return str(found[0]["ReceiptHandle"])
    raise Failed("the message was not delivered")


def _sqs_settle(door: Door, through: str) -> Iterator[Request]:
    client, url = _queue(door, through)
    while True:
        client.call("SendMessage", QueueUrl=url, MessageBody=BODY)
        receipt = _received(client, url)
        yield partial(client.call, "DeleteMessage", QueueUrl=url, ReceiptHandle=receipt)


def _kafka_produce(door: Door, through: str) -> Iterator[Request]:
    from confluent_kafka import Producer

    _topic(door, through)
    producer = Producer({"bootstrap.servers": door.kafka, "linger.ms": 0})

    def produce() -> None:
        producer.produce(NAME, BODY, partition=0)
        if producer.flush(30):
            raise Failed("the message was not acknowledged")

    while True:
        yield produce


def _kafka_fetch(door: Door, through: str) -> Iterator[Request]:
    from confluent_kafka import Consumer, TopicPartition

    produce = _kafka_produce(door, through)
    consumer = Consumer({"bootstrap.servers": door.kafka, "group.id": NAME, "enable.auto.commit": False})
    consumer.assign([TopicPartition(NAME, 0, 0)])

    def fetch() -> None:
        """Produce the message that a waiting fetch returns, and record from the produce on: before it nothing
        happens.
        """
        next(produce)()
        message = consumer.poll(30)
        if message is None or message.error() is not None:
            raise Failed("the message was not delivered")

    while True:
        yield fetch


def _topic(door: Door, through: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    config = {"longhall.placement": "share"} if through == "group" else {}
    admin = AdminClient({"bootstrap.servers": door.kafka})
    admin.create_topics([NewTopic(NAME, 1, config=config)])[NAME].result(30)


Operation = Callable[[Door, str], Iterator[Request]]

OPERATIONS: Final[dict[str, Operation]] = {
    "sqs-send": _sqs_send,
    "sqs-receive": _sqs_receive,
    "sqs-settle": _sqs_settle,
    "kafka-produce": _kafka_produce,
    "kafka-fetch": _kafka_fetch,
}


# The walk.


def _through(directory: Path, operation: Operation, door: Door, through: str) -> list[list[Call]]:
    """The system chooses the worker of a connection: connect until it is one that has to forward the request."""
    for _ in range(CONNECTIONS_MAX):
        walks = _walk(directory, operation(door, through))
        if through != "worker" or len({call.process for call in _common(walks)}) > 1:
            return walks
    raise Failed("every connection went to the worker that has the data")


def _walk(directory: Path, requests: Iterator[Request]) -> list[list[Call]]:
    """The calls of each of several requests."""
    for _ in range(WARM_TIMES):
        next(requests)()
    walks: list[list[Call]] = []
    for _ in range(TIMES):
        request = next(requests)
        processes = [path.stem for path in directory.glob("*.listens") if Path(f"/proc/{path.stem}").exists()]
        _signal(processes, signal.SIGUSR1)
        time.sleep(0.3)
        began_ns = time.monotonic_ns()
        request()
        ended_ns = time.monotonic_ns()
        _signal(processes, signal.SIGUSR2)
        calls = [call for process in processes for call in _read(directory / f"{process}.json", process)]
        walks.append(sorted(call for call in calls if began_ns <= call.at_ns <= ended_ns))
    return walks


def _signal(processes: Sequence[str], number: signal.Signals) -> None:
    for process in processes:
        os.kill(int(process), number)


def _read(path: Path, process: str) -> list[Call]:
    until = time.monotonic() + WRITTEN_S_MAX
    while not path.exists():
        if time.monotonic() > until:
            return []  # It only waits for its own child process, and handles no signal.
        time.sleep(0.01)
    kept = json.loads(path.read_text())
    path.unlink()
    return [Call(at_ns, process, file, function) for at_ns, file, function in kept["calls"]]


def _common(walks: Sequence[Sequence[Call]]) -> list[Call]:
    """The calls of the last walk that all walks made: a heartbeat or a timer does not happen in every one."""
    everywhere = set.intersection(*({call[1:] for call in walk} for walk in walks))
    found: dict[tuple[str, ...], Call] = {}
    for call in walks[-1]:
        if call[1:] in everywhere:
            found.setdefault((call.process, call.file, call.function), call)
    return list(found.values())


def _print(calls: Sequence[Call]) -> None:
    numbers: dict[str, int] = {}
    for (process, file), group in groupby(calls, key=lambda call: (call.process, call.file)):
        number = numbers.setdefault(process, len(numbers) + 1)
        functions = ", ".join(call.function for call in group)
        print(f"process {number}  {file}: {functions}")
    print(f"files {len({call.file for call in calls})}, processes {len(numbers)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
