"""A node for the tests of the SQS door, or any other server that speaks SQS.

`LONGHALL_TEST_SQS=http://host:port` points the tests at a server that runs already; `LONGHALL_TEST_SQS_PEER=moto` or
`elasticmq` says whose deviations from AWS are to be expected there (`deviations.py`), which is how the tests themselves
are held to account. Tests that need both doors then need `LONGHALL_TEST_BOOTSTRAP` as well, or are left out by name.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from soak.node import Node
from tests.clients.conftest import FreshName
from tests.clients.serving import KIND, each_test, served
from tests.clients.sqs.deviations import DEVIATIONS
from tests.left_out import leave_out

REGION = "us-east-1"
CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
# What the key program of the second node says of each key; the first one works.
KEY_STATES = {
    "enabled": "",
    "disabled": "disabled",
    "pending-deletion": "invalid-state",
    "signing": "invalid-usage",
    "denied": "denied",
    "absent": "unknown",
    "not-subscribed": "not-subscribed",
    "throttled": "unavailable",
}
KEY_PROGRAM = """
import base64, json, sys
asked = json.load(sys.stdin)
states = json.loads(sys.argv[1])
error = states[asked["key"].removeprefix("alias/")]
key = base64.b64encode(bytes(32)).decode()
json.dump({"error": error} if error else {"plaintext": key, "ciphertext": key}, sys.stdout)
"""

MakeQueue = Callable[..., str]


def pytest_report_header() -> str:
    given = os.environ.get("LONGHALL_TEST_SQS")
    return f"sqs: {f'the server that runs at {given}' if given else f'{KIND}, started for these tests'}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a foreign server is known to do differently is expected to fail there, and only there."""
    known = DEVIATIONS.get(os.environ.get("LONGHALL_TEST_SQS_PEER", ""), {})
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        reason = known.get(item.name.split("[")[0]) or known.get(item.path.name)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=False))


@pytest.fixture(scope="session")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node | None]:
    """The node under test; None if the tests use a running server."""
    if os.environ.get("LONGHALL_TEST_SQS"):
        yield None
        return
    home = tmp_path_factory.mktemp("sqs")
    write_key_file(home)
    with served(home / "data", options=["--keys", str(home / "keys")]) as running:
        yield running


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A second node: it requires signatures, has a key in every state, and the least memory that a node may have."""
    if os.environ.get("LONGHALL_TEST_SQS"):
        leave_out("signatures, keys and memory: LONGHALL_TEST_SQS names a server whose settings are not ours")
    home = tmp_path_factory.mktemp("guarded")
    write_credentials(home / "credentials")
    write_key_program(home / "keys")
    options = ["--credentials", str(home / "credentials"), "--set", f"keys={home / 'keys'}"]
    with served(home / "data", options=[*options, "--set", "memory_bytes=16MiB"]) as running:
        yield running


def write_key_file(home: Path) -> None:
    """Master keys in a file, of which one is the managed one."""
    (home / "master-keys").write_text(f"house = {'0a' * 32}\norders = {'0b' * 32}\n")
    (home / "master-keys").chmod(0o600)
    (home / "keys").write_text(
        f'managed = "house"\n[providers.disk]\nkind = "file"\npath = "{home / "master-keys"}"\n'
        '[keys]\nhouse = { provider = "disk" }\n"alias/orders" = { provider = "disk", id = "orders" }\n'
    )
    (home / "keys").chmod(0o600)


def write_key_program(file: Path) -> None:
    """A file of keys, which a program has; it says what the state of each is."""
    command = [sys.executable, "-c", KEY_PROGRAM, json.dumps(KEY_STATES)]
    # JSON's texts and lists are TOML's as well.
    listed = "".join(f'"alias/{state}" = {{ provider = "program" }}\n' for state in KEY_STATES)
    provider = f'[providers.program]\nkind = "command"\ntimeout_ms = 30000\ncommand = {json.dumps(command)}\n'
    file.write_text(f"{provider}[keys]\n{listed}")
    file.chmod(0o600)


def write_credentials(file: Path, **others: str) -> None:
    """The pair that all tests use, and others."""
    known = {CREDENTIALS["aws_access_key_id"]: CREDENTIALS["aws_secret_access_key"], **others}
    sections = [f"[{key}]\naws_access_key_id = {key}\naws_secret_access_key = {known[key]}\n" for key in known]
    file.write_text("".join(sections))
    file.chmod(0o600)


def endpoint_of(node: Node) -> str:
    return f"http://{node.sqs}"


@pytest.fixture(scope="module", params=["unchecked", "checked"])
def either_endpoint(request: pytest.FixtureRequest) -> str:
    """A node that takes every signature, and one that checks them: programs run the same on both."""
    if request.param == "checked":
        return endpoint_of(request.getfixturevalue("guarded"))
    return _endpoint(request.getfixturevalue("hall"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows the end of the node's log beside what the test saw."""
    report = yield
    for name in ("hall", "guarded"):
        node = getattr(item, "funcargs", {}).get(name)
        if report.failed and isinstance(node, Node):
            report.sections.append((f"log of the node ({name})", node.log_tail()))
    return report


@pytest.fixture(scope=each_test)
def endpoint(hall: Node | None) -> str:
    """Where SQS is spoken, as `http://host:port`."""
    return _endpoint(hall)


def _endpoint(hall: Node | None) -> str:
    if hall is None:
        return os.environ["LONGHALL_TEST_SQS"]
    return endpoint_of(hall)


@pytest.fixture(scope=each_test)
def kafka(hall: Node | None) -> str:
    """The Kafka door of the same hall."""
    if hall is not None:
        return hall.bootstrap
    given = os.environ.get("LONGHALL_TEST_BOOTSTRAP")
    if not given:
        leave_out("LONGHALL_TEST_SQS names a server, and LONGHALL_TEST_BOOTSTRAP no Kafka door of it")
    return given


@pytest.fixture(scope=each_test)
def sqs(endpoint: str) -> Any:
    """boto3's client without retries, so that tests see every refusal."""
    return boto3.client(
        "sqs",
        endpoint_url=endpoint,
        region_name=REGION,
        config=Config(retries={"total_max_attempts": 1}, read_timeout=40),
        **CREDENTIALS,
    )


@pytest.fixture(scope=each_test)
def careless(endpoint: str) -> Any:
    """The same client without its own checks, to send what it would not."""
    config = Config(retries={"total_max_attempts": 1}, parameter_validation=False)
    return boto3.client("sqs", endpoint_url=endpoint, region_name=REGION, config=config, **CREDENTIALS)


@pytest.fixture
def make_queue(sqs: Any, fresh_name: FreshName) -> MakeQueue:
    """A new queue; attributes as keywords."""

    def make(*, fifo: bool = False, **attributes: Any) -> str:
        name = fresh_name("queue") + (".fifo" if fifo else "")
        wanted = {key: str(value) for key, value in attributes.items()}
        if fifo:
            wanted["FifoQueue"] = "true"
        return str(sqs.create_queue(QueueName=name, Attributes=wanted)["QueueUrl"])

    return make


@pytest.fixture
def bystander(sqs: Any, make_queue: MakeQueue) -> Iterator[None]:
    """Another client, which works all the time and must not notice anything."""
    url = make_queue()
    seen: list[str] = []
    over = threading.Event()

    def work() -> None:
        while not over.is_set() or not seen:
            try:
                sent = sqs.send_message(QueueUrl=url, MessageBody=f"{len(seen)}")
                (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
                assert message["MessageId"] == sent["MessageId"]
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            except Exception as error:
                seen.append(f"disturbed in round {len(seen)}: {error!r}")
                return
            seen.append("")
            over.wait(0.005)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    over.set()
    thread.join(60)
    assert not thread.is_alive(), "the other client is held up"
    assert seen
    assert set(seen) == {""}, seen[-1]


@pytest.fixture
def queue(make_queue: MakeQueue) -> str:
    return make_queue()


@pytest.fixture
def fifo(make_queue: MakeQueue) -> str:
    return make_queue(fifo=True, ContentBasedDeduplication="true")
