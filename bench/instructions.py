"""How many instructions a node executes for one request, counted by valgrind, which a busy machine does not disturb.

    python -m bench instructions [--before DIRECTORY] [--lines PATTERN] [--set KEY=VALUE]

DIRECTORY is a checkout of another build, set up by its own `./dev setup`; its counts stand beside those of this one.
The serving process alone is counted, with its libraries and without the kernel and the processes that it starts. The
profile of every line is kept in `bench/results/`, for `callgrind_annotate`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.load import amqp, rounds, sqs, topics
from bench.load.rounds import Rounds
from bench.peers.longhall import COMMAND, Longhall
from bench.peers.question import ask, tell

_RESULTS: Final = Path(__file__).with_name("results")
_WARM: Final = 64
_CONNECTIONS: Final = 32
_SUMMARY: Final = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


class CountedNode(Longhall):
    """A node under callgrind, which counts between `begin` and `end`."""

    def __init__(self, program: Path, arguments: Sequence[str], profiles: Path) -> None:
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--trace-children=no"]
        out = [f"--callgrind-out-file={profiles}/callgrind", "--dump-instr=no"]
        super().__init__(before=[*valgrind, *out], arguments=arguments, name="counted", program=program)
        self._profiles = profiles
        self._dumps = 0

    def doors(self) -> dict[str, str]:
        return {name: str(each) for name, each in json.loads(self._ready_path().read_text()).items()}

    def begin(self) -> None:
        self._control("--zero")
        self._control("--instr=on")

    def end(self, name: str) -> int:
        """The instructions since `begin`."""
        self._control("--instr=off")
        self._dumps += 1
        self._control(f"--dump={name}")
        (dump,) = self._profiles.glob(f"callgrind.{self._dumps}")
        kept = dump.rename(self._profiles / f"{name}.callgrind")
        return int(_SUMMARY.findall(kept.read_text())[-1])

    def _control(self, word: str) -> None:
        subprocess.run(["callgrind_control", word, str(self.pid)], check=True, capture_output=True, timeout=120)


class Line(NamedTuple):
    """A load: so many requests at once, which are repeated."""

    name: str
    requests: int
    prepare: Callable[[dict[str, str]], None]
    run: Callable[[dict[str, str], int], None]
    """Executes so many requests."""


def kafka_lines() -> Iterator[Line]:
    for name, messages, size, requests in (
        ("kafka produce 1 KB, one a request", 1, 1024, 600),
        ("kafka produce 1 KB, 64 a request", 64, 1024, 200),
        ("kafka produce 100 B, 1000 a request", 1000, 100, 100),
    ):
        topic = f"produce-{messages}"

        def create(doors: dict[str, str], topic: str = topic) -> None:
            topics.create(doors["kafka"], topic)

        def produce(
            doors: dict[str, str], count: int, topic: str = topic, shape: tuple[int, int] = (messages, size)
        ) -> None:
            request = rounds.produce(topic, *shape)
            with Rounds(doors["kafka"], 4, rounds.read_kafka) as connections:
                for _ in range(count // 4):
                    connections.ask([request] * 4)

        yield Line(name, requests, create, produce)

    def fill(doors: dict[str, str]) -> None:
        topics.create(doors["kafka"], "fetch")
        request = rounds.produce("fetch", 64, 1024)
        with Rounds(doors["kafka"], 1, rounds.read_kafka) as connections:
            for _ in range(100):
                connections.ask([request])

    def fetch(doors: dict[str, str], count: int) -> None:
        with Rounds(doors["kafka"], 4, rounds.read_kafka) as connections:
            for number in range(count // 4):
                at = number % 48
                connections.ask([rounds.fetch("fetch", (at + each * 10) * 64, 128 * 1024) for each in range(4)])

    yield Line("kafka fetch, 128 KB", 300, fill, fetch)


def sqs_lines() -> Iterator[Line]:
    handles = Path(tempfile.gettempdir()) / "bench-instructions-handles"
    for label, batch, requests in (("single", 1, 640), ("tens", 10, 160)):
        url: list[str] = []

        def create(doors: dict[str, str], url: list[str] = url, label: str = label) -> None:
            settings = {"VisibilityTimeout": "3600"}
            url[:] = [ask(doors["sqs"], "CreateQueue", QueueName=label, Attributes=settings)["QueueUrl"]]

        for verb in ("send", "receive", "delete"):

            def run(
                doors: dict[str, str], count: int, verb: str = verb, batch: int = batch, url: list[str] = url
            ) -> None:
                options = {} if verb == "send" else {"handles": handles}
                done = sqs.run(
                    verb, doors["sqs"], url, batch=batch, connections=_CONNECTIONS, seconds=500,
                    count=count * batch, **options,
                )  # fmt: skip
                assert abs(done.requests - count) <= _CONNECTIONS, (verb, done.requests, count)

            yield Line(f"sqs {verb}, {label}", requests, create if verb == "send" else _nothing, run)


def http_lines() -> Iterator[Line]:
    receipts: list[str] = []

    def create(doors: dict[str, str]) -> None:
        tell(doors["http"], "POST", "queues", {"name": "http", "settings": {"lease_ms": 3_600_000}})

    def send(doors: dict[str, str], count: int) -> None:
        body = json.dumps({"messages": [{"body": "x" * 1024}]}).encode()
        _ask_http(doors, "messages", [body] * count)

    def receive(doors: dict[str, str], count: int) -> None:
        receipts.clear()
        for answer in _ask_http(doors, "receive", [b'{"count": 1}'] * count):
            receipts.extend(each["receipt"] for each in json.loads(answer)["messages"])

    def settle(doors: dict[str, str], count: int) -> None:
        chosen = [receipts.pop() for _ in range(min(count, len(receipts)))]
        _ask_http(doors, "settle", [json.dumps({"receipts": [each]}).encode() for each in chosen])

    yield Line("http send", 480, create, send)
    yield Line("http receive", 480, _nothing, receive)
    yield Line("http settle", 384, _nothing, settle)


def _ask_http(doors: dict[str, str], operation: str, bodies: Sequence[bytes]) -> list[bytes]:
    answers: list[bytes] = []
    with Rounds(doors["http"], _CONNECTIONS, rounds.read_http) as connections:
        for at in range(0, len(bodies) - _CONNECTIONS + 1, _CONNECTIONS):
            path = f"/api/v1/queues/http/{operation}"
            answers += connections.ask([rounds.post(path, body) for body in bodies[at : at + _CONNECTIONS]])
    return answers


def amqp_lines() -> Iterator[Line]:
    def create(doors: dict[str, str]) -> None:
        amqp.declare(doors["amqp"], ["amqp"], kind="classic")

    def publish(doors: dict[str, str], count: int) -> None:
        amqp.run("publish", doors["amqp"], ["amqp"], size=1024, window=100, count=count, seconds=500)

    for ack, count in ((1, 2000), (100, 2000)):

        def consume(doors: dict[str, str], count: int, ack: int = ack) -> None:
            amqp.run("consume", doors["amqp"], ["amqp"], size=1024, prefetch=1000, count=count, ack=ack, seconds=500)

        yield Line(f"amqp publish, confirmed ({ack})", count, create, publish)
        yield Line(f"amqp consume, ack every {ack}", count, _nothing, consume)


def _nothing(doors: dict[str, str]) -> None:
    pass


def measure(program: Path, pattern: str, settings: Sequence[str], profiles: Path) -> dict[str, float]:
    """Instructions a request, by line."""
    shutil.rmtree(profiles, ignore_errors=True)
    profiles.mkdir(parents=True)
    figures: dict[str, float] = {}
    arguments = [word for each in settings for word in ("--set", each)]
    with CountedNode(program, arguments, profiles) as node:
        doors = node.doors()
        for line in (*kafka_lines(), *sqs_lines(), *http_lines(), *amqp_lines()):
            if not re.search(pattern, line.name) or (line.name.startswith("amqp") and "amqp" not in doors):
                continue
            line.prepare(doors)
            if line.prepare is not _nothing:
                line.run(doors, _WARM)
            node.begin()
            line.run(doors, line.requests)
            counted = node.end(re.sub(r"\W+", "-", line.name))
            figures[line.name] = counted / line.requests
            print(f"{line.name:40} {counted / line.requests:12,.0f}", file=sys.stderr, flush=True)
        node.kill()
    return figures


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench instructions", description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path, help="a checkout of another build, set up")
    parser.add_argument("--lines", default="", help="only those whose name has a match of this pattern")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of this build's node"
    )
    given = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is needed; on Debian: apt-get install valgrind")
    now = measure(COMMAND, given.lines, given.set, _RESULTS / "instructions")
    before: dict[str, float] = {}
    if given.before is not None:
        program = given.before.resolve() / ".venv" / "bin" / "longhall"
        before = measure(program, given.lines, [], _RESULTS / "instructions-before")
    for name, count in now.items():
        ratio = f"{before[name]:12,.0f} {count / before[name]:6.3f}" if name in before else ""
        print(f"{name:40} {count:12,.0f} {ratio}")
