"""Every setting of a queue through every door that docs/settings.md names for it: the HTTP API, the command line, SQS.

Each door creates a queue with one setting other than by default, and the HTTP API shows it. A row of the table without
an example here fails, and so does an attribute of SQS in the table that the door does not take.
"""

from __future__ import annotations

import itertools
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from house.settings_table import QUEUE, rows
from longhall.cli.queue_settings import OPTIONS
from soak.node import Node
from tests.cli.conftest import Run
from tests.clients.sealed.conftest import write_keys

pytestmark = pytest.mark.clients

CLUSTERS = "is for clusters"
DEAD = "by-door-dead"
_numbers = itertools.count(1)


class Example(NamedTuple):
    """A value by its setting: as JSON, as options of the command line, and as SQS attributes."""

    value: object
    options: str
    attributes: dict[str, str] | None = None
    beside: Mapping[str, object] = MappingProxyType({})  # Other settings that it needs.
    beside_options: str = ""
    refused: str = ""  # What a lone node says.
    over_topic: bool = False


def _retry(**fields: object) -> dict[str, str]:
    return {"LonghallRetry": json.dumps({"first_ms": 1000, **fields})}


RETRY: dict[str, object] = {"retry": {"first_ms": 1000}}
LETTERS: dict[str, object] = {"dead_letters": {"queue": DEAD}}
FIFO: dict[str, object] = {"fifo": True, "deduplication": "id"}
EXAMPLES: dict[str, Example] = {
    "lease_ms": Example(45_000, "--lease 45s", {"VisibilityTimeout": "45"}),
    "delay_ms": Example(7_000, "--delay 7s", {"DelaySeconds": "7"}),
    "wait_ms": Example(3_000, "--wait 3s", {"ReceiveMessageWaitTimeSeconds": "3"}),
    "retention_ms": Example(120_000, "--retention 2min", {"MessageRetentionPeriod": "120"}),
    "time_to_live_ms": Example(9_000, "--time-to-live 9s"),
    "message_bytes_max": Example(2048, "--message-bytes 2KiB", {"MaximumMessageSize": "2048"}),
    "whole_bytes_max": Example(1 << 20, "--whole-bytes 1MiB"),
    "messages_max": Example(12, "--messages 12"),
    "bytes_max": Example(4096, "--bytes 4KiB"),
    "when_full": Example("drop-oldest", "--when-full drop-oldest"),
    "in_flight_max": Example(3, "--in-flight 3"),
    "priorities": Example(4, "--priorities 4", {"LonghallPriorities": "4"}),
    "fifo": Example(True, "--fifo", {"FifoQueue": "true"}),
    "fair": Example(False, "--no-fair"),
    "late_stamped": Example("head", "--late-stamped head", {"LonghallLateStamped": "head"}),
    "one_by_one": Example(True, "--one-by-one", {"LonghallOneByOne": "true"}),
    "delivery": Example("at-most-once", "--delivery at-most-once"),
    "deduplication": Example(
        "content", "--deduplication content", {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    ),
    "deduplication_scope": Example(
        "group",
        "--deduplication-scope group",
        {"FifoQueue": "true", "DeduplicationScope": "messageGroup"},
        FIFO,
        "--fifo --deduplication id",
    ),
    "deduplication_window_ms": Example(9_000, "--deduplication-window 9s"),
    "repeated_sends": Example("refuse", "--repeated-sends refuse"),
    "filter": Example("city = 'Oslo'", "--filter city_=_'Oslo'", over_topic=True),
    "settled": Example("keep", "--settled keep", {"LonghallSettled": "keep"}),
    "profile": Example("latency", "--batching latency"),
    "acknowledge": Example("one", "--acknowledge one", {"LonghallAcknowledge": "one"}),
    "placement": Example("any-host", "--placement any-host", {"LonghallPlacement": "any-host"}, refused=CLUSTERS),
    "dead_letters.queue": Example(
        DEAD,
        f"--dead-letters {DEAD}",
        {
            "RedrivePolicy": json.dumps(
                {"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:000000000000:{DEAD}", "maxReceiveCount": "3"}
            )
        },
    ),
    "dead_letters.attempts_max": Example(5, "--attempts 5", None, LETTERS, f"--dead-letters {DEAD}"),
    "dead_letters.on_delete": Example(False, "--no-letters-on-delete", None, LETTERS, f"--dead-letters {DEAD}"),
    "dead_letters.after_delete": Example(True, "--letters-after-delete", None, LETTERS, f"--dead-letters {DEAD}"),
    "retry.first_ms": Example(2_000, "--retry-first 2s", _retry(first_ms=2_000)),
    "retry.factor": Example(3.0, "--retry-factor 3", _retry(factor=3), RETRY, "--retry-first 1s"),
    "retry.longest_ms": Example(9_000, "--retry-longest 9s", _retry(longest_ms=9_000), RETRY, "--retry-first 1s"),
    "retry.lapsed": Example(True, "--retry-lapsed", _retry(lapsed=True), RETRY, "--retry-first 1s"),
    "retry.sends": Example(True, "--retry-sends", _retry(sends=True), RETRY, "--retry-first 1s"),
    "hours": Example(
        {"from_minute": 60, "to_minute": 120, "also": [], "zone": "Europe/Berlin"},
        "--hours 01:00-02:00_Europe/Berlin",
        {"LonghallHours": "01:00-02:00 Europe/Berlin"},
    ),
    "audit": Example("deliveries", "--audit deliveries"),
    "partitions": Example(3, "--partitions 3"),
    "parts_max": Example(4, "--parts-max 4", None, {"messages_max": 100}, "--messages 100"),
    "grow_at": Example(70, "--grow-at 70"),
    "shrink_at": Example(10, "--shrink-at 10"),
    "shrink_after_ms": Example(90_000, "--shrink-after 90s"),
    "sealed": Example("house", "--sealed house", {"KmsMasterKeyId": "house"}),
    "seal_reuse_ms": Example(
        120_000,
        "--seal-reuse 2min",
        {"KmsMasterKeyId": "house", "KmsDataKeyReusePeriodSeconds": "120"},
        {"sealed": "house"},
        "--sealed house",
    ),
    "tags": Example({"team": "blue"}, "--tag team=blue"),
}
ROWS = {row.name: row for row in rows() if row.kind == QUEUE}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    home = tmp_path_factory.mktemp("by-door")
    with Node(home / "data", options=["--keys", str(write_keys(home))]) as running:
        _http(running, "POST", "/queues", {"name": DEAD})
        yield running


@pytest.fixture(scope="module")
def sqs(node: Node) -> Any:
    once = Config(retries={"total_max_attempts": 1})
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    return boto3.client("sqs", endpoint_url=f"http://{node.sqs}", region_name="us-east-1", config=once, **keys)


def _http(node: Node, method: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://{node.http}/api/v1{path}", data, {"Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read().decode()) from None


def _shown(node: Node, queue: str, path: str) -> object:
    found: Any = _http(node, "GET", f"/queues/{queue}")["settings"]
    for part in path.split("."):
        found = found[part]
    return found


def _fresh(example: Example, node: Node) -> tuple[str, str]:
    """A name for the queue, and the topic under it if it needs one."""
    name = f"by-door-{next(_numbers)}"
    if not example.over_topic:
        return name, ""
    _http(node, "POST", "/queues", {"name": f"{name}-source"})
    return name, f"{name}-source"


def test_every_row_of_the_table_has_an_example_and_every_attribute_a_value() -> None:
    assert sorted(EXAMPLES) == sorted(ROWS)
    for name, row in ROWS.items():
        assert bool(row.sqs) == (EXAMPLES[name].attributes is not None), name
        assert not row.sqs or row.sqs in (EXAMPLES[name].attributes or {}), name


@pytest.mark.parametrize("path", EXAMPLES)
def test_the_http_api_sets_it(node: Node, path: str) -> None:
    example = EXAMPLES[path]
    name, topic = _fresh(example, node)
    settings: dict[str, Any] = json.loads(json.dumps(dict(example.beside)))
    *outer, last = path.split(".")
    place = settings
    for part in outer:
        place = place.setdefault(part, {})
    place[last] = example.value
    body = {"name": name, "settings": settings, **({"topic": topic} if topic else {})}
    if example.refused:
        with pytest.raises(AssertionError, match=example.refused):
            _http(node, "POST", "/queues", body)
        return
    _http(node, "POST", "/queues", body)
    assert _shown(node, name, path) == example.value


@pytest.mark.parametrize("path", EXAMPLES)
def test_the_command_line_sets_it(node: Node, run: Run, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    assert path in {option.path for option in OPTIONS}
    monkeypatch.setenv("LONGHALL_HTTP_ADDRESS", node.http)
    example = EXAMPLES[path]
    name, topic = _fresh(example, node)
    words = [word.replace("_", " ") for word in f"{example.options} {example.beside_options}".split()]
    ended = run("queue", "create", name, *(("--topic", topic) if topic else ()), *words)
    if example.refused:
        assert ended.code != 0
        assert example.refused in ended.err
        return
    assert ended.code == 0, ended.err
    assert _shown(node, name, path) == example.value


@pytest.mark.parametrize("path", [path for path, example in EXAMPLES.items() if example.attributes is not None])
def test_sqs_sets_it(node: Node, sqs: Any, path: str) -> None:
    example = EXAMPLES[path]
    assert example.attributes is not None
    name, _ = _fresh(example, node)
    name += ".fifo" if "FifoQueue" in example.attributes else ""
    if example.refused:
        with pytest.raises(ClientError, match=example.refused):
            sqs.create_queue(QueueName=name, Attributes=example.attributes)
        return
    url = sqs.create_queue(QueueName=name, Attributes=example.attributes)["QueueUrl"]
    assert _shown(node, name, path) == example.value
    said = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert set(example.attributes) <= set(said)
