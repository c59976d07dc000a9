"""Checksums over HTTP: of requests, of responses, and of single messages."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json

import pytest

from longhall.console.api.content_digest import wanted_digest
from soak.node import Node
from tests.console.api.asking import Asking

CRC_OF_DIGITS = "e3069283"  # CRC32C of 123456789, as everybody computes it.
CRC_HEADER = f"crc32c=:{base64.b64encode(bytes.fromhex(CRC_OF_DIGITS)).decode()}:"
RAW = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def queue(ask: Asking, name: str) -> str:
    ask.good("POST", "queues", {"name": name, "settings": {"whole_bytes_max": 1 << 20, "message_bytes_max": 1024}})
    return name


def depth(ask: Asking, queue: str) -> int:
    return int(ask.good("GET", f"queues/{queue}")["depth"]["available"])


def test_a_message_has_its_checksum_from_the_sender_to_the_receiver(ask: Asking, queue: str) -> None:
    path = f"queues/{queue}/messages"
    ask.good("POST", path, {"messages": [{"body": "123456789", "crc32c": CRC_OF_DIGITS}]})
    assert ask.raw("POST", f"{path}?crc32c={CRC_OF_DIGITS.upper()}", b"123456789", RAW)[0] == 200
    received = ask.good("POST", f"queues/{queue}/receive", {"count": 2})["messages"]
    assert [one["crc32c"] for one in received] == [CRC_OF_DIGITS] * 2


def test_a_wrong_checksum_is_refused_and_nothing_is_stored(ask: Asking, queue: str) -> None:
    path = f"queues/{queue}/messages"
    for body, crc in (("12345678", CRC_OF_DIGITS), ("123456789", "00000000")):
        messages = [{"body": "fine"}, {"body": body, "crc32c": crc}]
        status, said = ask("POST", path, {"messages": messages})
        assert (status, said["code"]) == (400, "corrupt-message")
    status, said = ask.raw("POST", f"{path}?crc32c={CRC_OF_DIGITS}", b"12345678", RAW)
    assert (status, said["code"]) == (400, "corrupt-message")
    status, said = ask("POST", path, {"messages": [{"body": "x", "crc32c": "not hexadecimal"}]})
    assert (status, said["code"]) == (400, "invalid-request")
    assert depth(ask, queue) == 0


def test_a_request_is_verified_by_every_checksum_that_is_known(ask: Asking, queue: str) -> None:
    path = f"queues/{queue}/messages"
    sha = base64.b64encode(hashlib.sha256(b"123456789").digest()).decode()
    good = [CRC_HEADER, f"sha-256=:{sha}:", f"md5=:AAAA:, sha-256=:{sha}: , {CRC_HEADER}"]
    for header in good:
        assert ask.raw("POST", path, b"123456789", {**RAW, "Content-Digest": header})[0] == 200
    assert depth(ask, queue) == len(good)
    for header, code in (
        (f"sha-256=:{sha[:-4]}AAA=:", "corrupt-message"),
        (f"{CRC_HEADER}, sha-256=:AAAA:", "corrupt-message"),
        ("md5=:AAAA:", "invalid-request"),
        ("crc32c=5", "invalid-request"),
        ("crc32c=:?:", "invalid-request"),
        ("", "invalid-request"),
    ):
        status, said = ask.raw("POST", path, b"123456789", {**RAW, "Content-Digest": header})
        assert (status, said["code"]) == (400, code), header
    assert depth(ask, queue) == len(good)
    # The same for parts of a large message, before they are stored.
    upload = ask.good("POST", f"queues/{queue}/uploads")["upload_id"]
    part = f"queues/{queue}/uploads/{upload}/parts/0"
    assert ask.raw("PUT", part, b"12345678", {**RAW, "Content-Digest": CRC_HEADER})[0] == 400
    assert ask.raw("PUT", part, b"123456789", {**RAW, "Content-Digest": CRC_HEADER})[0] == 200


def test_a_response_has_the_checksum_that_the_client_wants(ask: Asking, node: Node, queue: str) -> None:
    body = "film " * 1000
    ask.good("POST", f"queues/{queue}/messages", {"messages": [{"body": body}]})
    connection = http.client.HTTPConnection(node.http, timeout=30)
    for wanted, algorithm in (
        ("sha-256=3, crc32c=5", "crc32c"),
        ("sha-512=1", "sha-512"),
        ("md5=9, sha-256=1", "sha-256"),
    ):
        connection.request("GET", f"/api/v1/queues/{queue}", headers={"Want-Content-Digest": wanted})
        response = connection.getresponse()
        data = response.read()
        name, _, value = (response.headers["Content-Digest"] or "").partition("=")
        assert name == algorithm
        if algorithm != "crc32c":
            expected = hashlib.new(algorithm.replace("-", ""), data).digest()
            assert base64.b64decode(value.strip(":")) == expected
    connection.request("GET", f"/api/v1/queues/{queue}")
    response = connection.getresponse()
    assert json.loads(response.read())["name"] == queue
    assert response.headers["Content-Digest"] is None
    connection.close()


def test_the_preference_of_a_client_is_read() -> None:
    assert wanted_digest(None) == wanted_digest(b"") == wanted_digest(b"md5=1, sha-256=0, crc32c=x") == ""
    assert wanted_digest(b"crc32c=1, sha-512=10") == "sha-512"
