"""A node with a credentials file: it serves correctly signed requests and no others."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import botocore.auth
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from soak.node import COMMAND, Node
from tests.clients.conftest import FreshName, eventually
from tests.clients.serving import WORKERS, Served
from tests.clients.sqs.conftest import CREDENTIALS, REGION, endpoint_of, write_credentials
from tests.clients.sqs.refusals import INVALID_TOKEN, WRONG_SIGNATURE, refusal
from tests.clients.sqs.words import bodies, receive, send
from tests.doors.sqs.clients import client

KEY, SECRET = CREDENTIALS.values()


@pytest.fixture(params=["json", "query"])
def sdk(request: pytest.FixtureRequest, guarded: Node) -> Any:
    return client(endpoint_of(guarded), request.param, KEY, SECRET)


@pytest.fixture
def url(sdk: Any, fresh_name: FreshName) -> str:
    return str(sdk.create_queue(QueueName=fresh_name("guarded"))["QueueUrl"])


def test_signed_requests_are_served_and_their_signer_is_known(sdk: Any, url: str) -> None:
    send(sdk, url, "grüße <&> + %", MessageAttributes={"a": {"DataType": "Binary", "BinaryValue": b"\xff"}})
    (message,) = receive(sdk, url, AttributeNames=["SenderId"], MessageAttributeNames=["All"])
    assert message["Body"] == "grüße <&> + %"
    assert message["Attributes"]["SenderId"] == KEY
    sdk.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_request_signed_with_a_wrong_clock_is_refused(
    sdk: Any, url: str, minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = botocore.auth.get_current_datetime
    off = datetime.timedelta(minutes=minutes)
    with monkeypatch.context() as patched:
        patched.setattr(botocore.auth, "get_current_datetime", lambda **how: real(**how) + off)
        assert refusal(sdk.send_message, QueueUrl=url, MessageBody="late") == WRONG_SIGNATURE
        off = datetime.timedelta(minutes=minutes - minutes // 8)
        send(sdk, url, "near enough")
    assert bodies(receive(sdk, url)) == ["near enough"]


@pytest.mark.parametrize("part", ["body", "header", "path"])
def test_a_request_that_was_altered_on_the_way_is_refused(sdk: Any, url: str, part: str) -> None:
    def change(request: Any, **_: Any) -> None:
        if part == "body":
            body = request.body.encode() if isinstance(request.body, str) else request.body
            request.body = body.replace(b"honest", b"forged")
        elif part == "header":
            request.headers["X-Amz-Date"] = "20260101T000000Z"
        else:
            request.url = request.url.rstrip("/") + "/elsewhere"

    sdk.meta.events.register("before-send.sqs.SendMessage", change)
    try:
        assert refusal(sdk.send_message, QueueUrl=url, MessageBody="honest") == WRONG_SIGNATURE
    finally:
        sdk.meta.events.unregister("before-send.sqs.SendMessage", change)
    assert not sdk.receive_message(QueueUrl=url).get("Messages")


def presigned(node: Node, secret: str = SECRET, expires_s: int = 60, **members: str) -> str:
    request = AWSRequest(method="GET", url=f"{endpoint_of(node)}/?{urlencode({'Version': '2012-11-05', **members})}")
    SigV4QueryAuth(Credentials(KEY, secret), "sqs", REGION, expires=expires_s).add_auth(request)
    return str(request.url)


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_presigned_addresses(guarded: Node, sdk: Any, url: str) -> None:
    good = presigned(guarded, Action="SendMessage", QueueUrl=url, MessageBody="honest")
    assert get(good)[0] == 200
    assert bodies(receive(sdk, url)) == ["honest"]
    for wrong, code in (
        (presigned(guarded, "guessed", Action="ListQueues"), "SignatureDoesNotMatch"),
        (good.replace("honest", "forged"), "SignatureDoesNotMatch"),
        (good.replace("X-Amz-Expires=60", "X-Amz-Expires=600"), "SignatureDoesNotMatch"),
        (good + "&DelaySeconds=9", "SignatureDoesNotMatch"),
        (presigned(guarded, expires_s=604_801, Action="ListQueues"), "IncompleteSignature"),
        (f"{endpoint_of(guarded)}/?Action=ListQueues", "MissingAuthenticationToken"),
    ):
        status, said = get(wrong)
        assert (status in (400, 403), f"<Code>{code}</Code>" in said) == (True, True), said
    old = presigned(guarded, expires_s=1, Action="SendMessage", QueueUrl=url, MessageBody="too late")
    time.sleep(2.1)
    assert "<Code>RequestExpired</Code>" in get(old)[1]
    assert not sdk.receive_message(QueueUrl=url).get("Messages")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Node]:
    write_credentials(tmp_path / "credentials")
    with Served(tmp_path / "data", options=["--credentials", str(tmp_path / "credentials")]) as running:
        yield running


def test_sighup_loads_valid_credentials_and_refuses_invalid_ones(own: Node, tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    first = client(endpoint_of(own), "json", KEY, SECRET)
    later = client(endpoint_of(own), "json", "later", "Secret/+=")
    assert refusal(later.list_queues) == INVALID_TOKEN
    write_credentials(file, later="Secret/+=")
    os.kill(own.pid, signal.SIGHUP)
    eventually(lambda: own.log_text().count("read again") >= WORKERS, "the file is read again")
    assert "QueueUrls" not in later.list_queues()
    file.write_text("[nobody]\nnonsense = secret-word\n")
    os.kill(own.pid, signal.SIGHUP)
    eventually(lambda: own.log_text().count("the old ones stay in force") == WORKERS, "the log says what is wrong")
    assert "QueueUrls" not in first.list_queues()
    assert "secret-word" not in own.log_text()
    file.write_text("[later]\naws_access_key_id = later\naws_secret_access_key = changed\n")
    os.kill(own.pid, signal.SIGHUP)
    eventually(lambda: own.log_text().count("were read again") == 2 * WORKERS, "the file is read again")
    assert refusal(first.list_queues) == INVALID_TOKEN
    assert refusal(later.list_queues) == WRONG_SIGNATURE
    assert own.running


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--sqs", "0.0.0.0:0"], "--tls-certificate"),
        (["--credentials", "absent-file"], "No such file"),
        (["--credentials", "open-file"], "chmod 600"),
    ],
)
def test_unsafe_settings_are_refused_in_one_line(tmp_path: Path, words: list[str], line: str) -> None:
    write_credentials(tmp_path / "open-file")
    (tmp_path / "open-file").chmod(0o644)
    command = [
        *COMMAND,
        "serve",
        "--data",
        "data",
        "--kafka",
        "127.0.0.1:0",
        "--amqp",
        "127.0.0.1:0",
        "--stomp",
        "127.0.0.1:0",
        "--stomp-websocket",
        "127.0.0.1:0",
        "--management",
        "127.0.0.1:0",
        "--prometheus",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
    ]
    ended = subprocess.run(
        [*command, *([] if "--sqs" in words else ["--sqs", "127.0.0.1:0"]), *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, _paths()))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode in (1, 2)
    assert line in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr


def _paths() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
