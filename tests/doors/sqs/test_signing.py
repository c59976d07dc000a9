"""Signatures as botocore makes them, in headers and in URLs, and everything that must not pass."""

from __future__ import annotations

import datetime
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Signer

from longhall.doors.sqs.signing import Verifier
from longhall.doors.sqs.wire import faults
from longhall.doors.sqs.wire.faults import Fault, SqsError
from longhall.front.credentials import Credentials
from longhall.front.identity import Principal
from tests.doors.sqs.clients import client
from tests.doors.sqs.refusing import refused
from tests.doors.sqs.running import Running, running
from tests.front.authentication import of_file

SECRET = "wJalrXUtnFEMI/K7MDENG"
HOST = "127.0.0.1:9324"


def verifier() -> Verifier:
    return Verifier(of_file({"AKIA1": SECRET}))


class Signed:
    """A request as it arrives, signed now."""

    def __init__(self, target: str = "/", body: bytes = b"{}", secret: str = SECRET, **options: Any) -> None:
        headers = {"Host": HOST, "X-Amz-Target": "AmazonSQS.ListQueues", "Content-Type": "application/x-amz-json-1.0"}
        request = AWSRequest(method="POST", url=f"http://{HOST}{target}", data=body, headers=headers)
        credentials = Signer(options.get("access_key", "AKIA1"), secret, options.get("token"))
        SigV4Auth(credentials, options.get("service", "sqs"), options.get("region", "eu-west-7")).add_auth(request)
        self.method = b"POST"
        self.target = target.encode()
        self.headers = {name.lower().encode(): str(value).encode() for name, value in request.headers.items()}
        self.body = body
        self.now_ms = int(datetime.datetime.now(datetime.UTC).timestamp() * 1000)

    def verify(self) -> Principal:
        return verifier().verify(self.method, self.target, self.headers, self.body, self.now_ms)

    def fault(self) -> Fault:
        with pytest.raises(SqsError) as caught:
            self.verify()
        assert SECRET not in caught.value.message
        return caught.value.fault

    def replace(self, header: bytes, old: bytes, new: bytes) -> Signed:
        assert old in self.headers[header]
        self.headers[header] = self.headers[header].replace(old, new)
        return self


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/000000000000/orders",
        "/a%20b/c~d",
        "/?b=2&a=1&a=0",
        "/?q=%2Fx%20y&e=",
        "/a//b/../c/",
        "/?%C3%A9=%E2%82%AC",
    ],
)
def test_what_botocore_signs_is_good(target: str) -> None:
    assert Signed(target).verify().user == "AKIA1"
    assert Signed(target, body=b"\x00\xff" * 1000, token="session").verify().user == "AKIA1"


def test_changes_on_the_way_are_seen() -> None:
    changed = Signed()
    changed.body += b" "
    assert changed.fault() is faults.WRONG_SIGNATURE
    changed = Signed("/a")
    changed.target = b"/b"
    assert changed.fault() is faults.WRONG_SIGNATURE
    changed = Signed("/?a=1")
    changed.target = b"/?a=2"
    assert changed.fault() is faults.WRONG_SIGNATURE
    changed = Signed()
    changed.method = b"GET"
    assert changed.fault() is faults.WRONG_SIGNATURE
    assert Signed().replace(b"x-amz-target", b"ListQueues", b"PurgeQueue").fault() is faults.WRONG_SIGNATURE
    assert Signed().replace(b"host", b"127", b"128").fault() is faults.WRONG_SIGNATURE
    assert Signed().replace(b"authorization", b"eu-west-7", b"eu-west-8").fault() is faults.WRONG_SIGNATURE


def test_headers_that_matter_must_be_signed() -> None:
    added = Signed()
    added.headers[b"x-amz-security-token"] = b"later"
    assert added.fault() is faults.WRONG_SIGNATURE
    hashed = Signed()
    hashed.headers[b"x-amz-content-sha256"] = b"UNSIGNED-PAYLOAD"
    assert hashed.fault() is faults.WRONG_SIGNATURE
    assert Signed().replace(b"authorization", b"host;", b"").fault() is faults.WRONG_SIGNATURE
    lost = Signed()
    del lost.headers[b"content-type"]
    assert lost.fault() is faults.WRONG_SIGNATURE
    extra = Signed()
    extra.headers[b"x-forwarded-for"] = b"1.2.3.4"
    assert extra.verify().user == "AKIA1"


def test_wrong_secrets_keys_and_services() -> None:
    assert Signed(secret="guess").fault() is faults.WRONG_SIGNATURE
    assert Signed(access_key="AKIA2").fault() is faults.INVALID_TOKEN
    assert Signed(service="s3").fault() is faults.WRONG_SIGNATURE


@pytest.mark.parametrize(("minutes", "good"), [(14, True), (-14, True), (16, False), (-16, False), (1e6, False)])
def test_a_signature_holds_a_quarter_of_an_hour(minutes: float, good: bool) -> None:
    late = Signed()
    late.now_ms += int(minutes * 60_000)
    if good:
        assert late.verify().user == "AKIA1"
    else:
        assert late.fault() is faults.WRONG_SIGNATURE


@pytest.mark.parametrize(
    "authorization",
    [
        b"",
        b"Basic YTpi",
        b"AWS4-HMAC-SHA256",
        b"AWS4-HMAC-SHA256 Credential=AKIA1/20260101/r/sqs/aws4_request",
        b"AWS4-HMAC-SHA256 Credential=AKIA1, SignedHeaders=host, Signature=" + b"0" * 64,
        b"AWS4-HMAC-SHA256 Credential=AKIA1/d/r/sqs/aws4_request, Credential=a, SignedHeaders=host, Signature=0",
        b"AWS4-HMAC-SHA256 " + b"," * 1000,
        b"AWS4-HMAC-SHA256 \xff=\xfe",
    ],
)
def test_half_a_signature_is_none(authorization: bytes) -> None:
    odd = Signed()
    odd.headers[b"authorization"] = authorization
    assert odd.fault() is faults.INCOMPLETE_SIGNATURE


def test_other_halves() -> None:
    assert Signed().replace(b"x-amz-date", b"Z", b"").fault() is faults.INCOMPLETE_SIGNATURE
    bare = Signed()
    del bare.headers[b"authorization"]
    assert bare.fault() is faults.MISSING_TOKEN
    signature = Signed().headers[b"authorization"][-64:]
    assert Signed().replace(b"authorization", signature[:8], b"XYZ").fault() in (
        faults.INCOMPLETE_SIGNATURE, faults.WRONG_SIGNATURE)  # fmt: skip
    doubled = Signed().replace(b"authorization", b"SignedHeaders=", b"SignedHeaders=host;")
    assert doubled.fault() is faults.INCOMPLETE_SIGNATURE
    impossible = Signed()
    impossible.headers[b"x-amz-date"] = impossible.headers[b"x-amz-date"][:9] + b"256161Z"
    assert impossible.fault() is faults.INCOMPLETE_SIGNATURE


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    with running(verifier()) as door:
        yield door


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_boto3_with_the_right_and_the_wrong_secret(guarded: Running, protocol: str) -> None:
    sqs = client(guarded.url, protocol, "AKIA1", SECRET)
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x é")
    (message,) = sqs.receive_message(QueueUrl=url, AttributeNames=["SenderId"])["Messages"]
    assert message["Attributes"] == {"SenderId": "AKIA1"}
    wrong = client(guarded.url, protocol, "AKIA1", "guess")
    assert refused(wrong.list_queues)[:2] == ("SignatureDoesNotMatch", 403)
    stranger = client(guarded.url, protocol, "AKIA2", SECRET)
    assert refused(stranger.list_queues)[:2] == ("InvalidClientTokenId", 403)


@pytest.mark.parametrize("version", [b"AWS AKIA1:c2lnbmF0dXJl", b"AWS3-HTTPS AWSAccessKeyId=AKIA1,Signature=x"])
def test_older_signatures_are_not_safe_enough(version: bytes) -> None:
    older = Signed()
    older.headers[b"authorization"] = version
    assert older.fault() is faults.INVALID_SECURITY
    form = Signed(body=b"Action=ListQueues&AWSAccessKeyId=AKIA1&SignatureVersion=2&Signature=x")
    del form.headers[b"authorization"]
    assert form.fault() is faults.INVALID_SECURITY
    address = Signed("/?Action=ListQueues&AWSAccessKeyId=AKIA1&SignatureVersion=2&Signature=x")
    del address.headers[b"authorization"]
    assert address.fault() is faults.INVALID_SECURITY


def test_a_new_secret_holds_at_once_and_the_old_one_no_more() -> None:
    credentials = Credentials({"AKIA1": SECRET})
    checked = Verifier(of_file(credentials))
    old, new = Signed(), Signed(secret="another")
    assert checked.verify(old.method, old.target, old.headers, old.body, old.now_ms).user == "AKIA1"
    credentials.replace({"AKIA1": "another"})
    assert checked.verify(new.method, new.target, new.headers, new.body, new.now_ms).user == "AKIA1"
    with pytest.raises(SqsError) as caught:
        checked.verify(old.method, old.target, old.headers, old.body, old.now_ms)
    assert caught.value.fault is faults.WRONG_SIGNATURE
    credentials.replace({"AKIA2": "another"})
    with pytest.raises(SqsError) as caught:
        checked.verify(new.method, new.target, new.headers, new.body, new.now_ms)
    assert caught.value.fault is faults.INVALID_TOKEN


def get(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=20) as response:
            return response.status, response.read()
    except HTTPError as error:
        return error.code, error.read()


def presigned(door: Running, expires_s: int = 60, **pairs: str) -> str:
    pairs = {"Action": "ListQueues", "Version": "2012-11-05", **pairs}
    request = AWSRequest(method="GET", url=f"{door.url}/?{urlencode(pairs)}")
    SigV4QueryAuth(Signer("AKIA1", SECRET), "sqs", "us-east-1", expires=expires_s).add_auth(request)
    return str(request.url)


def test_presigned_urls(guarded: Running) -> None:
    url = presigned(guarded)
    status, body = get(url)
    assert (status, b"ListQueuesResponse" in body) == (200, True)
    status, body = get(url.replace("ListQueues", "PurgeQueue"))
    assert (status, b"SignatureDoesNotMatch" in body) == (403, True)
    assert get(url + "&Action=PurgeQueue")[0] == 400
    assert get(url.replace("X-Amz-Expires=60", "X-Amz-Expires=61"))[0] == 403
    assert get(presigned(guarded, expires_s=700_000))[0] == 400
    status, body = get(f"{guarded.url}/?Action=ListQueues")
    assert (status, b"MissingAuthenticationToken" in body) == (403, True)


def test_a_presigned_url_holds_as_long_as_it_says(guarded: Running) -> None:
    target = presigned(guarded, expires_s=3600).removeprefix(guarded.url).encode()
    now_ms = int(datetime.datetime.now(datetime.UTC).timestamp() * 1000)
    headers = {b"host": f"127.0.0.1:{guarded.port}".encode()}
    assert verifier().verify(b"GET", target, headers, b"", now_ms + 59 * 60_000).user == "AKIA1"
    for late_ms, fault in ((61 * 60_000, faults.EXPIRED), (-16 * 60_000, faults.WRONG_SIGNATURE)):
        with pytest.raises(SqsError) as caught:
            verifier().verify(b"GET", target, headers, b"", now_ms + late_ms)
        assert caught.value.fault is fault
