"""Every error that the service has, given by a running node to botocore: code, class and status as AWS gives them.

`WAYS` (begun in `provoking.py`) has a way to each error; a test proves that none of the service's model is missing.
What is proved here once is looked at from all sides in the other files.
"""

from __future__ import annotations

import json
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore import UNSIGNED
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from soak.node import Node
from tests.clients.conftest import FreshName, eventually
from tests.clients.serving import WORKERS
from tests.clients.sqs import refusals
from tests.clients.sqs.conftest import CREDENTIALS, REGION, MakeQueue, endpoint_of
from tests.clients.sqs.provoking import MEBIBYTE, WAYS, Stage, Way, gives
from tests.clients.sqs.refusals import MODELLED, Refusal, refusal
from tests.doors.sqs.clients import client, shipped_model
from tests.left_out import leave_out


@pytest.fixture
def stage(careless: Any, make_queue: MakeQueue, fresh_name: FreshName, guarded: Node) -> Stage:
    return Stage(careless, make_queue, fresh_name, endpoint_of(guarded))


def checked(stage: Stage, config: Config | None = None, **credentials: str) -> Any:
    """A client of the node that checks signatures."""
    once = Config(retries={"total_max_attempts": 1}, parameter_validation=False)
    config = once.merge(config) if config is not None else once
    who = {**CREDENTIALS, **credentials}
    return boto3.client("sqs", endpoint_url=stage.guarded, region_name=REGION, config=config, **who)


@gives(refusals.INVALID_ACTION)
def _(stage: Stage) -> Refusal:
    odd = checked(stage, Config(signature_version=UNSIGNED))

    def rename(request: Any, **_: Any) -> None:
        request.headers["X-Amz-Target"] = "AmazonSQS.FlyAway"

    odd.meta.events.register("before-send.sqs.ListQueues", rename)
    return refusal(odd.list_queues)


@gives(refusals.ACCESS_DENIED)
def _(stage: Stage) -> Refusal:
    """What the page of another site makes a browser send."""

    def leave_a_trace(request: Any, **_: Any) -> None:
        request.headers["Origin"] = "https://example.org"

    stage.sqs.meta.events.register("before-send.sqs.ListQueues", leave_a_trace)
    try:
        return refusal(stage.sqs.list_queues)
    finally:
        stage.sqs.meta.events.unregister("before-send.sqs.ListQueues", leave_a_trace)


# Keys that cannot be used.


def key_is(state: str) -> Way:
    def way(stage: Stage) -> Refusal:
        sqs = checked(stage)
        attributes = {"KmsMasterKeyId": f"alias/{state}"}
        url = sqs.create_queue(QueueName=stage.name("locked"), Attributes=attributes)["QueueUrl"]
        entries = [{"Id": "a", "MessageBody": "x"}]
        told = refusal(sqs.send_message, QueueUrl=url, MessageBody="x")
        assert refusal(sqs.send_message_batch, QueueUrl=url, Entries=entries) == told
        assert refusal(sqs.receive_message, QueueUrl=url) == told
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": "alias/enabled"})
        assert not sqs.receive_message(QueueUrl=url).get("Messages")
        return told

    return way


gives(refusals.KMS_ACCESS_DENIED)(key_is("denied"))
gives(refusals.KMS_DISABLED)(key_is("disabled"))
gives(refusals.KMS_INVALID_KEY_USAGE)(key_is("signing"))
gives(refusals.KMS_INVALID_STATE)(key_is("pending-deletion"))
gives(refusals.KMS_NOT_FOUND)(key_is("absent"))
gives(refusals.KMS_OPT_IN_REQUIRED)(key_is("not-subscribed"))
gives(refusals.KMS_THROTTLED)(key_is("throttled"))


# Signatures.


@gives(refusals.INVALID_TOKEN)
def _(stage: Stage) -> Refusal:
    return refusal(checked(stage, aws_access_key_id="stranger").list_queues)


@gives(refusals.WRONG_SIGNATURE)
def _(stage: Stage) -> Refusal:
    return refusal(checked(stage, aws_secret_access_key="guessed").list_queues)


@gives(refusals.MISSING_TOKEN)
def _(stage: Stage) -> Refusal:
    return refusal(checked(stage, Config(signature_version=UNSIGNED)).list_queues)


@gives(refusals.INCOMPLETE_SIGNATURE)
def _(stage: Stage) -> Refusal:
    odd = checked(stage)

    def cut(request: Any, **_: Any) -> None:
        whole = request.headers["Authorization"]
        request.headers["Authorization"] = (whole.decode() if isinstance(whole, bytes) else whole).partition(",")[0]

    odd.meta.events.register("before-send.sqs.ListQueues", cut)
    return refusal(odd.list_queues)


@gives(refusals.INVALID_SECURITY)
def _(stage: Stage) -> Refusal:
    return refusal(client(stage.guarded, "query", **_pair(), config=Config(signature_version="v2")).list_queues)


@gives(refusals.EXPIRED)
def _(stage: Stage) -> Refusal:
    sqs = client(stage.guarded, "query", **_pair())
    good_for_a_second = sqs.generate_presigned_url("list_queues", ExpiresIn=1)

    def replace(request: Any, **_: Any) -> None:
        request.url, request.method, request.body = good_for_a_second, "GET", None
        for name in tuple(request.headers):
            del request.headers[name]

    time.sleep(2.1)  # Times in signatures are whole seconds.
    sqs.meta.events.register("before-send.sqs.ListQueues", replace)
    return refusal(sqs.list_queues)


def _pair() -> dict[str, str]:
    return {"access_key": CREDENTIALS["aws_access_key_id"], "secret": CREDENTIALS["aws_secret_access_key"]}


# Memory.


@gives(refusals.THROTTLED)
def _(stage: Stage) -> Refusal:
    """Who does not read what it asked for fills the memory; nobody is given more until it does or is gone."""
    if WORKERS > 1:
        leave_out("memory that is full: each worker has its own, and the system chooses who serves a connection")
    sqs = checked(stage)
    url = sqs.create_queue(QueueName=stage.name("large"))["QueueUrl"]
    other = sqs.create_queue(QueueName=stage.name("other"))["QueueUrl"]
    for _ in range(30):
        sqs.send_message(QueueUrl=url, MessageBody="x" * MEBIBYTE)
    lazy = [_asks_and_does_not_read(stage, url) for _ in range(3)]

    def throttled() -> bool:
        try:
            sqs.receive_message(QueueUrl=other)
        except ClientError:
            return True
        return False

    try:
        eventually(throttled, "receivers are throttled")
        told = refusal(sqs.receive_message, QueueUrl=other)
        patient = checked(stage, Config(retries={"total_max_attempts": 2, "mode": "legacy"}))
        with pytest.raises(ClientError) as caught:
            patient.receive_message(QueueUrl=other)
        assert caught.value.response["ResponseMetadata"]["RetryAttempts"] == 1
        assert sqs.send_message(QueueUrl=other, MessageBody="who sends is not held up")["MessageId"]
    finally:
        for connection in lazy:
            connection.close()
    eventually(lambda: not throttled(), "receivers are served again")
    return told


def _asks_and_does_not_read(stage: Stage, url: str) -> socket.socket:
    body = json.dumps({"QueueUrl": url, "MaxNumberOfMessages": 10}).encode()
    headers = {"X-Amz-Target": "AmazonSQS.ReceiveMessage", "Content-Type": "application/x-amz-json-1.0"}
    request = AWSRequest(method="POST", url=stage.guarded + "/", data=body, headers=headers)
    pair = Credentials(CREDENTIALS["aws_access_key_id"], CREDENTIALS["aws_secret_access_key"])
    SigV4Auth(pair, "sqs", REGION).add_auth(request)
    where = urlsplit(stage.guarded)
    lines = [f"{name}: {value}" for name, value in request.headers.items()]
    lines += [f"Host: {where.netloc}", f"Content-Length: {len(body)}", "", ""]
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    connection.connect((where.hostname, where.port))
    connection.sendall("\r\n".join(["POST / HTTP/1.1", *lines]).encode() + body)
    return connection


def test_none_is_missing() -> None:
    shapes = {name for name, shape in shipped_model()["shapes"].items() if shape.get("exception")}
    assert set(MODELLED) == shapes
    assert set(WAYS) == {each for each in vars(refusals).values() if isinstance(each, Refusal)}


@pytest.mark.parametrize("expected", WAYS, ids=lambda each: each.code)
def test_every_error(stage: Stage, expected: Refusal) -> None:
    assert WAYS[expected](stage) == expected
